"""Colours and fonts of all figures: the same thing has the same colour everywhere.

The palette is that of Okabe and Ito: distinct with the common kinds of colour blindness, on light and dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, RED = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d8c92f", "#56b4e9", "#d55e00",
)  # fmt: skip
GREY, VIOLET = "#8b8680", "#5b4a9e"

CATEGORIES = (BLUE, RED, GREEN, PINK, ORANGE, SKY, YELLOW, GREY)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
SEQUENTIAL = "viridis"
DIVERGING = "blueorange"


class Role(NamedTuple):
    """Colours of a part of an encoder, by its role in a plan."""

    fill: str
    ink: str
    edge: str


ROLES = {
    "tuned": Role(RED, "#1c0d02", RED), "frozen": Role("#9cc9e8", "#0d1c26", "#9cc9e8"),
    "dropped": Role("transparent", GREY, GREY), "head": Role("#33312e", "#ffffff", GREY),
}  # fmt: skip

_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_BACKGROUND = {"light": "#ffffff", "dark": "#1c1a18"}
_INK = {"light": ("#22201d", "#6b665e", "#e4e0d8"), "dark": ("#ece8e1", "#a8a297", "#3a3732")}


def encoder_colours(encoders: Sequence[str], families: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each encoder: its family's, unless another encoder already has it."""
    from frostline.encoders.families import FAMILIES  # imports torch, which other colours do not need

    own = {name: family.colour for name, family in FAMILIES.items()}
    chosen: dict[str, str] = {}
    spare = iter([colour for colour in CATEGORIES if colour not in own.values()] + list(CATEGORIES))
    for name in dict.fromkeys(encoders):
        colour = own.get(families.get(name, ""))
        while colour is None or (colour in chosen.values() and len(chosen) < len(CATEGORIES)):
            colour = next(spare, GREY)
        chosen[name] = colour
    return chosen


def spread_colours(names: Sequence[str], ramp: Sequence[str]) -> dict[str, str]:
    """Return a colour for each name, spread evenly over a ramp; a single name gets the first colour."""
    step = (len(ramp) - 1) / max(1, len(names) - 1)
    return {name: ramp[round(rank * step)] for rank, name in enumerate(names)}


def config(scheme: str = "light") -> dict[str, Any]:
    """Return Vega-Lite's settings for fonts, lines and backgrounds; `scheme` is light or dark."""
    ink, soft, line = _INK[scheme]
    text = {"labelColor": soft, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12,
            "titleFontWeight": "normal", "labelLimit": 180, "titleLimit": 400}  # fmt: skip
    return {
        "background": _BACKGROUND[scheme],
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelFlush": False,
            "labelOverlap": True,
            "labelSeparation": 4,
        },
        "legend": {**text, "orient": "bottom", "columns": 4, "symbolLimit": 40, "labelLimit": 260},
        "header": {**text, "labelFontSize": 12, "labelFontWeight": "bold", "labelColor": ink},
        "title": {"color": ink, "fontSize": 14, "anchor": "start", "fontWeight": "bold", "limit": 900},
        "text": {"color": ink},
        "rule": {"color": soft},
        "style": {"whisker": {"color": ink, "stroke": ink, "strokeWidth": 1.5}},
        "range": {"category": list(CATEGORIES), "heatmap": {"scheme": SEQUENTIAL}, "symbol": list(SHAPES)},
    }
