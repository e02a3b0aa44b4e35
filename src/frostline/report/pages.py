"""What stands on a folder's page: of a run the answer first, of a measurement the scores, of a study its figures."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostline.card import plan_in_words
from frostline.charts import Results
from frostline.errors import OptionError
from frostline.folders import write_text
from frostline.named_options import as_word
from frostline.notebook import layer_stack
from frostline.records import LayerScore, LayerScores, Plan
from frostline.report.opened import Opened, damaged, open_folder
from frostline.report.page import Page, Section, render
from frostline.report.run_figures import error_figures, hardest, plan_name, run_figures, tuned_figures
from frostline.report.score_figures import score_figures
from frostline.runner.statistics import Difference
from frostline.strategies import STRATEGIES
from frostline.studies import STUDIES
from frostline.table import Table, table_of
from frostline.tasks.metrics import METRICS, TaskMetric


def write_report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the report of a folder as one HTML file, by default `report.html` in it, and say where.

    Args:
        folder: that measure, run, tune or study has written.
        path: of the file.
    """
    opened = open_folder(folder)
    place = opened.folder / "report.html" if path is None else Path(path)
    if place.is_dir():
        raise OptionError(f"{place}: is a folder; give a file to write to")
    if place.suffix not in (".html", ".htm"):
        raise OptionError(f"--output {place}: must end in .html; --figures DIR --format pdf writes the charts")
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, render(page_of(opened)))
    return place


def page_of(opened: Opened) -> Page:
    """What stands on the folder's page."""
    make = {"run": _run, "measurement": _measurement, "tuned": _tuned, "study": _study}[opened.kind]
    try:
        return make(opened)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise damaged(opened.folder, error) from error


# Runs ----------------------------------------------------------------------------------------------------------------


def _run(opened: Opened) -> Page:
    run = opened.run
    plan, depth = Plan.from_json(run["plan"]), int(run["encoder"]["layers"])
    figures = {figure.name: figure for figure in run_figures(opened)}
    sections = []
    if "tests" in figures:
        text = ["The test rows were read once, after the choice was made on validation."]
        sections.append(Section(name="Quality", text=text, figures=[figures["tests"]], tables=[_tests(run)]))
    sections += _score_sections(opened)
    sections.append(
        Section(
            name="The race",
            figures=[figures[name] for name in ("race", "learning") if name in figures],
            tables=[_rung(run, number) for number in range(len(run["race"]) - 1, -1, -1)],
            text=[f"failed: {line}" for line in run["failed"]],
            legend=_proposers(run),
        )
    )
    sections += _error_sections(opened)
    return Page(
        kind="Run",
        title=f"{run['encoder']['name']} on {run['task']['name']}",
        subtitle="Which layers to tune, which to freeze, which to drop, and where to put the head",
        stack=layer_stack(plan, depth),
        answer=f"The choice: {plan_name(run['plan'])}",
        why=run["decision"]["why"],
        given_up=run["given_up"],
        sections=sections,
        command=_command(opened),
        made=[*_made(opened), *((name, f"{value:.1f} s") for name, value in run["seconds"].items())],
        notes=run["notes"],
    )


def _tests(run: Mapping[str, Any]) -> Table:
    metric = METRICS[run["task"]["metric"]]
    entries = {entry["trial"]: entry for rung in run["race"] for entry in rung}
    costs = {plan_name(one["plan"]): one["cost"] for one in run["proposals"]}
    records = []
    for test in run["tests"]:
        plan = plan_name(entries[test["trial"]]["plan"]) if test["trial"] in entries else ""
        gap, cost = test["choice_minus_it"], costs.get(plan, {})
        said = "" if gap is None else str(Difference(**gap))
        records.append(
            {"model": test["name"], "plan": plan, _column(metric): metric.shown(test["metrics"][metric.name]),
             "95% interval": f"{metric.shown(test['low'])} to {metric.shown(test['high'])}",
             metric.gap("choice minus it"): said,
             "trainable": cost.get("trainable"), "latency": _percent(cost.get("latency"))}
        )  # fmt: skip
    return table_of("tests", "", records)


