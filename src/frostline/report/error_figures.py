"""Figures of a model's errors: confused classes, residuals, and the rows it is most wrong about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Figure, Row
from frostline.charts.draw import as_spec, bars, scatter, tooltips
from frostline.charts.theme import SEQUENTIAL
from frostline.records.prediction import PredictedRow

_MOST_POINTS = 2000  # in a chart of residuals
_MOST_CLASSES = 40  # in a confusion matrix; larger ones cannot be read
_MOST_ERRORS = 20  # in the chart that then replaces the matrix


def judged_rows(predictions: Sequence[PredictedRow]) -> tuple[str, list[PredictedRow]]:
    """Return the split whose errors are shown, and its predictions: the test rows, or else the validation rows."""
    split = "test" if any(row.split == "test" for row in predictions) else "validation"
    return split, [row for row in predictions if row.split == split and row.label is not None]


def error_figures(predictions: Sequence[PredictedRow]) -> list[Figure]:
    """Return the confusion matrix, or predictions against true values for regression."""
    split, judged = judged_rows(predictions)
    if not judged:
        return []
    if judged[0].probabilities is None:
        return [_residuals(split, judged)]
    counted = Counter((str(row.label), str(row.prediction)) for row in judged)
    names = sorted({name for pair in counted for name in pair})
    totals = Counter(str(row.label) for row in judged)
    wrong = Counter({pair: count for pair, count in counted.items() if pair[0] != pair[1]})
    title = "Every text is classified correctly"
    if wrong:
        (label, prediction), count = wrong.most_common(1)[0]
        error = f"{_short(label)} predicted as {_short(prediction)}"
        title = f"The most frequent error: {error}, {count} of {totals[label]} texts"
    if len(names) > _MOST_CLASSES:
        return [_confusions(split, title, wrong, totals)]
    rows = [
        {"label": label, "prediction": prediction, "texts": counted[label, prediction],
         "share": counted[label, prediction] / totals[label] if totals[label] else None}
        for label in names
        for prediction in names
    ]  # fmt: skip
    return [Figure(name="confusion", title=title, paper="",
                   alt=f"Matrix of true classes and predictions on the {split} rows, with how many texts each has",
                   spec=_matrix(rows, names), rows=tuple(rows))]  # fmt: skip


def _confusions(split: str, title: str, wrong: Counter[tuple[str, str]], totals: Mapping[str, int]) -> Figure:
    """Return the most frequent errors, for more classes than a matrix can show."""
    rows = [{"error": f"{_short(label)} predicted as {_short(prediction)}", "texts": count, "of": totals[label]}
            for (label, prediction), count in wrong.most_common(_MOST_ERRORS)]  # fmt: skip
    return Figure(name="confusion", title=title, paper="",
                  alt=f"Bars of how many {split} texts each of the most frequent errors has",
                  spec=bars(rows, "error", "texts", x_title="", y_title="texts"), rows=tuple(rows),
                  notes=(f"too many classes for a matrix: the {len(rows)} most frequent errors",))  # fmt: skip


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


def _residuals(split: str, judged: Sequence[PredictedRow]) -> Figure:
    rows: list[Row] = [
        {"row": row.row, "label": row.label, "prediction": row.prediction, "error": _error(row)} for row in judged
    ]
    mean = sum(abs(_error(row)) for row in judged) / len(judged)
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


def hardest(predictions: Sequence[PredictedRow], count: int = 10) -> tuple[str, list[tuple[float, PredictedRow]]]:
    """Return the split and the rows that the model is most wrong about, with the size of the error, worst first."""
    split, judged = judged_rows(predictions)
    errors = []
    for row in judged:
        if row.probabilities is None:
            errors.append((abs(_error(row)), row))
        elif row.prediction != row.label:
            errors.append((row.probabilities[str(row.prediction)], row))
    return split, sorted(errors, key=lambda pair: (-pair[0], pair[1].row))[:count]


def _error(row: PredictedRow) -> float:
    """Return the difference between a predicted value and the true one."""
    return float(row.prediction) - float(row.label or 0)
