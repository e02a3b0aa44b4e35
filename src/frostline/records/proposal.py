"""A proposal: a plan that is worth trying, where it comes from and what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from frostline.records._json import Record
from frostline.records.cost import Cost
from frostline.records.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Proposal(Record):
    """A plan, where it comes from and what it costs.

    Args:
        plan: what trains.
        sources: strategies with their options, and methods, that give this plan.
        cost: of a complete trial.
        baselines: what a race compares its choice with and this plan stands for, as in 'the last layers'.
        joins_late: whether a race has it in its last round only.
    """

    plan: Plan
    sources: tuple[str, ...]
    cost: Cost
    baselines: tuple[str, ...] = ()
    joins_late: bool = False

    @property
    def origins(self) -> str:
        """The strategies and methods that it comes from, without their options."""
        return without_options(self.sources)


def without_options(sources: Iterable[str]) -> str:
    """Return strategies and methods without their options, each once."""
    return ", ".join(dict.fromkeys(source.split(":")[0] for source in sources))
