"""The pages of models: of a run the answer first, of a model that was tuned without a race its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frostline.plans.strategies import STRATEGIES
from frostline.prediction.model_card import plan_in_words
from frostline.records import Plan
from frostline.records.difference import Difference
from frostline.records.table import Table, table_of
from frostline.report.notebook import layer_stack
from frostline.report.opened import Opened
from frostline.report.page import Page, Section
from frostline.report.run_figures import error_figures, hardest, plan_name, run_figures, tuned_curves
from frostline.report.score_pages import score_sections
from frostline.tasks.metrics import METRICS, TaskMetric


def run_page(opened: Opened) -> Page:
    """What stands on the page of a run."""
    run = opened.run
    plan, depth = Plan.from_json(run["plan"]), int(run["encoder"]["layers"])
    figures = {figure.name: figure for figure in run_figures(opened)}
    sections = []
    if "tests" in figures:
        text = ["The test rows were read once, after the choice was made on validation."]
        sections.append(Section(name="Quality", text=text, figures=[figures["tests"]], tables=[_tests(run)]))
    sections += score_sections(opened)
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
        command=opened.command,
        made=[*opened.made, *((name, f"{value:.1f} s") for name, value in run["seconds"].items())],
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


def tuned_page(opened: Opened) -> Page:
    """What stands on the page of a model that was tuned without a race."""
    result = opened.result
    plan, depth = Plan.from_json(result["plan"]), int(result["encoder"]["layers"])
    records = [
        {"split": split, **{name: METRICS[name].shown(value) for name, value in metrics.items()}}
        for split, metrics in result["metrics"].items()
    ]
    unit = "In points" if all(METRICS[name].points == 100 for name in result["task"]["metrics"]) else ""
    quality = Section(name="Quality", tables=[table_of("quality", unit, records)], figures=tuned_curves(opened))
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
        command=opened.command,
        made=opened.made,
    )
