"""Curves over layers, epochs or other whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Row, group_rows
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
    """Return curves over layers or other whole numbers, with intervals as bands.

    Args:
        rows: the data.
        x: column of the horizontal position.
        y: column of the height.
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
        colour: column that separates curves by colour.
        colour_title: title of its legend.
        colours: colours of its values; by default those of the theme.
        dash: column that separates curves by dashes.
        dash_title: title of its legend.
        interval: columns of the lower and upper end.
        panel: column that splits the chart into panels.
        marked: column that is true for points drawn large.
        levels: horizontal lines, each with `level`, `name` and, with panels, the panel's column; with `below` and
            `above` they have a band.
        independent: whether each panel has its own vertical axis.
    """
    import altair as alt

    base = alt.Chart().encode(x=alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x)))
    height = alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False))
    hue = encode_colour(rows, colour, colour_title, colours)
    strokes = {} if dash is None else {"strokeDash": alt.StrokeDash(f"{dash}:N", title=dash_title)}
    parts: list[Any] = []
    if interval is not None:
        ends = {"y": alt.Y(f"{interval[0]}:Q", title=y_title), "y2": alt.Y2(interval[1])}
        apart = {} if dash is None else {"detail": f"{dash}:N"}
        # Many bands overlap.
        opacity = 0.18 if colour is None or len(distinct_values(rows, colour)) < 3 else 0.1
        parts.append(base.mark_area(opacity=opacity, interpolate="linear").encode(**ends, **hue, **apart))
    sizes = alt.Scale(domain=[False, True], range=[40, 170])
    size = {} if marked is None else {"size": alt.Size(f"{marked}:O", scale=sizes, legend=None)}
    points = base.mark_point(filled=True, opacity=1, size=45)
    parts += [
        base.mark_line(strokeWidth=2).encode(y=height, **hue, **strokes),
        points.encode(y=height, tooltip=tooltips(rows), **hue, **size, **encode_shape(rows, colour, colour_title)),
        *draw_levels(levels),
    ]
    return as_spec(arrange_panels(parts, rows, levels, panel, independent=independent))


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
    """Return two curves over layers with different units, each with its own vertical axis in its own colour.

    Args:
        rows: the data; a curve's interval is in the columns `shown_NAME_low` and `shown_NAME_high`.
        x: column of the horizontal position.
        left: column of the curve on the left axis.
        right: column of the curve on the right axis.
        x_title: title of the horizontal axis.
        left_title: title of the left axis.
        right_title: title of the right axis.
        dash: column that separates variants of a curve by dashes.
        panel: column that splits the chart into panels, each with its own axes.
    """
    import altair as alt

    hues = alt.Scale(domain=[left_title, right_title], range=[BLUE, RED])
    strokes, apart = {}, {}
    if dash is not None:
        strokes = {"strokeDash": alt.StrokeDash(f"{dash}:N", title=None, sort=distinct_values(rows, dash))}
        apart = {"detail": f"{dash}:N"}  # dashes alone do not separate areas
    base = alt.Chart().encode(x=alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x)))
    legend = alt.Legend(labelLimit=300, symbolOpacity=1)
    hue = {"color": alt.Color("curve:N", scale=hues, title=None, legend=legend)}

    def draw_side(column: str, title: str, colour: str, shape: str, orient: str) -> Any:
        axis = alt.Axis(titleColor=colour, orient=orient, grid=orient == "left", tickCount=5)
        height = alt.Y(f"{column}:Q", title=title, axis=axis, scale=alt.Scale(zero=False))
        curve = base.transform_calculate(curve=repr(title))
        ends = {"y": alt.Y(f"shown_{column}_low:Q", title=title), "y2": alt.Y2(f"shown_{column}_high")}
        points = curve.mark_point(filled=True, opacity=1, size=45, shape=shape)
        return alt.layer(
            curve.mark_area(opacity=0.12).encode(**ends, **hue, **apart),
            curve.mark_line(strokeWidth=2).encode(y=height, **hue, **strokes),
            points.encode(y=height, tooltip=tooltips(rows), **hue),
        )

    sides = [draw_side(left, left_title, BLUE, "circle", "left"), draw_side(right, right_title, RED, "square", "right")]
    chart = as_spec(arrange_panels(sides, rows, (), panel, independent=True))
    chart.get("spec", chart)["resolve"] = {"scale": {"y": "independent"}}  # within each panel, where there are several
    return chart


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
    """Return ranks over time, the first at the top: a line for each ranked item with its number at the right end.

    Args:
        rows: the data.
        x: column of the time, whole numbers.
        rank: column of the rank, 1 the highest.
        line: column of the ranked item's number.
        x_title: title of the horizontal axis.
        rank_title: title of the vertical axis.
        panel: column that splits the chart into panels.
    """
    import altair as alt

    ranks = list(range(1, len({row[line] for row in rows}) + 1))
    # Neither end of the colour scheme is visible on both a light and a dark background.
    scheme = alt.SchemeParams(name=SEQUENTIAL, extent=[0.25, 0.8])
    hue = alt.Color(f"{line}:Q", scale=alt.Scale(scheme=scheme), legend=None)
    base = alt.Chart().encode(
        x=alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x)),
        y=alt.Y(f"{rank}:Q", title=rank_title, axis=alt.Axis(values=ranks, format="d", labelOverlap=True),
                scale=alt.Scale(reverse=True, zero=False, padding=8)),
        detail=f"{line}:N",
    )  # fmt: skip
    last = max((row[x] for row in rows), default=0)
    ends = group_rows([row for row in rows if row[x] == last], panel or "", rank)
    # One more row for each point where lines end, with the names of all of them.
    names = [{**group[0], "shown_name": ", ".join(str(row[line]) for row in group)} for _, group in ends]
    named = base.transform_filter("isValid(datum.shown_name)").mark_text(align="left", dx=8, fontSize=11)
    parts = [
        base.mark_line(strokeWidth=2).encode(color=hue),
        base.mark_point(filled=True, opacity=1, size=45).encode(color=hue, tooltip=tooltips(rows)),
        named.encode(text="shown_name:N"),
    ]
    return as_spec(arrange_panels(parts, [*rows, *names], (), panel))
