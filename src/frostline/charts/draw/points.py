"""Points by two numbers, by names, or side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Row, group_rows
from frostline.charts.draw.parts import (
    arrange_panels,
    as_spec,
    distinct_values,
    draw_levels,
    draw_whiskers,
    encode_colour,
    encode_shape,
    integer_axis,
    tooltips,
)
from frostline.charts.theme import CATEGORIES, GREY

_ENOUGH_TO_SMOOTH = 5  # values; a smooth curve through fewer would be invented
_WIDE = 6  # columns with enough room for horizontal names
_STEPS = 40  # points of a distribution's outline
_NEAR = 0.1  # share of the largest value below which the smallest is near 0
_ROOM = 1.1  # times the largest value, so that names beside points have room


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
    panel: str | None = None,
    trend: bool = False,
    joined: str | None = None,
    log: bool = False,
) -> dict[str, Any]:
    """Return points by two numbers; further arguments as for `lines`.

    Args:
        rows: the data.
        x: column of the horizontal position.
        y: column of the height.
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
        colour: column that separates points by colour.
        colour_title: title of its legend.
        colours: colours of its values.
        label: column of the names beside the points.
        panel: column that splits the chart into panels.
        trend: whether to draw the least-squares line.
        joined: column that is true for points on a front, which a line joins from left to right.
        log: whether the horizontal axis is logarithmic.
    """
    import altair as alt

    across = alt.Scale(type="log", nice=False, padding=14) if log else _linear([float(row[x]) for row in rows])
    height = alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False, padding=10))
    base = alt.Chart().encode(x=alt.X(f"{x}:Q", title=x_title, scale=across), y=height)
    groups = encode_colour(rows, colour, colour_title, colours) | encode_shape(rows, colour, colour_title)
    parts = []
    if joined is not None:
        front = base.transform_filter(f"datum.{joined}")
        parts.append(front.mark_line(color=GREY, strokeDash=[5, 4], interpolate="step-after"))
    parts.append(base.mark_point(filled=True, size=80, opacity=0.9).encode(tooltip=tooltips(rows), **groups))
    if trend:
        parts.append(base.transform_regression(x, y).mark_line(color=GREY, strokeWidth=2))
    if label is not None:
        written = base.mark_text(align="left", dx=8, dy=-6, fontSize=11, limit=160)
        parts.append(written.encode(text=f"{label}:N"))
    return as_spec(arrange_panels(parts, rows, (), panel))


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
    """Return single values over whole numbers, not joined; each panel has its own vertical axis.

    Args:
        rows: the data; with `mean`, points are pale, so that many at one position show their distribution.
        x: column of the horizontal position.
        y: column of the height.
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
        interval: columns of the lower and upper end.
        panel: column that splits the chart into panels.
        mean: whether to join the means of all positions by a dashed line.
        density: whether to shade the distribution of all heights at the right edge.
        levels: horizontal lines, as for `lines`.
    """
    import altair as alt

    across = alt.X(f"{x}:Q", title=x_title, axis=integer_axis(rows, x), scale=alt.Scale(zero=False, padding=14))
    base = alt.Chart().transform_filter(f"isValid(datum.{x})").encode(x=across)
    hue, scale = {"color": alt.value(CATEGORIES[0])}, alt.Scale(zero=False, padding=10)
    parts: list[Any] = []
    shapes = _distributions(rows, x, y, panel) if density and rows else []
    if shapes:
        shape = alt.Chart().transform_filter("isValid(datum.density)")
        parts.append(shape.mark_area(orient="horizontal", opacity=0.15, color=CATEGORIES[0]).encode(
            x=alt.X("from:Q"), x2="to", y=alt.Y("height:Q", title=y_title)))  # fmt: skip
    if interval is not None:
        low, high = interval
        parts.append(base.mark_rule(opacity=0.5).encode(y=alt.Y(f"{low}:Q", title=y_title), y2=alt.Y2(high), **hue))
    points = base.mark_point(filled=True, size=60, opacity=0.35 if mean else 0.9)
    parts.append(points.encode(y=alt.Y(f"{y}:Q", title=y_title, scale=scale), tooltip=tooltips(rows), **hue))
    if mean:
        joined = base.mark_line(strokeDash=[5, 4], strokeWidth=2, color=CATEGORIES[1])
        parts.append(joined.encode(y=alt.Y(f"mean({y}):Q", title=y_title)))
    return as_spec(arrange_panels(parts + draw_levels(levels), [*rows, *shapes], levels, panel, independent=True))


def _distributions(rows: Sequence[Row], x: str, y: str, panel: str | None) -> list[Row]:
    """Return the smoothed distribution of the heights of each panel, as the outline of an area at its right edge."""
    import numpy as np
    from scipy.stats import gaussian_kde

    positions = [row[x] for row in rows]
    edge, widest = max(positions) + 0.5, (max(positions) - min(positions)) / 4
    outlines: list[Row] = []
    for (name,), group in group_rows(rows, panel or ""):
        heights = np.array([row[y] for row in group if row[y] is not None])
        if len(heights) < _ENOUGH_TO_SMOOTH or np.ptp(heights) == 0:
            continue
        smooth = gaussian_kde(heights)
        beyond = 2 * float(np.sqrt(smooth.covariance[0, 0]))
        grid = np.linspace(heights.min() - beyond, heights.max() + beyond, _STEPS)
        density = smooth(grid)
        outlines += [
            {**({panel: name} if panel else {}), "height": float(height), "density": float(value), "to": edge,
             "from": edge - widest * float(value / density.max())}
            for height, value in zip(grid, density, strict=True)
        ]  # fmt: skip
    return outlines


def dots(
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    colour: str | None = None,
    colours: Mapping[str, str] | None = None,
    interval: tuple[str, str] | None = None,
    panel: str | None = None,
    levels: Sequence[Row] = (),
) -> dict[str, Any]:
    """Return a line for every name, with a point and its interval; for long names, and values far from zero.

    Args:
        rows: the data, from top to bottom.
        x: column of the name.
        y: column of the value, from left to right.
        x_title: title of the names.
        y_title: title of the horizontal axis.
        colour: column that separates kinds of names by colour.
        colours: colours of its values.
        interval: columns of the lower and upper end.
        panel: column that splits the chart into panels, each with its own names.
        levels: vertical lines, as for `lines`.
    """
    import altair as alt

    base = alt.Chart().encode(y=alt.Y(f"{x}:N", title=x_title, sort=distinct_values(rows, x), axis=alt.Axis(grid=True)))
    base = base.transform_filter(f"isValid(datum.{y})")
    hue = encode_colour(rows, colour, None, colours)
    # A level without a name would get an empty line; with one it has no value and is not drawn there.
    names = {row.get(panel or ""): row[x] for row in rows}
    levels = [{x: names.get(level.get(panel or "")), **level} for level in levels]
    parts: list[Any] = []
    if levels:
        rule = alt.Chart().transform_filter("isValid(datum.level)").mark_rule(strokeDash=[5, 4])
        parts.append(rule.encode(x="level:Q", tooltip=["name:N", alt.Tooltip("level:Q", format=".4~r")]))
    whisker = base.mark_rule(opacity=0.6, strokeWidth=2).encode(**hue)
    parts += draw_whiskers(whisker, base, rows, interval, hue, axis="x", title=y_title)
    value = alt.X(f"{y}:Q", title=y_title, scale=alt.Scale(zero=False))
    points = base.mark_point(filled=True, size=70, opacity=1)
    parts.append(points.encode(x=value, tooltip=tooltips(rows), **hue, **encode_shape(rows, colour, None)))
    return as_spec(arrange_panels(parts, rows, levels, panel, height=None, independent=True))


def side_by_side(
    rows: Sequence[Row],
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    colour: str,
    colours: Mapping[str, str] | None = None,
    interval: tuple[str, str] | None = None,
    panel: str | None = None,
    label: str | None = None,
    domain: tuple[float, float] | None = None,
    levels: Sequence[Row] = (),
) -> dict[str, Any]:
    """Return points with whiskers over a few whole numbers, groups side by side; arguments as for `lines`.

    For more groups than overlapping bands can show; each panel has its own vertical axis, or that of `domain`.
    `label` is the column of names above the points: at most one for each number, or names would overlap.
    """
    import altair as alt

    base = alt.Chart().transform_filter(f"isValid(datum.{x})")  # levels have no horizontal position
    base = base.encode(
        x=alt.X(f"{x}:O", title=x_title, sort="ascending", axis=alt.Axis(labelAngle=0, grid=False)),
        xOffset=alt.XOffset(f"{colour}:N", sort=distinct_values(rows, colour)),
    )
    hue = encode_colour(rows, colour, None, colours)
    scale = alt.Scale(zero=False) if domain is None else alt.Scale(domain=list(domain))
    height = alt.Y(f"{y}:Q", title=y_title, scale=scale)
    whisker = base.mark_rule(opacity=0.6, strokeWidth=2).encode(**hue)
    points = base.mark_point(filled=True, size=70, opacity=1)
    parts: list[Any] = [
        *draw_levels(levels),
        *draw_whiskers(whisker, base, rows, interval, hue, axis="y", title=y_title),
        points.encode(y=height, tooltip=tooltips(rows), **encode_shape(rows, colour, None), **hue),
    ]
    if label is not None:
        named = base.transform_filter(f"isValid(datum.{label})")
        is_narrow = len(distinct_values(rows, x)) > _WIDE  # no room for horizontal names
        turned = {"angle": 270, "align": "left", "dx": 8} if is_narrow else {"dy": -10}
        text = named.mark_text(fontSize=10, **turned)
        parts.append(text.encode(y=f"{interval[1] if interval else y}:Q", text=f"{label}:N"))
    return as_spec(arrange_panels(parts, rows, levels, panel, independent=True))


def _linear(values: Sequence[float]) -> Any:
    """Return the scale of an axis: from 0 where values without a sign begin near it, else as wide as the values."""
    import altair as alt

    least, most = min(values, default=0.0), max(values, default=0.0)
    if 0 <= least < _NEAR * most:
        return alt.Scale(domainMin=0, domainMax=_ROOM * most, nice=True)
    return alt.Scale(zero=False, padding=14)
