"""Plans that are worth trying on a task."""

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
        kind: kind of file.
        format: version of the file format.
        encoder: the encoder of the plans.
        task: the task of the plans.
        proposals: the plans with their sources and costs.
        notes: what was left out and why, one sentence each.
    """

    kind: Literal["plans"] = "plans"
    format: Literal[1] = FORMAT_VERSION
    encoder: MeasuredEncoder
    task: MeasuredTask
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...]

    @property
    def table(self) -> Table:
        """The table of the plans with their costs."""
        rows = [
            {
                "plan": proposal.plan.name,
                "trainable": f"{proposal.cost.trainable:,}",
                "saved": f"{proposal.cost.stored:,}",
                "latency": f"{100 * proposal.cost.latency:.0f}%",
                "memory": f"{proposal.cost.memory / 1e6:,.0f} MB",
                "cache": f"{proposal.cost.cache / 1e6:,.0f} MB",
                "seconds": _range(proposal.cost),
                "from": proposal.origins,
            }
            for proposal in self.proposals
        ]
        title = f"{self.encoder.name} ({self.encoder.layers} layers) on {self.task.name}"
        return table_of("plans", title, rows)


def _range(cost: Cost) -> str:
    return "" if cost.seconds is None else f"{cost.seconds:.0f} ({cost.low:.0f} to {cost.high:.0f})"
