"""Points by two numbers, by names, or side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Row
from frostline.charts.draw.parts import (
    arrange_panels,
    arrowheads,
    as_spec,
    distinct_values,
    draw_levels,
    encode_colour,
    encode_shape,
    integer_axis,
    tooltips,
)
from frostline.charts.theme import CATEGORIES, GREY

_ENOUGH_TO_SMOOTH = 5  # values; of fewer, a smooth shape would be invented
_WIDE = 6  # columns that names across have room over
_STEPS = 40  # of the outline of a distribution


def scatter(
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    colour: str | None = None,
    colour_title: str | None = None,
    colours: Mapping[str, str] | None = None,
    label: str | None = None,
    interval: tuple[str, str] | None = None,
    panel: str | None = None,
    trend: bool = False,
    joined: str | None = None,
    log: bool = False,
    levels: Sequence[Row] = (),
) -> dict[str, Any]:
    """Points by two numbers; further arguments as of `lines`.

    Args:
        rows: what is drawn.
        x: column of the horizontal place.
        y: column of the height.
        x_title: of the axis.
        y_title: of the axis.
        colour: column that tells points apart.
        colour_title: of the legend.
        colours: by the values of that column.
        label: column that is written beside the points.
        interval: columns of its lower and upper end.
        panel: column whose values have a chart each.
        trend: draw the line of least squares.
        joined: column that says which points a line goes through, from left to right: a front.
        log: a logarithmic horizontal axis.
        levels: horizontal lines.
    """
    import altair as alt

    across = alt.Scale(type="log", nice=False, padding=14) if log else alt.Scale(zero=False, padding=14)
    height = alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False, padding=10))
    base = alt.Chart().encode(x=alt.X(f"{x}:Q", title=x_title, scale=across), y=height)
    hue, parts = encode_colour(rows, colour, colour_title, colours), []
    if joined is not None:
        front = base.transform_filter(f"datum.{joined}")
        parts.append(front.mark_line(color=GREY, strokeDash=[5, 4], interpolate="step-after"))
    if interval is not None:
        low, high = interval
        parts.append(base.mark_rule(opacity=0.5).encode(y=alt.Y(f"{low}:Q", title=y_title), y2=alt.Y2(high), **hue))
    shape = {} if colour is None else {"shape": encode_shape(rows, colour, colour_title)}
    points = base.mark_point(filled=True, size=80, opacity=0.9)
    parts.append(points.encode(tooltip=tooltips(rows), **hue, **shape))
    if trend:
        parts.append(base.transform_regression(x, y).mark_line(color=GREY, strokeWidth=2))
    if label is not None:
        written = base.mark_text(align="left", dx=8, dy=-6, fontSize=11, limit=160)
        parts.append(written.encode(text=f"{label}:N"))
    return as_spec(arrange_panels(parts + draw_levels(levels), rows, levels, panel))


def strip(
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    interval: tuple[str, str] | None = None,
    panel: str | None = None,
    mean: bool = False,
    density: bool = False,
    levels: Sequence[Row] = (),
) -> dict[str, Any]:
    """Single values over whole numbers, not joined; each panel has a vertical axis of its own.

    Args:
        rows: what is drawn; where there are many for a place, pale points show how they lie.
        x: column of the horizontal place.
        y: column of the height.
        x_title: of the axis.
        y_title: of the axis.
        interval: columns of its lower and upper end.
        panel: column whose values have a chart each.
        mean: join the means of the places by a dashed line.
        density: shade at the right edge how the heights are distributed, whatever their places.
        levels: horizontal lines, as of `lines`.
    """
    import altair as alt

    across = alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x), scale=alt.Scale(zero=False, padding=14))
    base = alt.Chart().transform_filter(f"isValid(datum.{x})").encode(x=across)
    hue, scale = {"color": alt.value(CATEGORIES[0])}, alt.Scale(zero=False, padding=10)
    parts: list[Any] = []
    if interval is not None:
        low, high = interval
        parts.append(base.mark_rule(opacity=0.5).encode(y=alt.Y(f"{low}:Q", title=y_title), y2=alt.Y2(high), **hue))
    points = base.mark_point(filled=True, size=60, opacity=0.35 if mean else 0.9)
    parts.append(points.encode(y=alt.Y(f"{y}:Q", title=y_title, scale=scale), tooltip=tooltips(rows), **hue))
    if mean:
        joined = base.mark_line(strokeDash=[5, 4], strokeWidth=2, color=CATEGORIES[1])
        parts.append(joined.encode(y=alt.Y(f"mean({y}):Q", title=y_title)))
    shapes = _distributions(rows, x, y, panel) if density and rows else []
    if shapes:
        shape = alt.Chart().transform_filter("isValid(datum.density)")
        parts.insert(0, shape.mark_area(orient="horizontal", opacity=0.15, color=CATEGORIES[0]).encode(
            x=alt.X("from:Q"), x2="to", y=alt.Y("height:Q", title=y_title)))  # fmt: skip
    return as_spec(arrange_panels(parts + draw_levels(levels), [*rows, *shapes], levels, panel, independent=True))


def _distributions(rows: Sequence[Row], x: str, y: str, panel: str | None) -> list[Row]:
    """How often which height occurs, smoothed, as widths of a shape at the right edge of each panel."""
    import numpy as np
    from scipy.stats import gaussian_kde

    places = [row[x] for row in rows]
    edge, widest = max(places) + 0.5, (max(places) - min(places)) / 4
    shapes: list[Row] = []
    for name in dict.fromkeys(row.get(panel or "") for row in rows):
        heights = np.array([row[y] for row in rows if row.get(panel or "") == name and row[y] is not None])
        if len(heights) < _ENOUGH_TO_SMOOTH or np.ptp(heights) == 0:
            continue
        smooth = gaussian_kde(heights)
        beyond = 2 * float(np.sqrt(smooth.covariance[0, 0]))
        grid = np.linspace(heights.min() - beyond, heights.max() + beyond, _STEPS)
        density = smooth(grid)
        shapes += [
            {**({panel: name} if panel else {}), "height": float(height), "density": float(value), "to": edge,
             "from": edge - widest * float(value / density.max())}
            for height, value in zip(grid, density, strict=True)
        ]  # fmt: skip
    return shapes


def dots(
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    colour: str | None = None,
    colour_title: str | None = None,
    colours: Mapping[str, str] | None = None,
    interval: tuple[str, str] | None = None,
    panel: str | None = None,
    levels: Sequence[Row] = (),
) -> dict[str, Any]:
    """A line of its own for every name, with a point and its interval; for long names, and values far from zero.

    Args:
        rows: what is drawn, from top to bottom.
        x: column of the name.
        y: column of the value, from left to right.
        x_title: of the names.
        y_title: of the axis.
        colour: column that tells kinds of names apart.
        colour_title: of the legend.
        colours: by the values of that column.
        interval: columns of its lower and upper end.
        panel: column whose values have a chart each, with names of its own.
        levels: vertical lines, as of `lines`.
    """
    import altair as alt

    base = alt.Chart().encode(y=alt.Y(f"{x}:N", title=x_title, sort=distinct_values(rows, x), axis=alt.Axis(grid=True)))
    hue = encode_colour(rows, colour, colour_title, colours)
    shape = {} if colour is None else {"shape": encode_shape(rows, colour, colour_title)}
    base = base.transform_filter(f"isValid(datum.{y})")
    # A level without a name would get an empty line; with one it has no value and is not drawn there.
    names = {row.get(panel) if panel else None: row[x] for row in rows}
    levels = [{x: names.get(level.get(panel) if panel else None), **level} for level in levels]
    parts: list[Any] = []
    if levels:
        rule = alt.Chart().transform_filter("isValid(datum.level)").mark_rule(strokeDash=[5, 4])
        parts.append(rule.encode(x="level:Q", tooltip=["name:N", alt.Tooltip("level:Q", format=".4~r")]))
    if interval is not None:
        low, high = interval
        ends = {"x": alt.X(f"{low}:Q", title=y_title), "x2": alt.X2(high)}
        parts.append(base.mark_rule(opacity=0.6, strokeWidth=2).encode(**ends, **hue))
        parts += arrowheads(base, rows, interval, hue, axis="x")
    place = alt.X(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False))
    points = base.mark_point(filled=True, size=70, opacity=1)
    parts.append(points.encode(x=place, tooltip=tooltips(rows), **hue, **shape))
    return as_spec(arrange_panels(parts, rows, levels, panel, height=None, independent=True))


def side_by_side(
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    colour: str,
    colour_title: str | None = None,
    colours: Mapping[str, str] | None = None,
    interval: tuple[str, str] | None = None,
    panel: str | None = None,
    label: str | None = None,
    domain: tuple[float, float] | None = None,
    levels: Sequence[Row] = (),
) -> dict[str, Any]:
    """Points with whiskers for few whole numbers, those of each number side by side; arguments as of `lines`.

    For more groups than bands could be told apart; each panel has a vertical axis of its own, or that of `domain`.
    `label` is the column of names that stand over their points: for one point of each number at most, or they would
    overlap.
    """
    import altair as alt

    base = alt.Chart().transform_filter(f"isValid(datum.{x})")  # levels have no place from left to right
    base = base.encode(
        x=alt.X(f"{x}:O", title=x_title, sort="ascending", axis=alt.Axis(labelAngle=0, grid=False)),
        xOffset=alt.XOffset(f"{colour}:N", sort=distinct_values(rows, colour)),
    )
    hue = encode_colour(rows, colour, colour_title, colours)
    parts: list[Any] = draw_levels(levels)
    if interval is not None:
        low, high = interval
        ends = {"y": alt.Y(f"{low}:Q", title=y_title), "y2": alt.Y2(high)}
        parts.append(base.mark_rule(opacity=0.6, strokeWidth=2).encode(**ends, **hue))
        parts += arrowheads(base, rows, interval, hue, axis="y")
    scale = alt.Scale(zero=False) if domain is None else alt.Scale(domain=list(domain))
    height = alt.Y(f"{y}:Q", title=y_title, scale=scale)
    points = base.mark_point(filled=True, size=70, opacity=1)
    shape = encode_shape(rows, colour, colour_title)
    parts.append(points.encode(y=height, tooltip=tooltips(rows), shape=shape, **hue))
    if label is not None:
        named = base.transform_filter(f"isValid(datum.{label})")
        # Upright where columns are too narrow for a name across.
        is_narrow = len(distinct_values(rows, x)) > _WIDE
        text = (
            named.mark_text(fontSize=10, angle=270, align="left", dx=8)
            if is_narrow
            else named.mark_text(fontSize=10, dy=-10)
        )
        parts.append(text.encode(y=f"{interval[1] if interval else y}:Q", text=f"{label}:N"))
    return as_spec(arrange_panels(parts, rows, levels, panel, independent=True))
