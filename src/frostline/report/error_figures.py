"""Where a model errs: which classes it takes for which, how far its values are off, and the hardest rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Figure, Row
from frostline.charts.draw import as_spec, bars, scatter, tooltips
from frostline.charts.theme import SEQUENTIAL
from frostline.records.prediction import PredictedRow

_MOST_POINTS = 2000  # that are drawn of values to predict
_MOST_CLASSES = 40  # beyond it a matrix of classes is a carpet
_MOST_ERRORS = 20  # that are then drawn in its place


def judged_rows(predictions: Sequence[PredictedRow]) -> tuple[str, list[PredictedRow]]:
    """The split that errors are shown of, and its predictions: test rows, or validation rows where there are none."""
    split = "test" if any(row.split == "test" for row in predictions) else "validation"
    return split, [row for row in predictions if row.split == split and row.label is not None]


def error_figures(predictions: Sequence[PredictedRow]) -> list[Figure]:
    """Which classes are taken for which, or predictions against true values."""
    split, judged = judged_rows(predictions)
    if not judged:
        return []
    if judged[0].probabilities is None:
        return [_residuals(split, judged)]
    counted = Counter((str(row.label), str(row.prediction)) for row in judged)
    names = sorted({name for pair in counted for name in pair})
    totals = Counter(str(row.label) for row in judged)
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
    """The split and the rows that the model is most wrong about, with how wrong it is, the worst first."""
    split, judged = judged_rows(predictions)
    found = []
    for row in judged:
        if row.probabilities is None:
            found.append((abs(_error(row)), row))
        elif row.prediction != row.label:
            found.append((row.probabilities[str(row.prediction)], row))
    return split, sorted(found, key=lambda pair: (-pair[0], pair[1].row))[:count]


def _error(row: PredictedRow) -> float:
    """How far a predicted value is from the right one."""
    return float(row.prediction) - float(row.label or 0)