def _rung(run: Mapping[str, Any], number: int) -> Table:
    metric, rung = METRICS[run["task"]["metric"]], run["race"][number]
    against = run["decision"]["against_best"]
    costs = {plan_name(one["plan"]): one["cost"] for one in run["proposals"]}
    records = []
    for entry in rung:
        name = plan_name(entry["plan"])
        gap, cost = against.get(entry["trial"]), costs.get(name, {})
        record = {"plan": ("▶ " if entry["trial"] == run["decision"]["chosen"] else "") + name,
                  _column(metric): metric.shown(entry["validation"][metric.name])}  # fmt: skip
        if number == len(run["race"]) - 1:
            record[metric.gap("minus the best")] = (
                "" if gap is None else str(Difference(value=gap["points"], low=gap["low"], high=gap["high"]))
            )
        record |= {"learning rate": f"{entry['learning_rate']:g}", "trainable": cost.get("trainable"),
                   "latency": _percent(cost.get("latency")), "seconds": round(entry["seconds"], 1),
                   "proposed by": ", ".join(dict.fromkeys(one.split(":")[0] for one in entry["sources"])),
                   "because": entry["plan"]["because"]}  # fmt: skip
        records.append(record)
    epochs = min(entry["epochs"] for entry in rung)  # a head alone has more
    title = f"Round {number + 1}: {rung[0]['train_rows']:,} training rows, {epochs} epoch{'' if epochs == 1 else 's'}"
    return table_of("round", title, records)


def _column(metric: TaskMetric) -> str:
    return f"{metric.name}, points" if metric.points == 100 else metric.name


