"""What is drawn of models without some of their layers."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import bars, heatmap, lines
from frostline.charts.words import BANDS, WHISKERS, clip_intervals, format_range, informative_rows, note_left_out

_LITTLE = 1.0  # points that titles call little to lose


def figures(results: Results) -> list[Figure]:
    """The triangle of spans, single layers, and upper spans against lower ones."""
    layers = results.rows("layers")
    return [_triangle(results.rows("spans"), layers), _singles(layers), _by_length(results.rows("halves"))]


def _triangle(rows: Sequence[Row], layers: Sequence[Row]) -> Figure:
    known = [row for row in rows if row["minus_full"] is not None]
    wanted = ("encoder", "task", "first", "last", "seeds", "mean", "minus_full")
    drawn = [{"case": name_case(row, known, "encoder", "task"), **{key: row[key] for key in wanted}} for row in known]
    told = {(row["encoder"], row["task"]) for row in informative_rows(layers)}
    # As far to both sides: else a gain of a tenth of a point is as blue as a loss of thirty is orange.
    widest = max((abs(row["minus_full"]) for row in drawn), default=0.0) or 1.0
    return Figure(
        name="spans",
        title=_longest([row for row in known if (row["encoder"], row["task"]) in told]),
        alt="Triangles of squares by the first and the last layer that is left out, coloured by the points of quality "
        "that the shortened model has more or less than the whole one",
        spec=heatmap(drawn, "last", "first", "minus_full", x_title="last layer left out",
                     y_title="first layer left out", value_title="points", panel="case",
                     domain=(-widest, widest), middle=0.0),
        rows=tuple(drawn),
        paper="paper 4, figure 4",
        notes=("points: quality of the shortened model minus that of the whole one, nothing trained in between",
               *note_left_out(layers)),
    )  # fmt: skip


def _longest(rows: Sequence[Row]) -> str:
    """How many layers in a row can be left out at little cost."""
    counts, depths = [], []
    for _, group in group_rows(rows, "encoder", "task"):
        cheap = [row["last"] - row["first"] + 1 for row in group if row["minus_full"] > -_LITTLE]
        counts.append(max(cheap, default=0))
        depths.append(max(row["last"] for row in group))
    if not counts:
        return "Quality without spans of layers"
    if not any(counts):
        return f"No layer can be left out for less than {_LITTLE:g} point, by the means"
    spans = f"{format_range(counts)} of {format_range(depths)} layers in a row"
    return f"{spans} can be left out for less than {_LITTLE:g} point, by the means"


def _singles(rows: Sequence[Row]) -> Figure:
    wanted = ("encoder", "task", "layer", "seeds", "drop", "low", "high")
    whole = [{"case": name_case(row, rows, "encoder", "task"), **{key: row[key] for key in wanted}} for row in rows]
    drawn, cut = clip_intervals(whole, "drop", "low", "high", note=WHISKERS, panel="case", from_zero=True)
    return Figure(
        name="layers",
        title=_dearest(informative_rows(rows)),
        alt="Bars of the points that are lost when a single layer is left out, with 95% intervals over seeds",
        spec=bars(drawn, "layer", "drop", x_title="layer left out", y_title="points lost", panel="case",
                  interval=("shown_low", "shown_high")),
        rows=tuple(drawn),
        paper="paper 4, figure 4",
        notes=("the diagonal of the triangle of spans", *cut, *note_left_out(rows)),
    )  # fmt: skip


def _dearest(rows: Sequence[Row]) -> str:
    """Which single layer costs most, on average over encoders and tasks, and what any other does."""
    costs = {layer: sum(row["drop"] for row in group) / len(group) for (layer,), group in group_rows(rows, "layer")}
    if not costs:
        return "Points lost without a single layer"
    worst, *rest = sorted(costs, key=lambda layer: -costs[layer])
    if costs[worst] < _LITTLE:
        return f"No single layer costs the tuned model {_LITTLE:g} point, on average"
    others = f"; every other single layer costs at most {max(costs[rest[0]], 0.0):.1f}" if rest else ""
    average = " on average" if len({(row["encoder"], row["task"]) for row in rows}) > 1 else ""
    return f"Without layer {worst} the tuned model loses {costs[worst]:.1f} points{average}{others}"


def _by_length(rows: Sequence[Row]) -> Figure:
    whole = [row for row in rows if row["upper_minus_lower"] is not None]
    drawn, cut = clip_intervals(whole, "upper_minus_lower", "low", "high", note=BANDS, panel="encoder", from_zero=True)
    levels = [{"level": 0.0, "name": "", "encoder": encoder} for (encoder,), _ in group_rows(drawn, "encoder")]
    return Figure(
        name="halves",
        title=_missed(informative_rows(drawn)),
        alt="Curves of how many more points spans of upper layers cost than spans of lower layers of the same length, "
        "over the length, with 95% intervals over seeds",
        spec=lines(drawn, "length", "upper_minus_lower", x_title="layers left out",
                   y_title="points: upper minus lower", colour="task", panel="encoder", levels=levels,
                   interval=("shown_low", "shown_high")),
        rows=tuple(drawn),
        notes=("above 0, upper layers are missed more; spans lie within one half", *cut, *note_left_out(rows)),
    )  # fmt: skip


def _missed(rows: Sequence[Row]) -> str:
    """Whether upper or lower layers are missed more, on average over lengths, encoders and tasks."""
    if not rows:
        return "Points that spans of upper layers cost more than spans of lower layers"
    mean = sum(row["upper_minus_lower"] for row in rows) / len(rows)
    more = "more" if mean > 0 else "less"
    known = [row for row in rows if row["low"] is not None]
    beyond = sum(row["low"] > 0 or row["high"] < 0 for row in known)
    return (
        f"Spans of upper layers cost {abs(mean):.1f} points {more} than lower ones of the same length on average, "
        f"beyond chance for {beyond} of {len(rows)} lengths"
    )
