"""Heatmaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frostline.charts import Row
from frostline.charts.draw.parts import (
    arrange_panels,
    as_spec,
    tooltips,
)
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
    written: bool = True,
    columns: int = 2,
) -> dict[str, Any]:
    """Squares by two whole numbers, low ones at the bottom left, coloured by a value.

    Args:
        rows: what is drawn.
        x: column of the horizontal place.
        y: column of the vertical place.
        value: column of the colour.
        x_title: of the axis.
        y_title: of the axis.
        value_title: of the legend.
        panel: column whose values have a chart each.
        domain: of the colours; that of the values if not given.
        middle: the value that is neither good nor bad, for colours that part there.
        written: write the values into the squares where there is room.
        columns: panels side by side.
    """
    import altair as alt

    scale = alt.Scale(
        scheme=SEQUENTIAL if middle is None else DIVERGING,
        domain=alt.Undefined if domain is None else list(domain),
        domainMid=alt.Undefined if middle is None else middle,
        reverse=middle is not None,
    )
    across, down = ({row[key] for row in rows} for key in (x, y))
    most = max(len(across), len(down))
    side = 38 if most <= 8 else 26 if most <= 13 else 15
    square = alt.Chart().encode(
        x=alt.X(f"{x}:O", title=x_title, axis=alt.Axis(labelAngle=0)),
        y=alt.Y(f"{y}:O", title=y_title, sort="descending"),
    )
    parts: list[Any] = [
        square.mark_rect().encode(color=alt.Color(f"{value}:Q", title=value_title, scale=scale,
                                                  legend=alt.Legend(orient="right")), tooltip=tooltips(rows))
    ]  # fmt: skip
    if written and side > 20:
        parts.append(square.mark_text(fontSize=11 if side > 30 else 9).encode(**_written(rows, value, domain, middle)))
    width, height = side * len(across), side * len(down)
    return as_spec(arrange_panels(parts, rows, (), panel, columns=columns, width=width, height=height))


def _written(
    rows: Sequence[Row], value: str, domain: tuple[float, float] | None, middle: float | None
) -> dict[str, Any]:
    """Short numbers in white or black, whichever is seen on the square's colour."""
    import altair as alt

    known = [float(row[value]) for row in rows if row.get(value) is not None] or [0.0]
    low, high = domain or (min(known), max(known))
    digits = ".0f" if max(map(abs, known)) >= 10 else ".1f" if high - low > 1 else ".2f"
    is_dark = f"datum.{value} < {low + 0.48 * (high - low):g}"
    if middle is not None:
        is_dark = f"abs(datum.{value} - {middle:g}) > {0.7 * max(abs(high - middle), abs(low - middle)):g}"
    ink = alt.condition(is_dark, alt.value("#ffffff"), alt.value("#22201d"))
    return {"text": alt.Text(f"{value}:Q", format=digits), "color": ink}
