"""Curves over layers, epochs or other whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frostline.charts import Row
from frostline.charts.draw.parts import (
    arrange_panels,
    as_spec,
    distinct_values,
    draw_levels,
    encode_colour,
    encode_shape,
    integer_axis,
    tooltips,
)
from frostline.charts.theme import BLUE, RED, SEQUENTIAL

if TYPE_CHECKING:
    import altair as alt


def lines(
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    colour: str | None = None,
    colour_title: str | None = None,
    colours: Mapping[str, str] | None = None,
    dash: str | None = None,
    dash_title: str | None = None,
    interval: tuple[str, str] | None = None,
    panel: str | None = None,
    marked: str | None = None,
    levels: Sequence[Row] = (),
    independent: bool = False,
) -> dict[str, Any]:
    """Curves over layers or other whole numbers, with intervals as bands.

    Args:
        rows: what is drawn.
        x: column of the horizontal place.
        y: column of the height.
        x_title: of the axis.
        y_title: of the axis.
        colour: column that tells curves apart.
        colour_title: of the legend.
        colours: by the values of that column; the usual ones if not given.
        dash: a second column that tells curves apart, by their dashes.
        dash_title: of its legend.
        interval: columns of its lower and upper end.
        panel: column whose values have a chart each, side by side.
        marked: column that says which points are drawn large.
        levels: horizontal lines, each with `level` and `name`, and the panel's column where there are panels.
        independent: give each panel a vertical axis of its own.
    """
    import altair as alt

    base = alt.Chart().encode(x=alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x)))
    height = alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False))
    hue = encode_colour(rows, colour, colour_title, colours)
    strokes = {} if dash is None else {"strokeDash": alt.StrokeDash(f"{dash}:N", title=dash_title)}
    hover = tooltips(rows)
    parts: list[Any] = []
    if interval is not None:
        low, high = interval
        ends = {"y": alt.Y(f"{low}:Q", title=y_title), "y2": alt.Y2(high)}
        apart = {} if dash is None else {"detail": f"{dash}:N"}
        opacity = (
            0.18 if colour is None or len(distinct_values(rows, colour)) < 3 else 0.1
        )  # many bands lie over each other
        parts.append(base.mark_area(opacity=opacity, interpolate="linear").encode(**ends, **hue, **apart))
    parts.append(base.mark_line(strokeWidth=2).encode(y=height, **hue, **strokes))
    size = {} if marked is None else {"size": _large_where(marked)}
    shape = {} if colour is None else {"shape": encode_shape(rows, colour, colour_title)}
    points = base.mark_point(filled=True, opacity=1, size=45)
    parts.append(points.encode(y=height, tooltip=hover, **hue, **size, **shape))
    return as_spec(arrange_panels(parts + draw_levels(levels), rows, levels, panel, independent=independent))


def two_axes(
    rows: Sequence[Row],
    x: str,
    left: str,
    right: str,
    *,
    x_title: str,
    left_title: str,
    right_title: str,
    dash: str | None = None,
    panel: str | None = None,
) -> dict[str, Any]:
    """Two curves over layers that have no unit in common, each with a vertical axis of its own in its own colour.

    Args:
        rows: what is drawn; `shown_NAME_low` and `shown_NAME_high` beside a curve's column are its interval.
        x: column of the horizontal place.
        left: column of the curve that the left axis belongs to.
        right: column of the curve that the right axis belongs to.
        x_title: of the axis.
        left_title: of the axis.
        right_title: of the axis.
        dash: column that tells states of the same curve apart, by their dashes.
        panel: column whose values have a chart each; each has axes of its own.
    """
    import altair as alt

    hues = alt.Scale(domain=[left_title, right_title], range=[BLUE, RED])
    strokes = (
        {}
        if dash is None
        else {"strokeDash": alt.StrokeDash(f"{dash}:N", title=None, sort=distinct_values(rows, dash))}
    )
    apart = {} if dash is None else {"detail": f"{dash}:N"}  # dashes alone do not part areas
    base = alt.Chart().encode(x=alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x)))

    def side(column: str, title: str, colour: str, shape: str, orient: str) -> Any:
        axis = alt.Axis(titleColor=colour, orient=orient, grid=orient == "left", tickCount=5)
        height = alt.Y(f"{column}:Q", title=title, axis=axis, scale=alt.Scale(zero=False))
        curve = base.transform_calculate(curve=repr(title))
        hue = {
            "color": alt.Color("curve:N", scale=hues, title=None, legend=alt.Legend(labelLimit=300, symbolOpacity=1))
        }
        ends = {"y": alt.Y(f"shown_{column}_low:Q", title=title), "y2": alt.Y2(f"shown_{column}_high")}
        points = curve.mark_point(filled=True, opacity=1, size=45, shape=shape)
        return alt.layer(
            curve.mark_area(opacity=0.12).encode(**ends, **hue, **apart),
            curve.mark_line(strokeWidth=2).encode(y=height, **hue, **strokes),
            points.encode(y=height, tooltip=tooltips(rows), **hue),
        )

    sides = [side(left, left_title, BLUE, "circle", "left"), side(right, right_title, RED, "square", "right")]
    found = as_spec(arrange_panels(sides, rows, (), panel, independent=True))
    within = found.get("spec", found)  # of the panels, where there are some
    within["resolve"] = {"scale": {"y": "independent"}}
    return found


def trajectories(
    rows: Sequence[Row],
    x: str,
    rank: str,
    line: str,
    *,
    x_title: str,
    rank_title: str,
    panel: str | None = None,
) -> dict[str, Any]:
    """Ranks over time, the first at the top, a line for each of what is ranked with its number at the right end.

    Args:
        rows: what is drawn.
        x: column of the time, whole numbers.
        rank: column of the rank, 1 the highest.
        line: column of the number of what is ranked.
        x_title: of the axis.
        rank_title: of the axis.
        panel: column whose values have a chart each.
    """
    import altair as alt

    ranks = list(range(1, len({row[line] for row in rows}) + 1))
    # Neither end of the colours can be seen on both papers.
    scheme = alt.SchemeParams(name=SEQUENTIAL, extent=[0.25, 0.8])
    hue = alt.Color(f"{line}:Q", scale=alt.Scale(scheme=scheme), legend=None)
    base = alt.Chart().encode(
        x=alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x)),
        y=alt.Y(f"{rank}:Q", title=rank_title, axis=alt.Axis(values=ranks, format="d", labelOverlap=True),
                scale=alt.Scale(reverse=True, zero=False, padding=8)),
        detail=f"{line}:N",
    )  # fmt: skip
    last = max((row[x] for row in rows), default=0)
    rows = [*rows, *_ends_named(rows, x, rank, line, panel, last=last)]
    named = base.transform_filter("isValid(datum.shown_name)").mark_text(align="left", dx=8, fontSize=11)
    parts = [
        base.mark_line(strokeWidth=2).encode(color=hue),
        base.mark_point(filled=True, opacity=1, size=45).encode(color=hue, tooltip=tooltips(rows)),
        named.encode(text="shown_name:N"),
    ]
    return as_spec(arrange_panels(parts, rows, (), panel))


def _ends_named(rows: Sequence[Row], x: str, rank: str, line: str, panel: str | None, *, last: Any) -> list[Row]:
    """One more row for each place in which lines end, with the names of all that do."""
    ends: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row[x] == last:
            ends.setdefault((row.get(panel) if panel else None, row[rank]), []).append(row)
    return [{**group[0], "shown_name": ", ".join(str(row[line]) for row in group)} for group in ends.values()]


def _large_where(column: str) -> alt.Size:
    import altair as alt

    return alt.Size(f"{column}:O", scale=alt.Scale(domain=[False, True], range=[40, 170]), legend=None)