def _proposers(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The strategies that proposed a plan of the race, and what each does."""
    named = {source.split(":")[0] for rung in run["race"] for entry in rung for source in entry["sources"]}
    return [(name, STRATEGIES[name].summary) for name in STRATEGIES.names() if name in named]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f}%"


def _error_sections(opened: Opened) -> list[Section]:
    """Which classes are taken for which, and the rows that the model is most wrong about."""
    split, worst = hardest(opened)
    figures = error_figures(opened)
    if not (figures or worst):
        return []
    records = []
    for row in worst:
        record = {"row": row["row"], "text": row["text"]}
        if "text_pair" in row:
            record["second text"] = row["text_pair"]
        if "choices" in row:
            record["choices"] = " | ".join(row["choices"])
        record |= {"label": row["label"], "prediction": row["prediction"], "how wrong": round(row["how_wrong"], 3)}
        records.append(record)
    note = "how wrong: the probability that the model gives to its wrong answer, or the distance from the right value"
    tables = (
        [table_of("hardest", f"The {split} rows that it is most wrong about", records, notes=[note])] if records else []
    )
    return [Section(name="Where it errs", figures=figures, tables=tables)]


# Measurements --------------------------------------------------------------------------------------------------------


def _score_sections(opened: Opened) -> list[Section]:
    """The layer scores, if any were measured."""
    scores = opened.scores
    if scores is None or not scores.scores:
        return []
    figures = score_figures(scores)
    alike = [figure for figure in figures if figure.name.startswith("similarity")]
    legend = [
        (name, f"{score.summary} ({score.better} is good{_from(score)})") for name, score in scores.scores.items()
    ]
    found = [
        Section(
            name="Layer scores",
            text=["Measured before any training. The best layer of each score is drawn large."],
            figures=[figure for figure in figures if figure not in alike],
            tables=[_score_table(scores)],
            legend=legend,
        )
    ]
    if alike:
        text = ["1 where two layers say the same of the texts, up to rotation and scale; 0 where they share nothing."]
        found.append(Section(name="Which layers are alike", text=text, figures=alike))
    return found


def _from(score: LayerScore) -> str:
    """Which paper the score is from, or what else."""
    if not score.paper:
        return ""
    return f"; paper {score.paper}" if score.paper[0].isdigit() else f"; {score.paper}"


def _score_table(scores: LayerScores) -> Table:
    records = []
    for layer in range(scores.depth + 1):
        record: dict[str, Any] = {"layer": "embeddings" if layer == 0 else str(layer)}
        for name, score in scores.scores.items():
            value = score.values[layer]
            mark = " *" if layer == score.best else " ~" if layer in score.tied else ""
            record[name] = "" if value is None else f"{value:.3g}{mark}"
        records.append(record)
    return table_of("scores", "", records, notes=["* the best layer; ~ cannot be told apart from it"])


def _measurement(opened: Opened) -> Page:
    scores = opened.scores
    if scores is None:
        raise OptionError(f"{opened.folder}: holds no scores.json; measure again")
    return Page(
        kind="Measurement",
        title=f"{scores.encoder['name']} on {scores.task['name']}",
        subtitle=f"{scores.examples:,} {scores.rows} texts, {scores.depth} layers",
        sections=_score_sections(opened),
        command=_command(opened),
        made=[*_made(opened), *((name, f"{value:.1f} s") for name, value in scores.seconds.items())],
        notes=scores.notes,
    )


# Models that were tuned without a race -------------------------------------------------------------------------------


def _tuned(opened: Opened) -> Page:
    result = opened.result
    plan, depth = Plan.from_json(result["plan"]), int(result["encoder"]["layers"])
    records = [
        {"split": split, **{name: METRICS[name].shown(value) for name, value in metrics.items()}}
        for split, metrics in result["metrics"].items()
    ]
    unit = "In points" if all(METRICS[name].points == 100 for name in result["task"]["metrics"]) else ""
    learning = [figure for figure in tuned_figures(opened) if figure.name == "learning"]
    quality = Section(name="Quality", tables=[table_of("quality", unit, records)], figures=learning)
    return Page(
        kind="Tuned model",
        title=f"{result['encoder']['name']} on {result['task']['name']}",
        stack=layer_stack(plan, depth),
        answer=f"The plan: {plan_name(result['plan'])}",
        why=[f"{plan_in_words(plan, depth)}.", *([f"Why: {plan.because}."] if plan.because else [])],
        given_up=[
            f"{result['parameters']['trainable']:,} of {result['parameters']['total']:,} parameters were trained"
        ],
        sections=[quality, *_error_sections(opened)],
        command=_command(opened),
        made=_made(opened),
    )


# Studies -------------------------------------------------------------------------------------------------------------


def _study(opened: Opened) -> Page:
    asked = opened.study
    name = str(asked["study"])
    known = STUDIES[name] if name in STUDIES.names() else None
    tables = {table.name: table for table in opened.tables}
    options = dict(asked.get("options", {}))
    results = Results(tables=tables, families=asked.get("families", {}), options=options)
    figures = known.draw(results) if known and tables else []
    sections = [Section(name="Figures", figures=figures)] if figures else []
    if tables:
        sections.append(Section(name="Tables", tables=list(tables.values())))
    sections += _failures(opened)
    seeds = asked["seeds"]
    said = [
        *([] if known is None else [f"paper {known.paper}"]),
        f"{', '.join(asked['encoders'])} on {', '.join(asked['tasks'])}",
        f"{seeds} seed{'' if seeds == 1 else 's'}",
        f"{opened.finished} trials",
    ]
    return Page(
        kind=f"Study: {name}",
        title=known.question if known else name,
        subtitle="; ".join(said),
        sections=sections,
        progress=_progress(opened),
        command=_command(opened),
        made=[*_made(opened), *((f"option {name}", as_word(value)) for name, value in options.items())],
        notes=[] if known is None else [" ".join(known.about.split("\n\n")[0].split())],
    )


def _progress(opened: Opened) -> dict[str, Any]:
    if not opened.progress:  # it is there while a study runs
        return {}
    done, total = opened.progress["done"], opened.progress["total"]
    if _has_stopped(opened.progress):
        return {
            "done": done,
            "total": total,
            "said": f"stopped after {done} of {total} trials; the same command goes on",
        }
    failed = len(opened.failures)
    said = f"{done} of {total} trials done" + (f", {failed} failed" if failed else "")
    left = opened.progress.get("seconds_left")
    how_long = "" if not left else ", less than a minute left" if left < 60 else f", about {left / 60:.0f} min left"
    return {"done": done, "total": total, "said": said + how_long}


def _has_stopped(progress: Mapping[str, Any]) -> bool:
    """Whether the process that wrote it is gone; of another machine's nothing is known."""
    if progress.get("host") != socket.gethostname() or not isinstance(progress.get("process"), int):
        return False
    try:
        os.kill(progress["process"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _failures(opened: Opened) -> list[Section]:
    if not opened.failures:
        return []
    rows = [
        {"encoder": spec.encoder["name"], "task": spec.task["name"], "plan": str(spec.plan), "kind": spec.kind,
         "seed": spec.recipe.seed, "learning_rate": spec.recipe.learning_rate, "reason": reason}
        for spec, reason in opened.failures
    ]  # fmt: skip
    table = table_of("failed", "", rows)
    return [Section(name="Trials that failed", tables=[table], text=["--retry-failed runs them again."])]


# What every page has -------------------------------------------------------------------------------------------------


def _command(opened: Opened) -> str:
    return shlex.join(opened.about["command"]) if opened.about.get("command") else ""


def _made(opened: Opened) -> list[tuple[str, str]]:
    versions = dict(opened.about.get("versions", {}))
    said = [(name, str(value)) for name, value in versions.items()]
    return [*said, *((name, str(opened.about[name])) for name in ("seed", "threads") if name in opened.about)]
