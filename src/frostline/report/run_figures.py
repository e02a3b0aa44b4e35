"""Figures of a run: how good the plans are for what they cost, how they learnt, and where the model errs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Figure, Row
from frostline.charts.draw import as_spec, bars, lines, scatter, tooltips
from frostline.charts.theme import BLUE, GREY, RED, SEQUENTIAL
from frostline.records import Plan
from frostline.records.difference import Difference
from frostline.report.opened import Opened
from frostline.tasks.metrics import METRICS

_MOST_POINTS = 2000  # that are drawn of values to predict
_MOST_CLASSES = 40  # beyond it a matrix of classes is a carpet
_MOST_ERRORS = 20  # that are then drawn in its place


def run_figures(opened: Opened) -> list[Figure]:
    """The tests, the race, the learning curves and the errors."""
    found = [*_tests(opened), *_race(opened), *_curves(opened), *error_figures(opened)]
    return [figure for figure in found if figure.rows]


def _scale(metric: str) -> tuple[float, str]:
    """Times what the metric is drawn, and what its axis says of that."""
    points = METRICS[metric].points
    return points, " in points" if points == 100 else ""


# The tests and the race ----------------------------------------------------------------------------------------------


def _tests(opened: Opened) -> list[Figure]:
    """The choice and the baselines on the test rows."""
    run, metric = opened.run, opened.run["task"]["metric"]
    scale, unit = _scale(metric)
    rows = [
        {"model": test["name"], metric: scale * test["metrics"][metric], "low": scale * test["low"],
         "high": scale * test["high"]}
        for test in run["tests"]
    ]  # fmt: skip
    if not rows:
        return []
    plans = {entry["trial"]: Plan.from_json(entry["plan"]) for rung in run["race"] for entry in rung}
    is_full = {trial for trial, plan in plans.items() if plan.embeddings}
    full = next((test for test in run["tests"] if test["trial"] in is_full and test["choice_minus_it"]), None)
    reached = METRICS[metric].shown(run["tests"][0]["metrics"][metric])
    title = f"The choice reaches {reached} points of {metric} on the test rows"
    if not unit:
        title = f"The choice has a {metric} of {reached} on the test rows"
    if full is not None:
        title += f", {Difference(**full['choice_minus_it'])} against full fine-tuning"
        title += "" if METRICS[metric].higher_is_better else " (+ is better)"
    colours = {test["name"]: RED if place == 0 else GREY for place, test in enumerate(run["tests"])}
    spec = bars(rows, "model", metric, x_title="", y_title=f"{metric}{unit}, 95% intervals over test rows",
                interval=("low", "high"), colour="model", colours=colours)  # fmt: skip
    return [Figure(name="tests", title=title, alt=f"Bars of test {metric} of the choice and the baselines", spec=spec,
                   rows=tuple(rows))]  # fmt: skip


def plan_name(plan: Mapping[str, Any]) -> str:
    """The plan as it is printed, with its method where that is not the usual one."""
    shown = str(Plan.from_json(plan))
    return shown if plan["method"] == "full" else f"{shown} {plan['method']}"


def race_rows(opened: Opened) -> list[dict[str, Any]]:
    """Every plan that was tried on the whole budget, once, with what it costs."""
    run, metric = opened.run, opened.run["task"]["metric"]
    scale, gain = _scale(metric)[0], METRICS[metric].gain
    costs = {plan_name(one["plan"]): one["cost"] for one in run["proposals"]}
    chosen = run["decision"]["chosen"]
    best: dict[str, dict[str, Any]] = {}
    for entry in run["race"][-1] if run["race"] else []:
        name = plan_name(entry["plan"])
        row = {
            "plan": name,
            "validation": scale * entry["validation"][metric],
            "seconds": entry["seconds"],
            "trainable": costs.get(name, {}).get("trainable"),
            "latency": costs.get(name, {}).get("latency"),
            "role": "chosen" if entry["trial"] == chosen else "tried",
            "because": entry["plan"]["because"],
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


def _untold(opened: Opened) -> str:
    """How many plans of the last round cannot be told apart from the best."""
    decision = opened.run["decision"]
    near = sum(trial != decision["best"] and gap["high"] >= 0 for trial, gap in decision["against_best"].items())
    return f"; {near} cannot be told apart from it" if near else ""


def _race(opened: Opened) -> list[Figure]:
    rows, metric = race_rows(opened), opened.run["task"]["metric"]
    if not rows:
        return []
    judged, unit = METRICS[metric], _scale(metric)[1]
    best = max(rows, key=lambda row: judged.gain * row["validation"])
    chosen = next((row for row in rows if row["role"] == "chosen"), best)
    if chosen is best:
        title = f"{chosen['plan']} is the best of {len(rows)} plans on validation{_untold(opened)}"
    else:
        share = chosen["seconds"] / best["seconds"]
        behind = abs(best["validation"] - chosen["validation"])
        how = f"{behind:.1f} points below it" if unit else f"{behind:.3g} worse"
        title = f"{chosen['plan']} takes {share:.0%} of the time of {best['plan']}, {how}"
    spec = scatter(rows, "seconds", "validation", x_title="seconds of tuning", y_title=f"validation {metric}{unit}",
                   colour="role", colour_title="", colours={"chosen": RED, "tried": BLUE}, label="plan",
                   joined="on_front")  # fmt: skip
    return [
        Figure(
            name="race",
            title=title,
            alt="Points for the plans of the last round: seconds of tuning across, validation quality upwards",
            spec=spec,
            rows=tuple(rows),
            paper="paper 1, figures 4 and 5",
            notes=("the dashed line joins plans that no other one beats at less time",),
        )
    ]


# Learning curves -----------------------------------------------------------------------------------------------------


def _curves(opened: Opened) -> list[Figure]:
    """How the plans of the last round learnt, epoch by epoch."""
    metric = opened.run["task"]["metric"]
    last = {entry["trial"]: entry for rung in opened.run["race"][-1:] for entry in rung}
    rows: list[dict[str, Any]] = []
    for spec, result in opened.trials:
        if spec.id in last:
            name = f"{plan_name(last[spec.id]['plan'])} at {spec.recipe.learning_rate:g}"
            rows += _epochs(name, result.history, metric)
    return learning_figures(rows, metric)


def tuned_curves(opened: Opened) -> list[Figure]:
    """How a model that was tuned without a race learnt."""
    metric = opened.result["task"]["metrics"][0]
    rows = _epochs(plan_name(opened.result["plan"]), opened.history, metric)
    return learning_figures(rows, metric)


def _epochs(plan: str, history: Sequence[Mapping[str, Any]], metric: str) -> list[dict[str, Any]]:
    """A row for each evaluation and each of what was found then."""
    names = {f"validation_{metric}": (_judged_by(metric), _scale(metric)[0]), "loss": ("training loss", 1),
             "validation_loss": ("validation loss", 1)}  # fmt: skip
    return [
        {"plan": plan, "epoch": record["epoch"], "what": what, "value": scale * record[key]}
        for record in history
        for key, (what, scale) in names.items()
        if record.get(key) is not None
    ]


def _judged_by(metric: str) -> str:
    """The heading of the curves of the deciding metric."""
    return f"validation {metric}"


def learning_figures(rows: Sequence[Row], metric: str) -> list[Figure]:
    """Curves over epochs of quality and losses."""
    if not rows:
        return []
    return [
        Figure(
            name="learning",
            title=_learnt(rows, metric),
            alt="Curves over epochs of validation quality and of the losses, for every plan",
            spec=lines(rows, "epoch", "value", x_title="epoch", y_title="", colour="plan", colour_title="",
                       panel="what", independent=True),
            rows=tuple(rows),
        )
    ]  # fmt: skip


def _learnt(rows: Sequence[Row], metric: str) -> str:
    mine = [row for row in rows if row["what"] == _judged_by(metric)]
    if not mine:
        return "The training loss over epochs"
    best = max(mine, key=lambda row: METRICS[metric].gain * float(row["value"]))
    last = max(row["epoch"] for row in mine if row["plan"] == best["plan"])
    value = f"{best['value']:.1f} points" if _scale(metric)[1] else f"a {metric} of {best['value']:.4g}"
    return f"{best['plan']} is best after epoch {best['epoch']:g} of {last:g}: {value} on validation"


# Errors --------------------------------------------------------------------------------------------------------------


def judged_rows(opened: Opened) -> tuple[str, list[dict[str, Any]]]:
    """The split that errors are shown of, and its predictions: test rows, or validation rows where there are none."""
    splits = {record["split"] for record in opened.predictions}
    split = "test" if "test" in splits else "validation"
    return split, [record for record in opened.predictions if record["split"] == split and "label" in record]


def error_figures(opened: Opened) -> list[Figure]:
    """Which classes are taken for which, or predictions against true values."""
    split, records = judged_rows(opened)
    if not records:
        return []
    if records[0]["probabilities"] is None:
        return [_residuals(split, records)]
    counted = Counter((str(record["label"]), str(record["prediction"])) for record in records)
    names = sorted({name for pair in counted for name in pair})
    totals = Counter(str(record["label"]) for record in records)
    if len(names) > _MOST_CLASSES:
        return [_confusions(split, counted, totals)]
    rows = [
        {"label": label, "prediction": guess, "texts": counted[label, guess],
         "share": counted[label, guess] / totals[label] if totals[label] else None}
        for label in names
        for guess in names
    ]  # fmt: skip
    return [Figure(name="confusion", title=_confused(counted, totals), paper="",
                   alt=f"Matrix of true classes and predictions on the {split} rows, with how many texts each has",
                   spec=_matrix(rows, names), rows=tuple(rows))]  # fmt: skip


def _confusions(split: str, counted: Mapping[tuple[str, str], int], totals: Mapping[str, int]) -> Figure:
    """The most frequent errors, where a matrix of all classes could not be read."""
    wrong = sorted(((count, pair) for pair, count in counted.items() if pair[0] != pair[1]), key=lambda one: -one[0])
    rows = [{"error": f"{_short(label)} taken for {_short(guess)}", "texts": count, "of": totals[label]}
            for count, (label, guess) in wrong[:_MOST_ERRORS]]  # fmt: skip
    return Figure(name="confusion", title=_confused(counted, totals), paper="",
                  alt=f"Bars of how many {split} texts each of the most frequent errors has",
                  spec=bars(rows, "error", "texts", x_title="", y_title="texts"), rows=tuple(rows),
                  notes=(f"too many classes for a matrix: the {len(rows)} most frequent errors",))  # fmt: skip


def _confused(counted: Mapping[tuple[str, str], int], totals: Mapping[str, int]) -> str:
    wrong = {pair: count for pair, count in counted.items() if pair[0] != pair[1]}
    if not wrong:
        return "Every text is classified rightly"
    (label, guess), count = max(wrong.items(), key=lambda item: item[1])
    return f"The most frequent error: {_short(label)} taken for {_short(guess)}, {count} of {totals[label]} texts"


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:37]}..."


def _matrix(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    import altair as alt

    side = 46 if len(names) <= 8 else 22
    square = alt.Chart().encode(
        x=alt.X("prediction:N", title="prediction", sort=list(names), axis=alt.Axis(labelAngle=-40, labelLimit=120)),
        y=alt.Y("label:N", title="label", sort=list(names)),
    )
    share = alt.Color("share:Q", title="share of the label", scale=alt.Scale(scheme=SEQUENTIAL, domain=[0, 1]),
                      legend=alt.Legend(orient="right", format=".0%"))  # fmt: skip
    ink = alt.condition("datum.share < 0.6", alt.value("#ffffff"), alt.value("#22201d"))
    parts = [square.mark_rect().encode(color=share, tooltip=tooltips(rows))]
    if side > 30:
        parts.append(square.mark_text(fontSize=11).encode(text="texts:Q", color=ink))
    size = {"width": side * len(names), "height": side * len(names)}
    return as_spec(alt.layer(*parts, data=alt.Data(values=[dict(row) for row in rows])).properties(**size))


def _residuals(split: str, records: Sequence[Mapping[str, Any]]) -> Figure:
    rows = [{"row": record["row"], "label": record["label"], "prediction": record["prediction"],
             "error": record["prediction"] - record["label"]} for record in records]  # fmt: skip
    mean = sum(abs(row["error"]) for row in rows) / len(rows)
    step = -(-len(rows) // _MOST_POINTS)
    notes = () if step == 1 else (f"one in {step} of {len(rows):,} rows is drawn",)
    rows = rows[::step]
    spec = scatter(rows, "label", "prediction", x_title="label", y_title="prediction", trend=True)
    return Figure(
        name="residuals",
        title=f"Predictions are {mean:.2g} away from the label on average",
        alt=f"Points for the {split} rows: the label across, the prediction upwards, and the line of least squares",
        spec=spec,
        rows=tuple(rows),
        notes=notes,
    )


def hardest(opened: Opened, count: int = 10) -> tuple[str, list[dict[str, Any]]]:
    """The split and the rows that the model is most wrong about, the worst first."""
    split, records = judged_rows(opened)
    found = []
    for record in records:
        if record["probabilities"] is None:
            found.append((abs(record["prediction"] - record["label"]), record))
        elif record["prediction"] != record["label"]:
            found.append((record["probabilities"][record["prediction"]], record))
    found.sort(key=lambda pair: (-pair[0], pair[1]["row"]))
    return split, [{**record, "how_wrong": wrong} for wrong, record in found[:count]]
