"""The plans that are worth trying on a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from frostline.records._json import FORMAT_VERSION, Record
from frostline.records.cost import Cost
from frostline.records.display import Displayed
from frostline.records.encoder_and_task import MeasuredEncoder, MeasuredTask
from frostline.records.proposal import Proposal
from frostline.records.table import Table, table_of


@dataclass(frozen=True, kw_only=True)
class Plans(Record, Displayed):
    """Plans that are worth trying, cheapest first.

    Args:
        kind: of file.
        format: of file.
        encoder: that they are for.
        task: that they are for.
        proposals: the plans, where they come from and what they cost.
        notes: what was left out and why, a sentence each.
    """

    kind: Literal["plans"] = "plans"
    format: Literal[1] = FORMAT_VERSION
    encoder: MeasuredEncoder
    task: MeasuredTask
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...]

    @property
    def table(self) -> Table:
        """The plans with their costs, as they are shown."""
        rows = [
            {
                "plan": one.plan.name,
                "trainable": f"{one.cost.trainable:,}",
                "saved": f"{one.cost.stored:,}",
                "latency": f"{100 * one.cost.latency:.0f}%",
                "memory": f"{one.cost.memory / 1e6:,.0f} MB",
                "cache": f"{one.cost.cache / 1e6:,.0f} MB",
                "seconds": _range(one.cost),
                "from": one.origins,
            }
            for one in self.proposals
        ]
        title = f"{self.encoder.name} ({self.encoder.layers} layers) on {self.task.name}"
        return table_of("plans", title, rows)


def _range(cost: Cost) -> str:
    return "" if cost.seconds is None else f"{cost.seconds:.0f} ({cost.low:.0f} to {cost.high:.0f})"
