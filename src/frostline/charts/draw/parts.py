"""What all kinds of chart share: axes, colours, shapes, levels, panels, and values that are said when pointed at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frostline.charts import Row
from frostline.charts.theme import CATEGORIES, SHAPES

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT, PANEL = 560, 260, 270  # of a chart alone, and of one among others


def as_spec(chart: Any) -> dict[str, Any]:
    """The chart as a Vega-Lite specification without settings of its own: those are the theme's."""
    found: dict[str, Any] = chart.to_dict()
    found.pop("config", None)
    found.pop("$schema", None)
    return found


def with_own_axes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same chart with axes of their own for its panels, where these show different things."""
    return {**spec, "resolve": {"scale": {"x": "independent", "y": "independent"}}} if "facet" in spec else {**spec}


def shown_columns(rows: Sequence[Row]) -> list[str]:
    """The columns that people are told: not those that only say how something is drawn, nor those that are empty."""
    names = dict.fromkeys(name for row in rows for name in row)
    hidden = {name for name in names if name.startswith("shown_") or name in ("cut", "side")}
    return [name for name in names if name not in hidden and any(row.get(name) not in (None, "") for row in rows)]


def tooltips(rows: Sequence[Row]) -> list[Any]:
    """Every column, said when a mark is pointed at: numbers with four digits."""
    import altair as alt

    return [
        alt.Tooltip(f"{name}:Q", format=".4~r") if _is_number(rows, name) else alt.Tooltip(f"{name}:N")
        for name in shown_columns(rows)
    ]


def arrowheads(
    base: Any, rows: Sequence[Row], interval: tuple[str, str], hue: Mapping[str, Any], *, axis: str
) -> list[Any]:
    """Arrowheads where a whisker goes on beyond what is drawn.

    Args:
        base: the chart with the other axis.
        rows: what is drawn; `cut` says which ends are none.
        interval: columns of the ends that are drawn.
        hue: colours of the whiskers.
        axis: along which they lie, 'x' or 'y'.
    """
    shapes = {"x": ("triangle-left", "triangle-right"), "y": ("triangle-down", "triangle-up")}[axis]
    found = []
    for end, column, shape in zip(("low", "high"), interval, shapes, strict=True):
        if any(end in (row.get("cut") or "") for row in rows):
            mine = base.transform_filter(f"isValid(datum.cut) && indexof(datum.cut, '{end}') >= 0")
            mark = mine.mark_point(shape=shape, filled=True, size=40, opacity=0.9)
            found.append(mark.encode(**{axis: f"{column}:Q"}, **hue))
    return found


def _is_number(rows: Iterable[Row], name: str) -> bool:
    known = [row[name] for row in rows if row.get(name) is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def integer_axis(rows: Sequence[Row], x: str) -> alt.Axis:
    """An axis with a mark for every whole number where these are few."""
    import altair as alt

    places = sorted({row[x] for row in rows if row.get(x) is not None})
    if places and all(float(place).is_integer() for place in places) and len(places) <= 26:
        return alt.Axis(values=places, format="d", grid=False, labelOverlap=True)
    return alt.Axis(grid=False)


def distinct_values(rows: Sequence[Row], column: str) -> list[str]:
    """The values of a column as words, in the order in which they come."""
    return list(dict.fromkeys(str(row[column]) for row in rows if row.get(column) is not None))


def encode_colour(
    rows: Sequence[Row],
    column: str | None,
    title: str | None,
    colours: Mapping[str, str] | None,
    *,
    legend: bool = True,
) -> dict[str, Any]:
    """What tells the groups of a column apart by colour, in an encoding; one colour where there is no column."""
    import altair as alt

    if column is None:
        return {"color": alt.value(CATEGORIES[0])}
    names = distinct_values(rows, column)
    chosen = [(colours or {}).get(name, CATEGORIES[place % len(CATEGORIES)]) for place, name in enumerate(names)]
    scale = alt.Scale(domain=names, range=chosen)
    shown = alt.Legend(symbolOpacity=1) if legend and len(names) > 1 else None
    return {"color": alt.Color(f"{column}:N", title=title, scale=scale, legend=shown)}


def encode_shape(rows: Sequence[Row], column: str, title: str | None) -> alt.Shape:
    """What tells the groups of a column apart by shape."""
    import altair as alt

    names = distinct_values(rows, column)
    # Colours begin anew after eight; shapes are then shifted, so that the ninth group is not the first one's twin.
    shapes = [SHAPES[(place + place // len(SHAPES)) % len(SHAPES)] for place in range(len(names))]
    shown = {} if len(names) > 1 else {"legend": None}
    return alt.Shape(f"{column}:N", title=title, scale=alt.Scale(domain=names, range=shapes), **shown)


def draw_levels(levels: Sequence[Row]) -> list[Any]:
    """Dashed horizontal lines with their names, in turn at the left and the right end: near ones do not overlap."""
    import altair as alt

    if not levels:
        return []
    line = alt.Chart().transform_filter("isValid(datum.level)")
    rule = line.mark_rule(strokeDash=[5, 4])
    parts = [rule.encode(y="level:Q", tooltip=["name:N", alt.Tooltip("level:Q", format=".4~r")])]
    ends = {"left": (alt.value(0), 4), "right": (alt.value("width"), -4)}
    for side in distinct_values(_with_sides(levels), "side"):
        (place, away), mine = ends[side], alt.Chart().transform_filter(f"datum.side == '{side}'")
        text = mine.mark_text(align=side, baseline="bottom", dx=away, dy=-2, fontSize=11)
        parts.append(text.encode(x=place, y="level:Q", text="name:N"))
    return parts


def _with_sides(levels: Sequence[Row]) -> list[Row]:
    """Each level with the end at which its name stands: neighbours within a panel have different ones."""
    panels: dict[Any, list[Row]] = {}
    for level in levels:
        panel = str({key: value for key, value in level.items() if key not in ("level", "name")})
        panels.setdefault(panel, []).append(level)
    return [
        {**level, "side": ("left", "right")[rank % 2]}
        for group in panels.values()
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
    """The parts over each other, once, or for each panel side by side."""
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
