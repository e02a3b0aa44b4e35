"""Horizontal bars from zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Row
from frostline.charts.draw.parts import arrange_panels, as_spec, draw_whiskers, encode_colour, tooltips
from frostline.charts.theme import GREY

_WIDEST_NAME = 260  # pixels


def bars(
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
) -> dict[str, Any]:
    """Return bars from zero, side by side for each name, with intervals as whiskers; arguments as for `lines`.

    Where the colour is that of the name itself, there is one bar for each name and no legend.
    """
    import altair as alt

    aside = {} if colour in (None, x) else {"yOffset": alt.YOffset(f"{colour}:N", sort=None)}
    names = alt.Y(f"{x}:N", title=x_title, sort=None, axis=alt.Axis(labelLimit=_WIDEST_NAME))
    base = alt.Chart().encode(y=names, **aside)
    hue = encode_colour(rows, colour, None, colours, legend=colour != x)
    length = alt.X(f"{y}:Q", title=y_title)
    parts = [
        base.mark_bar(opacity=0.9).encode(x=length, tooltip=tooltips(rows), **hue),
        *draw_whiskers(base.mark_rule(style="whisker"), base, rows, interval, {"color": alt.value(GREY)}, axis="x",
                       title=y_title),
    ]  # fmt: skip
    return as_spec(arrange_panels(parts, rows, (), panel, height=None))
