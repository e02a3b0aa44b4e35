"""A proposal: a plan that is worth trying, with its sources and its cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from frostline.records._json import Record
from frostline.records.cost import Cost
from frostline.records.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Proposal(Record):
    """A plan with its sources and its cost.

    Args:
        plan: the plan.
        sources: strategies with their options, and methods, that propose this plan.
        cost: cost of a complete trial.
        baselines: baselines of a race that this plan represents, such as 'the last layers'.
        joins_late: whether it takes part only in the last round of a race.
    """

    plan: Plan
    sources: tuple[str, ...]
    cost: Cost
    baselines: tuple[str, ...] = ()
    joins_late: bool = False

    @property
    def origins(self) -> str:
        """The strategies and methods that propose it, without their options."""
        return without_options(self.sources)


def without_options(sources: Iterable[str]) -> str:
    """Return strategies and methods without their options, each once."""
    return ", ".join(dict.fromkeys(source.split(":")[0] for source in sources))
