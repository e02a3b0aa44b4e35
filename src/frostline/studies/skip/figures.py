"""Figures of models without some of their layers."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.charts import Figure, Results, Row, group_rows, pick_columns
from frostline.charts.draw import bars, heatmap, lines
from frostline.charts.words import BANDS, WHISKERS, clip_intervals, format_range, informative_rows, note_left_out

_LITTLE = 1.0  # points; titles call a smaller loss acceptable


def figures(results: Results) -> list[Figure]:
    """Return the triangle of spans, single layers, and upper against lower spans."""
    layers = results.rows("layers")
    return [_triangle(results.rows("spans"), layers), _singles(layers), _by_length(results.rows("halves"))]


def _triangle(rows: Sequence[Row], layers: Sequence[Row]) -> Figure:
    defined = [row for row in rows if row["minus_full"] is not None]
    drawn = pick_columns(defined, "encoder", "task", "first", "last", "seeds", "mean", "minus_full", case="case")
    learned = {(row["encoder"], row["task"]) for row in informative_rows(layers)}
    # Symmetric, or a gain of a tenth of a point would be as blue as a loss of thirty is orange.
    widest = max((abs(row["minus_full"]) for row in drawn), default=0.0) or 1.0
    return Figure(
        name="spans",
        title=_title_of_spans([row for row in defined if (row["encoder"], row["task"]) in learned]),
        alt="Triangles of squares by the first and the last layer that is left out, coloured by the difference in "
        "quality between the shortened and the whole model",
        spec=heatmap(drawn, "last", "first", "minus_full", x_title="last layer left out",
                     y_title="first layer left out", value_title="points", panel="case",
                     domain=(-widest, widest), middle=0.0),
        rows=tuple(drawn),
        paper="Phang et al. 2021, figure 4",
        notes=("points: quality of the shortened model minus that of the whole one, without further training",
               *note_left_out(layers)),
    )  # fmt: skip


def _title_of_spans(rows: Sequence[Row]) -> str:
    """Return how many layers in a row can be left out at an acceptable cost."""
    groups = [group for _, group in group_rows(rows, "encoder", "task")]
    depths = [max(row["last"] for row in group) for group in groups]
    counts = [max((row["last"] - row["first"] + 1 for row in group if row["minus_full"] > -_LITTLE), default=0)
              for group in groups]  # fmt: skip
    if not counts:
        return "Quality without spans of layers"
    if not any(counts):
        return f"No layer can be left out for less than {_LITTLE:g} point, on average"
    spans = f"{format_range(counts)} of {format_range(depths)} layers in a row"
    return f"{spans} can be left out for less than {_LITTLE:g} point, on average"


def _singles(rows: Sequence[Row]) -> Figure:
    cases = pick_columns(rows, "encoder", "task", "layer", "seeds", "drop", "low", "high", case="case")
    drawn, clipped = clip_intervals(cases, "drop", "low", "high", note=WHISKERS, panel="case", from_zero=True)
    return Figure(
        name="layers",
        title=_title_of_layers(informative_rows(rows)),
        alt="Bars of the points lost without a single layer, with 95% intervals over seeds",
        spec=bars(drawn, "layer", "drop", x_title="layer left out", y_title="points lost", panel="case",
                  interval=("shown_low", "shown_high")),
        rows=tuple(drawn),
        paper="Phang et al. 2021, figure 4",
        notes=("the diagonal of the triangle of spans", *clipped, *note_left_out(rows)),
    )  # fmt: skip


def _title_of_layers(rows: Sequence[Row]) -> str:
    """Return which single layer costs most, on average over encoders and tasks, and the cost of the others."""
    costs = {layer: sum(row["drop"] for row in group) / len(group) for (layer,), group in group_rows(rows, "layer")}
    if not costs:
        return "Points lost without a single layer"
    worst, *others = sorted(costs, key=lambda layer: -costs[layer])
    if costs[worst] < _LITTLE:
        return f"No single layer costs the tuned model {_LITTLE:g} point, on average"
    next_worst = f"; every other single layer costs at most {max(costs[others[0]], 0.0):.1f}" if others else ""
    average = " on average" if len({(row["encoder"], row["task"]) for row in rows}) > 1 else ""
    return f"Without layer {worst} the tuned model loses {costs[worst]:.1f} points{average}{next_worst}"


def _by_length(rows: Sequence[Row]) -> Figure:
    defined = [row for row in rows if row["upper_minus_lower"] is not None]
    drawn, clipped = clip_intervals(
        defined, "upper_minus_lower", "low", "high", note=BANDS, panel="encoder", from_zero=True
    )
    levels = [{"level": 0.0, "name": "", "encoder": encoder} for (encoder,), _ in group_rows(drawn, "encoder")]
    return Figure(
        name="halves",
        title=_title_of_halves(informative_rows(drawn)),
        alt="Curves of the cost of spans of upper layers minus that of lower spans of the same length, over the "
        "length, with 95% intervals over seeds",
        spec=lines(drawn, "length", "upper_minus_lower", x_title="layers left out",
                   y_title="points: upper minus lower", colour="task", panel="encoder", levels=levels,
                   interval=("shown_low", "shown_high")),
        rows=tuple(drawn),
        notes=("above 0, upper spans cost more; spans lie within one half", *clipped, *note_left_out(rows)),
    )  # fmt: skip


def _title_of_halves(rows: Sequence[Row]) -> str:
    """Return whether upper or lower spans cost more, on average over lengths, encoders and tasks."""
    if not rows:
        return "Cost of spans of upper layers minus that of lower ones, in points"
    mean = sum(row["upper_minus_lower"] for row in rows) / len(rows)
    more = "more" if mean > 0 else "less"
    beyond = sum(row["low"] is not None and (row["low"] > 0 or row["high"] < 0) for row in rows)
    return (
        f"Spans of upper layers cost {abs(mean):.1f} points {more} than lower ones of the same length on average, "
        f"beyond chance for {beyond} of {len(rows)} lengths"
    )
