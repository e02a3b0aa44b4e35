"""Flags that limit what plans may cost, and say what is wanted of them."""

# ruff: noqa: UP045 (typer reads annotations at run time and wants Optional spelled out)

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from frostline.errors import OptionError

if TYPE_CHECKING:
    from frostline.search.limits import Budget

Minutes = Annotated[Optional[float], typer.Option("--minutes", help="Time for the whole run.", show_default="no limit")]
MaxTrainable = Annotated[
    Optional[str],
    typer.Option("--max-trainable", help="Parameters that may train, as in 500k or 5M.", show_default="no limit"),
]
MaxLatency = Annotated[
    Optional[str],
    typer.Option(
        "--max-latency",
        help="Time of a prediction, as a share of the whole encoder's: 0.5 or 50%.",
        show_default="no limit",
    ),
]
MaxMemory = Annotated[
    Optional[float],
    typer.Option("--max-memory", help="Gigabytes of memory for tuning.", show_default="no limit"),
]
MaxLayers = Annotated[
    Optional[int],
    typer.Option("--max-layers", help="Layers that the saved model may have.", show_default="no limit"),
]
Margin = Annotated[
    Optional[float],
    typer.Option(
        "--margin",
        help="Points of the metric that you are ready to give up for a cheaper plan.",
        show_default="1; none of mse",
    ),
]
Smallest = Annotated[
    bool, typer.Option("--smallest", help="Of the plans that are good enough, take the smallest model.")
]
Fastest = Annotated[
    bool, typer.Option("--fastest", help="Of the plans that are good enough, take the fastest at predicting.")
]
Best = Annotated[bool, typer.Option("--best", help="Take the best plan on validation, whatever it costs.")]
AllowFrostlineOnly = Annotated[
    bool,
    typer.Option("--allow-frostline-only", help="Let plans take part whose models transformers alone cannot load."),
]

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}
# A comma only before three digits: elsewhere it is another country's point, and 1,5M would be read as 15M.
_COUNT = re.compile(r"((?:\d{1,3}(?:[,_]\d{3})+|\d*)(?:\.\d*)?)\s*([kmb]?)")


def read(
    *,
    minutes: float | None,
    max_trainable: str | None,
    max_latency: str | None,
    max_memory: float | None,
    max_layers: int | None,
    margin: float | None,
    smallest: bool,
    fastest: bool,
    best: bool,
) -> Budget:
    """The budget that the flags stand for."""
    from frostline.search.limits import Budget

    goals = {"smallest": smallest, "fastest": fastest, "best": best}
    chosen = [name for name, wanted in goals.items() if wanted]
    if len(chosen) > 1:
        raise OptionError(f"--{' and --'.join(chosen)}: say one of them")
    return Budget(
        minutes=minutes,
        max_trainable=None if max_trainable is None else _count(max_trainable),
        max_latency=None if max_latency is None else _share(max_latency),
        max_memory=max_memory,
        max_layers=max_layers,
        margin=margin,
        goal=chosen[0] if chosen else "cheapest",  # type: ignore[arg-type]
    )


def _count(words: str) -> float:
    """'5M' as a number."""
    match = _COUNT.fullmatch(words.strip().lower())
    try:
        if match is None:
            raise ValueError
        return float(match[1].replace(",", "").replace("_", "")) * _UNITS[match[2]]
    except ValueError:
        raise OptionError(f"--max-trainable {words!r}: must be a number of parameters, as in 500k or 5M") from None


def _share(words: str) -> float:
    """'50%' as a number."""
    try:
        return float(words.strip().rstrip("%")) / (100 if words.strip().endswith("%") else 1)
    except ValueError:
        raise OptionError(f"--max-latency {words!r}: must be a share, as in 0.5 or 50%") from None
