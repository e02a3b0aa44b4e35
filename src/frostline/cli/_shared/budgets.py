"""Flags that limit what plans may cost, and choose what is wanted of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from frostline.errors import OptionError

if TYPE_CHECKING:
    from frostline.records.budget import Budget, Goal

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}
# A comma only before three digits: elsewhere it is another country's point, and 1,5M would be read as 15M.
_COUNT = re.compile(r"((?:\d{1,3}(?:[,_]\d{3})+|\d*)(?:\.\d*)?)\s*([kmb]?)")


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """Limits on plans, and the goal among those that keep them."""

    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Time for the whole run.", show_default="no limit")
    ] = None
    max_trainable: Annotated[
        str | None,
        typer.Option("--max-trainable", help="Parameters that may train, as in 500k or 5M.", show_default="no limit"),
    ] = None
    max_latency: Annotated[
        str | None,
        typer.Option(
            "--max-latency",
            help="Time of a prediction, as a share of the whole encoder's: 0.5 or 50%.",
            show_default="no limit",
        ),
    ] = None
    max_memory: Annotated[
        float | None, typer.Option("--max-memory", help="Gigabytes of memory for tuning.", show_default="no limit")
    ] = None
    max_layers: Annotated[
        int | None, typer.Option("--max-layers", help="Layers that the saved model may have.", show_default="no limit")
    ] = None
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Of the plans that are good enough, take the smallest model.")
    ] = False
    fastest: Annotated[
        bool, typer.Option("--fastest", help="Of the plans that are good enough, take the fastest at predicting.")
    ] = False
    best: Annotated[bool, typer.Option("--best", help="Take the best plan on validation, whatever it costs.")] = False
    allow_frostline_only: Annotated[
        bool,
        typer.Option("--allow-frostline-only", help="Let plans take part whose models transformers alone cannot load."),
    ] = False

    def budget(self, *, margin: float | None = None) -> Budget:
        """Return the limits and the goal.

        Args:
            margin: points of the metric that a cheaper plan may cost.
        """
        from frostline.records.budget import Budget

        goals = {"smallest": self.smallest, "fastest": self.fastest, "best": self.best}
        chosen = [name for name, wanted in goals.items() if wanted]
        if len(chosen) > 1:
            raise OptionError(f"--{' and --'.join(chosen)}: say one of them")
        return Budget(
            minutes=self.minutes,
            max_trainable=None if self.max_trainable is None else _count(self.max_trainable),
            max_latency=None if self.max_latency is None else _share(self.max_latency),
            max_memory=self.max_memory,
            max_layers=self.max_layers,
            margin=margin,
            goal=cast("Goal", chosen[0] if chosen else "cheapest"),
        )


@dataclass(frozen=True, kw_only=True)
class RunBudgetOptions(BudgetOptions):
    """Limits, the goal, and what a cheaper plan may cost."""

    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            help="Largest acceptable loss in the metric, in points, in exchange for a cheaper plan.",
            show_default="1; none of mse",
        ),
    ] = None


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
