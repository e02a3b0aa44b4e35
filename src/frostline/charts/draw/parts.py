"""Parts of all kinds of chart: axes, colours, shapes, whiskers, levels, panels and hover texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Row, group_rows
from frostline.charts.theme import CATEGORIES, SHAPES

WIDTH, HEIGHT, PANEL = 560, 260, 270  # width and height of a single chart, width of a panel


def as_spec(chart: Any) -> dict[str, Any]:
    """Return the chart as a Vega-Lite specification without settings: the theme adds them."""
    return {key: value for key, value in chart.to_dict().items() if key not in ("config", "$schema")}


def with_own_axes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart with separate axes for each panel, for panels with different quantities."""
    return {**spec, "resolve": {"scale": {"x": "independent", "y": "independent"}}} if "facet" in spec else {**spec}


def shown_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns for readers: neither empty ones nor those that only control the drawing."""
    names = dict.fromkeys(name for row in rows for name in row)
    hidden = {name for name in names if name.startswith("shown_") or name in ("cut", "side")}
    return [name for name in names if name not in hidden and any(row.get(name) not in (None, "") for row in rows)]


def tooltips(rows: Sequence[Row]) -> list[Any]:
    """Return a hover text of all columns, numbers with four digits."""
    import altair as alt

    return [
        alt.Tooltip(f"{name}:Q", format=".4~r") if _is_numeric(rows, name) else alt.Tooltip(f"{name}:N")
        for name in shown_columns(rows)
    ]


def _is_numeric(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def draw_whiskers(
    rule: Any,
    base: Any,
    rows: Sequence[Row],
    interval: tuple[str, str] | None,
    hue: Mapping[str, Any],
    *,
    axis: str,
    title: str,
) -> list[Any]:
    """Return intervals as rules, with arrowheads where an end is cut off; empty without an interval.

    Args:
        rule: the chart that draws rules, without their ends.
        base: the chart with the other axis.
        rows: the data; `cut` names the ends that are cut off.
        interval: columns of the drawn ends.
        hue: colour encoding of the arrowheads.
        axis: direction of the whiskers, 'x' or 'y'.
        title: title of that axis.
    """
    import altair as alt

    if interval is None:
        return []
    first, second = {"x": (alt.X, alt.X2), "y": (alt.Y, alt.Y2)}[axis]
    shapes = {"x": ("triangle-left", "triangle-right"), "y": ("triangle-down", "triangle-up")}[axis]
    parts = [rule.encode(**{axis: first(f"{interval[0]}:Q", title=title), f"{axis}2": second(interval[1])})]
    for end, column, shape in zip(("low", "high"), interval, shapes, strict=True):
        if any(end in (row.get("cut") or "") for row in rows):
            cut = base.transform_filter(f"isValid(datum.cut) && indexof(datum.cut, '{end}') >= 0")
            mark = cut.mark_point(shape=shape, filled=True, size=40, opacity=0.9)
            parts.append(mark.encode(**{axis: f"{column}:Q"}, **hue))
    return parts


def integer_axis(rows: Sequence[Row], x: str) -> Any:
    """Return an axis with a tick for every whole number where there are few."""
    import altair as alt

    ticks = sorted({row[x] for row in rows if row.get(x) is not None})
    if ticks and all(float(tick).is_integer() for tick in ticks) and len(ticks) <= 26:
        return alt.Axis(values=ticks, format="d", grid=False, labelOverlap=True)
    return alt.Axis(grid=False)


def distinct_values(rows: Sequence[Row], column: str) -> list[str]:
    """Return the values of a column as text, each once, in order of appearance."""
    return list(dict.fromkeys(str(row[column]) for row in rows if row.get(column) is not None))


def encode_colour(
    rows: Sequence[Row],
    column: str | None,
    title: str | None,
    colours: Mapping[str, str] | None,
    *,
    legend: bool = True,
) -> dict[str, Any]:
    """Return the encoding of a column by colour; a single colour without a column."""
    import altair as alt

    if column is None:
        return {"color": alt.value(CATEGORIES[0])}
    names = distinct_values(rows, column)
    chosen = [(colours or {}).get(name, CATEGORIES[rank % len(CATEGORIES)]) for rank, name in enumerate(names)]
    shown = alt.Legend(symbolOpacity=1) if legend and len(names) > 1 else None
    return {"color": alt.Color(f"{column}:N", title=title, scale=alt.Scale(domain=names, range=chosen), legend=shown)}


def encode_shape(rows: Sequence[Row], column: str | None, title: str | None) -> dict[str, Any]:
    """Return the encoding of a column by shape; empty without a column."""
    import altair as alt

    if column is None:
        return {}
    names = distinct_values(rows, column)
    # Colours repeat after eight; shapes are then shifted, so that the ninth group does not look like the first.
    shapes = [SHAPES[(rank + rank // len(SHAPES)) % len(SHAPES)] for rank in range(len(names))]
    shown = {} if len(names) > 1 else {"legend": None}
    return {"shape": alt.Shape(f"{column}:N", title=title, scale=alt.Scale(domain=names, range=shapes), **shown)}


_OF_LEVELS = ("level", "name", "below", "above")


def draw_levels(levels: Sequence[Row]) -> list[Any]:
    """Return dashed horizontal lines; names alternate between the left and the right end, so that few overlap.

    A level with `below` and `above` has a shaded band between them.
    """
    import altair as alt

    if not levels:
        return []
    bands = []
    if any(level.get("below") is not None for level in levels):
        band = alt.Chart().transform_filter("isValid(datum.below) && isValid(datum.above)")
        bands = [band.mark_rect(opacity=0.12).encode(y=alt.Y("below:Q"), y2=alt.Y2("above"))]
    rule = alt.Chart().transform_filter("isValid(datum.level)").mark_rule(strokeDash=[5, 4])
    parts = [rule.encode(y="level:Q", tooltip=["name:N", alt.Tooltip("level:Q", format=".4~r")])]
    ends = {"left": (alt.value(0), 4), "right": (alt.value("width"), -4)}
    for side in distinct_values(_with_sides(levels), "side"):
        (edge, away), named = ends[side], alt.Chart().transform_filter(f"datum.side == '{side}'")
        text = named.mark_text(align=side, baseline="bottom", dx=away, dy=-2, fontSize=11)
        parts.append(text.encode(x=edge, y="level:Q", text="name:N"))
    return bands + parts


def _with_sides(levels: Sequence[Row]) -> list[Row]:
    """Return each level with the side of its name: neighbours within a panel alternate."""
    panel = dict.fromkeys(key for level in levels for key in level if key not in _OF_LEVELS)
    return [
        {**level, "side": ("left", "right")[rank % 2]}
        for _, group in group_rows(levels, *panel)
        for rank, level in enumerate(sorted(group, key=lambda level: level["level"]))
    ]


def arrange_panels(
    parts: Sequence[Any],
    rows: Sequence[Row],
    levels: Sequence[Row],
    panel: str | None,
    *,
    columns: int = 2,
    independent: bool = False,
    width: int | None = None,
    height: int | None = HEIGHT,
) -> Any:
    """Return the parts layered in one chart, or in one chart for each panel."""
    import altair as alt

    data = alt.Data(values=[*map(dict, rows), *_with_sides(levels)])
    has_panels = panel is not None and len(distinct_values(rows, panel)) > 1
    size: dict[str, Any] = {"width": width or (PANEL if has_panels else WIDTH)}
    if height is not None:
        size["height"] = height if not has_panels or width else round(height * 0.75)
    layered = alt.layer(*parts).properties(**size)
    fluid = {"usermeta": {"fluid": width is None}}  # a page may make it wider or narrower
    if not has_panels:
        return layered.properties(data=data, **fluid)
    header = alt.Header(title=None, labelLimit=max(size["width"], 170))
    faceted = layered.facet(
        facet=alt.Facet(f"{panel}:N", title=None, header=header, sort=distinct_values(rows, str(panel))),
        columns=columns,
        data=data,
    )
    faceted = faceted.resolve_axis(x="independent").properties(**fluid)
    return faceted.resolve_scale(y="independent") if independent else faceted
