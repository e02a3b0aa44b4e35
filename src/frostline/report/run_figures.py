"""Figures of a run: test results, quality against cost of the plans, and learning curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from frostline.charts import Figure, Row
from frostline.charts.draw import bars, lines, scatter
from frostline.charts.theme import BLUE, GREY, RED
from frostline.records import TrialResult, TrialSpec
from frostline.records.run import Decision, RunRecord
from frostline.records.tuned import EvaluationStep
from frostline.report.result_folder import Opened
from frostline.tasks.metrics import METRICS, TaskMetric


def run_figures(opened: Opened) -> list[Figure]:
    """Return the test results, the race and the learning curves."""
    run = opened.run
    return [*_tests(run), *_race(run), *_curves(run, opened.trials)]


def _scale(metric: TaskMetric) -> tuple[float, str]:
    """Return the factor by which values of the metric are drawn, and its unit for the axis."""
    return metric.points, " in points" if metric.points == 100 else ""


# The tests and the race ----------------------------------------------------------------------------------------------


def _tests(run: RunRecord) -> list[Figure]:
    """Return bars of the choice and the baselines on the test rows."""
    metric = METRICS[run.task.metric]
    scale, unit = _scale(metric)
    rows = [
        {"model": test.name, metric.name: scale * test.metrics[metric.name], "low": scale * test.low,
         "high": scale * test.high}
        for test in run.tests
    ]  # fmt: skip
    if not rows:
        return []
    full = next((test for test in run.tests if run.entry(test.trial).plan.embeddings and test.choice_minus_it), None)
    reached = metric.shown(run.tests[0].metrics[metric.name])
    title = f"The chosen plan reaches {reached} points of {metric.name} on the test rows"
    if not unit:
        title = f"The chosen plan has a {metric.name} of {reached} on the test rows"
    if full is not None:
        title += f", {full.choice_minus_it} against full fine-tuning"
        title += "" if metric.higher_is_better else " (+ is better)"
    colours = {test.name: RED if place == 0 else GREY for place, test in enumerate(run.tests)}
    spec = bars(rows, "model", metric.name, x_title="", y_title=f"{metric.name}{unit}, 95% intervals over test rows",
                interval=("low", "high"), colour="model", colours=colours)  # fmt: skip
    alt = f"Bars of test {metric.name} of the chosen plan and the baselines"
    return [Figure(name="tests", title=title, alt=alt, spec=spec, rows=tuple(rows))]


def race_rows(run: RunRecord) -> list[dict[str, Any]]:
    """Return every plan of the last round once, with its costs."""
    metric = METRICS[run.task.metric]
    scale, gain = _scale(metric)[0], metric.gain
    best: dict[str, dict[str, Any]] = {}
    for entry in run.final:
        name, cost = entry.plan.name, run.cost(entry.plan)
        row = {
            "plan": name,
            "validation": scale * entry.validation[metric.name],
            "seconds": entry.seconds,
            "trainable": None if cost is None else cost.trainable,
            "latency": None if cost is None else cost.latency,
            "role": "chosen" if entry.trial == run.decision.chosen else "tried",
            "because": entry.plan.because,
        }
        if name not in best or gain * (row["validation"] - best[name]["validation"]) > 0 or row["role"] == "chosen":
            best[name] = row
    rows = list(best.values())
    for row in rows:
        row["on_front"] = not any(
            gain * (other["validation"] - row["validation"]) >= 0 and other["seconds"] < row["seconds"]
            for other in rows
        )
    return rows


def _as_good(decision: Decision) -> str:
    """Return how many plans of the last round cannot be told apart from the best."""
    near = sum(trial != decision.best and gap.high >= 0 for trial, gap in decision.against_best.items())
    return f"; {near} cannot be told apart from it" if near else ""


def _race(run: RunRecord) -> list[Figure]:
    rows, metric = race_rows(run), METRICS[run.task.metric]
    if not rows:
        return []
    unit = _scale(metric)[1]
    best = max(rows, key=lambda row: metric.gain * row["validation"])
    chosen = next((row for row in rows if row["role"] == "chosen"), best)
    if chosen is best:
        title = f"{chosen['plan']} is the best of {len(rows)} plans on validation{_as_good(run.decision)}"
    else:
        share = chosen["seconds"] / best["seconds"]
        behind = abs(best["validation"] - chosen["validation"])
        how = f"{behind:.1f} points below it" if unit else f"{behind:.3g} worse"
        title = f"{chosen['plan']} takes {share:.0%} of the time of {best['plan']}, {how}"
    y_title = f"{_judged_by(metric)}{unit}"
    spec = scatter(rows, "seconds", "validation", x_title="seconds of tuning", y_title=y_title, colour="role",
                   colour_title="", colours={"chosen": RED, "tried": BLUE}, label="plan",
                   joined="on_front")  # fmt: skip
    return [
        Figure(
            name="race",
            title=title,
            alt="Points for the plans of the last round: seconds of tuning across, validation quality upwards",
            spec=spec,
            rows=tuple(rows),
            paper="Xie et al. 2022, figures 4 and 5",
            notes=("the dashed line connects plans that no faster plan matches",),
        )
    ]


# Learning curves -----------------------------------------------------------------------------------------------------


def _curves(run: RunRecord, trials: Iterable[tuple[TrialSpec, TrialResult]]) -> list[Figure]:
    """Return the learning curves of the plans of the last round."""
    metric, last = METRICS[run.task.metric], {entry.trial for entry in run.final}
    rows: list[Row] = []
    for spec, result in trials:
        if spec.id in last:
            rows += _epochs(_name(spec), result.history, metric)
    return _learning(rows, metric)


def _name(spec: TrialSpec) -> str:
    """Return the name of a trial's curve: its plan and learning rate."""
    rate = spec.recipe.learning_rate
    return spec.plan.name if rate is None else f"{spec.plan.name} at {rate:g}"


