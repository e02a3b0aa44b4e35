"""What a run found: the plans, the race, the decision, the tests and the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from frostline.records import FORMAT_VERSION, LayerScores
from frostline.records.budget import Budget
from frostline.records.difference import Difference
from frostline.records.display import Displayed
from frostline.records.proposal import Proposal
from frostline.search.decision import Decision, as_json, given_up
from frostline.search.successive_halving import Entry, Race
from frostline.stats.intervals import compare
from frostline.tasks.metrics import METRICS
from frostline.training.result import Tuned


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How good a model is on the test rows.

    Args:
        name: what it is: the choice, or a baseline.
        entry: its entry in the race.
        metrics: by name.
        low: lower end of the 95% interval of the deciding metric.
        high: its upper end.
        choice_minus_it: how much better the choice is, in points; None for the choice itself.
    """

    name: str
    entry: Entry
    metrics: Mapping[str, float]
    low: float
    high: float
    choice_minus_it: Difference | None


@dataclass(frozen=True, kw_only=True)
class Run(Displayed):
    """What a run found.

    Args:
        scores: what was measured.
        proposals: the plans and their costs.
        race: how they did.
        decision: which was chosen and why.
        tests: the choice and the baselines on the test rows.
        tuned: the model.
        budget: limits and goal.
        notes: everything that is worth knowing, a sentence each.
        announced: how many of these were told while it ran.
        seconds: of measuring, preparing, racing and testing.
        folder: where it was saved.
    """

    scores: LayerScores
    proposals: tuple[Proposal, ...]
    race: Race
    decision: Decision
    tests: tuple[Judged, ...]
    tuned: Tuned
    budget: Budget
    notes: tuple[str, ...]
    announced: int
    seconds: Mapping[str, float]
    folder: Path

    @property
    def given_up(self) -> tuple[str, ...]:
        """What choosing this plan costs and saves against each baseline, a sentence each."""
        chosen, metric = self.decision.chosen, METRICS[self.tuned.task.metrics[0]]
        others = [(test.entry, test.name, test.choice_minus_it) for test in self.tests]
        if not others:
            by_id = {entry.spec.id: entry for entry in self.race.final}
            others = [(by_id[trial], name, self._on_validation(by_id[trial]))
                      for name, trial in self.race.baselines.items()]  # fmt: skip
        where = "test" if self.tests else "validation"
        return tuple(
            given_up(chosen, entry, name, metric.describe_difference(difference, where) if difference else "")
            for entry, name, difference in others
            if entry is not chosen
        )

    def _on_validation(self, other: Entry) -> Difference:
        """How much better the choice is than another plan on the validation rows."""
        task, chosen = self.tuned.task, self.decision.chosen
        assert task.validation is not None  # noqa: S101 (a race needs one, and says so)
        mine, theirs = (entry.result.predictions["validation"] for entry in (chosen, other))
        rows, seed = task.validation, self.tuned.recipe.seed
        return compare(rows.labels, mine, theirs, task.metrics[0], groups=rows.groups, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """The run as plain JSON values."""
        return {
            "kind": "run",
            "format": FORMAT_VERSION,
            "encoder": self.scores.encoder.to_json(),
            "task": self.scores.task.to_json(),
            "plan": self.tuned.plan.to_json(),
            "recipe": self.tuned.recipe.to_json(),
            "budget": self.budget.to_json(),
            "decision": as_json(self.decision),
            "given_up": list(self.given_up),
            "tests": [
                {
                    "name": test.name,
                    "trial": test.entry.spec.id,
                    "metrics": dict(test.metrics),
                    "low": test.low,
                    "high": test.high,
                    "choice_minus_it": None if test.choice_minus_it is None else asdict(test.choice_minus_it),
                }
                for test in self.tests
            ],
            "race": [[_entry_json(entry) for entry in rung] for rung in self.race.rungs],
            "failed": list(self.race.failed),
            "proposals": [one.to_json() for one in self.proposals],
            "notes": list(self.notes),
            "seconds": dict(self.seconds),
        }


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "trial": entry.spec.id,
        "plan": entry.proposal.plan.to_json(),
        "sources": list(entry.proposal.sources),
        "train_rows": entry.rung.train_rows,
        "epochs": entry.spec.recipe.epochs,
        "learning_rate": entry.spec.recipe.learning_rate,
        "validation": dict(entry.result.metrics["validation"]),
        "seconds": round(entry.seconds, 3),
    }
