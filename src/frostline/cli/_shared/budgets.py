"""Flags for the limits of plans, and for the goal among plans within the limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, cast

import typer

from frostline.errors import OptionError
from frostline.records.budget import Budget, Goal

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}
# A comma only before three digits: elsewhere it is another country's point, and 1,5M would be read as 15M.
_COUNT = re.compile(r"((?:\d{1,3}(?:[,_]\d{3})+|\d*)(?:\.\d*)?)\s*([kmb]?)")


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """Limits of plans, and the goal among plans within the limits."""

    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="Time limit for the whole run, in minutes.", show_default="no limit"),
    ] = None
    max_trainable: Annotated[
        str | None,
        typer.Option("--max-trainable", help="Most trainable parameters, as in 500k or 5M.", show_default="no limit"),
    ] = None
    max_latency: Annotated[
        str | None,
        typer.Option(
            "--max-latency",
            help="Highest latency relative to the whole encoder, as in 0.5 or 50%.",
            show_default="no limit",
        ),
    ] = None
    max_memory: Annotated[
        float | None,
        typer.Option("--max-memory", help="Most memory for tuning, in gigabytes.", show_default="no limit"),
    ] = None
    max_layers: Annotated[
        int | None, typer.Option("--max-layers", help="Most layers in the saved model.", show_default="no limit")
    ] = None
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Choose the smallest model among the plans within the margin.")
    ] = False
    fastest: Annotated[
        bool,
        typer.Option("--fastest", help="Choose the model with the lowest latency among the plans within the margin."),
    ] = False
    best: Annotated[bool, typer.Option("--best", help="Choose the best plan on validation, whatever it costs.")] = False
    allow_frostline_only: Annotated[
        bool,
        typer.Option("--allow-frostline-only", help="Also consider plans whose models only Frostline can load."),
    ] = False

    def budget(self, *, margin: float | None = None) -> Budget:
        """Return the limits and the goal.

        Args:
            margin: largest acceptable loss in the metric, in points.
        """
        goals = {"smallest": self.smallest, "fastest": self.fastest, "best": self.best}
        chosen = [name for name, wanted in goals.items() if wanted]
        if len(chosen) > 1:
            raise OptionError(f"--{' and --'.join(chosen)}: choose one")
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
    """Limits, goal and margin."""

    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            help="Largest acceptable loss in the metric, in points, in exchange for a cheaper plan.",
            show_default="1; none for mse",
        ),
    ] = None


def _count(words: str) -> float:
    """Return '5M' as a number."""
    match = _COUNT.fullmatch(words.strip().lower())
    try:
        if match is None:
            raise ValueError
        return float(match[1].replace(",", "").replace("_", "")) * _UNITS[match[2]]
    except ValueError:
        raise OptionError(f"--max-trainable {words!r}: must be a number of parameters, as in 500k or 5M") from None


def _share(words: str) -> float:
    """Return '50%' as a number."""
    try:
        return float(words.strip().rstrip("%")) / (100 if words.strip().endswith("%") else 1)
    except ValueError:
        raise OptionError(f"--max-latency {words!r}: must be a share, as in 0.5 or 50%") from None