def tuned_curves(opened: Opened) -> list[Figure]:
    """Return the learning curves of a model that was tuned by a given plan."""
    metric = METRICS[opened.result.task.metrics[0]]
    return _learning(_epochs(opened.result.plan.name, opened.history, metric), metric)


def _epochs(plan: str, history: Iterable[EvaluationStep], metric: TaskMetric) -> list[Row]:
    """Return a row for each evaluation and measured quantity."""
    names = {f"validation_{metric.name}": (_judged_by(metric), _scale(metric)[0]), "loss": ("training loss", 1),
             "validation_loss": ("validation loss", 1)}  # fmt: skip
    return [
        {"plan": plan, "epoch": step["epoch"], "what": what, "value": scale * step[key]}
        for step in history
        for key, (what, scale) in names.items()
        if key in step
    ]


def _judged_by(metric: TaskMetric) -> str:
    """Return the heading of the curves of the deciding metric."""
    return f"validation {metric.name}"


def _learning(rows: Sequence[Row], metric: TaskMetric) -> list[Figure]:
    """Return curves of quality and losses over epochs."""
    if not rows:
        return []
    return [
        Figure(
            name="learning",
            title=_best_epoch(rows, metric),
            alt="Curves over epochs of validation quality and of the losses, for every plan",
            spec=lines(rows, "epoch", "value", x_title="epoch", y_title="", colour="plan", colour_title="",
                       panel="what", independent=True),
            rows=tuple(rows),
        )
    ]  # fmt: skip


def _best_epoch(rows: Sequence[Row], metric: TaskMetric) -> str:
    quality = [row for row in rows if row["what"] == _judged_by(metric)]
    if not quality:
        return "The training loss over epochs"
    best = max(quality, key=lambda row: metric.gain * float(row["value"]))
    last = max(row["epoch"] for row in quality if row["plan"] == best["plan"])
    value = f"{best['value']:.1f} points" if _scale(metric)[1] else f"a {metric.name} of {best['value']:.4g}"
    return f"{best['plan']} is best after epoch {best['epoch']:.3g} of {last:.3g}: {value} on validation"
