"""Bars from zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Row
from frostline.charts.draw.parts import (
    arrange_panels,
    arrowheads,
    as_spec,
    encode_colour,
    tooltips,
)
from frostline.charts.theme import GREY


def bars(
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
    """Bars from zero, side by side for each place, with intervals as whiskers; arguments as of `lines`.

    Where the colour is that of the place itself, there is one bar for each place and no legend.
    """
    import altair as alt

    aside = {} if colour in (None, x) else {"yOffset": alt.YOffset(f"{colour}:N", sort=None)}
    base = alt.Chart().encode(y=alt.Y(f"{x}:N", title=x_title, sort=None), **aside)
    length = alt.X(f"{y}:Q", title=y_title)
    hue = encode_colour(rows, colour, colour_title, colours, legend=colour != x)
    parts = [base.mark_bar(opacity=0.9).encode(x=length, tooltip=tooltips(rows), **hue)]
    if interval is not None:
        low, high = interval
        parts.append(base.mark_rule(style="whisker").encode(x=alt.X(f"{low}:Q", title=y_title), x2=alt.X2(high)))
        parts += arrowheads(base, rows, interval, {"color": alt.value(GREY)}, axis="x")
    vertical = [alt.Chart().mark_rule(strokeDash=[5, 4]).encode(x="level:Q", tooltip=["name:N", "level:Q"])]
    return as_spec(arrange_panels(parts + (vertical if levels else []), rows, levels, panel, height=None))
