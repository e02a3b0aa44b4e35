"""Colours and letters of all figures: the same thing has the same colour everywhere, for all kinds of eyes.

The colours are Okabe and Ito's, made to be told apart with the common kinds of colour blindness, in light and in dark.
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
    """How a part of an encoder is drawn after what a plan does with it."""

    fill: str
    ink: str
    edge: str


ROLES = {
    "tuned": Role(RED, "#1c0d02", RED), "frozen": Role("#9cc9e8", "#0d1c26", "#9cc9e8"),
    "dropped": Role("transparent", GREY, GREY), "head": Role("#33312e", "#ffffff", GREY),
}  # fmt: skip

_LETTERS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_PAPER = {"light": "#ffffff", "dark": "#1c1a18"}
_INK = {"light": ("#22201d", "#6b665e", "#e4e0d8"), "dark": ("#ece8e1", "#a8a297", "#3a3732")}


def encoder_colours(encoders: Sequence[str], families: Mapping[str, str]) -> dict[str, str]:
    """A colour for each encoder: its family's, unless another encoder of the family has it already."""
    from frostline.encoders.families import FAMILIES  # with torch, which no other colour needs

    own = {name: family.colour for name, family in FAMILIES.items()}
    found: dict[str, str] = {}
    spare = iter([colour for colour in CATEGORIES if colour not in own.values()] + list(CATEGORIES))
    for name in dict.fromkeys(encoders):
        colour = own.get(families.get(name, ""))
        while colour is None or (colour in found.values() and len(found) < len(CATEGORIES)):
            colour = next(spare, GREY)
        found[name] = colour
    return found


def config(scheme: str = "light") -> dict[str, Any]:
    """Vega-Lite's settings for letters, lines and backgrounds; `scheme` is light or dark."""
    ink, soft, line = _INK[scheme]
    text = {"labelColor": soft, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12,
            "titleFontWeight": "normal", "labelLimit": 180, "titleLimit": 400}  # fmt: skip
    return {
        "background": _PAPER[scheme],
        "font": _LETTERS,
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
