"""Heatmaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frostline.charts import Row
from frostline.charts.draw.parts import arrange_panels, as_spec, tooltips
from frostline.charts.theme import DIVERGING, SEQUENTIAL


def heatmap(
    rows: Sequence[Row],
    x: str,
    y: str,
    value: str,
    *,
    x_title: str,
    y_title: str,
    value_title: str,
    panel: str | None = None,
    domain: tuple[float, float] | None = None,
    middle: float | None = None,
    columns: int = 2,
) -> dict[str, Any]:
    """Return squares by two whole numbers, low ones at the bottom left, coloured by a value, labelled where they fit.

    Args:
        rows: the data.
        x: column of the horizontal position.
        y: column of the vertical position.
        value: column of the colour.
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
        value_title: title of the legend.
        panel: column that splits the chart into panels.
        domain: range of the colours; by default that of the values.
        middle: the neutral value of a diverging colour scheme.
        columns: number of panels in a row.
    """
    import altair as alt

    scale = alt.Scale(
        scheme=SEQUENTIAL if middle is None else DIVERGING,
        domain=alt.Undefined if domain is None else list(domain),
        domainMid=alt.Undefined if middle is None else middle,
        reverse=middle is not None,
    )
    across, down = (len({row[key] for row in rows}) for key in (x, y))
    side = 38 if max(across, down) <= 8 else 26 if max(across, down) <= 13 else 15
    square = alt.Chart().encode(
        x=alt.X(f"{x}:O", title=x_title, axis=alt.Axis(labelAngle=0)),
        y=alt.Y(f"{y}:O", title=y_title, sort="descending"),
    )
    colour = alt.Color(f"{value}:Q", title=value_title, scale=scale, legend=alt.Legend(orient="right"))
    parts = [square.mark_rect().encode(color=colour, tooltip=tooltips(rows))]
    if side > 20:
        text = square.mark_text(fontSize=11 if side > 30 else 9)
        parts.append(text.encode(**_label(rows, value, domain, middle)))
    return as_spec(arrange_panels(parts, rows, (), panel, columns=columns, width=side * across, height=side * down))


def _label(rows: Sequence[Row], value: str, domain: tuple[float, float] | None, middle: float | None) -> dict[str, Any]:
    """Return the encoding of short numbers in white or black, whichever contrasts with the square."""
    import altair as alt

    values = [float(row[value]) for row in rows if row.get(value) is not None] or [0.0]
    low, high = domain or (min(values), max(values))
    digits = ".0f" if max(map(abs, values)) >= 10 else ".1f" if high - low > 1 else ".2f"
    is_dark = f"datum.{value} < {low + 0.48 * (high - low):g}"
    if middle is not None:
        is_dark = f"abs(datum.{value} - {middle:g}) > {0.7 * max(abs(high - middle), abs(low - middle)):g}"
    ink = alt.condition(is_dark, alt.value("#ffffff"), alt.value("#22201d"))
    return {"text": alt.Text(f"{value}:Q", format=digits), "color": ink}
