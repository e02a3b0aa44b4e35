"""What a run gives back: the record of it, and the model in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frostline.records import LayerScores
from frostline.records.difference import Difference
from frostline.records.display import as_html
from frostline.records.run import Decision, Judged, RunRecord
from frostline.search.decision import given_up
from frostline.search.successive_halving import Entry, Race
from frostline.stats.intervals import compare
from frostline.tasks import Task
from frostline.tasks.metrics import METRICS
from frostline.training.result import Tuned


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run.

    Args:
        record: what is written of it: plans, race, decision, tests.
        scores: what was measured.
        race: how the plans did, with the results of their trials.
        tuned: the model.
        folder: where it was saved.
        announced: how many of the notes were logged while it ran.
    """

    record: RunRecord
    scores: LayerScores
    race: Race
    tuned: Tuned
    folder: Path
    announced: int = 0

    @property
    def decision(self) -> Decision:
        """Which plan was chosen and why."""
        return self.record.decision

    @property
    def tests(self) -> tuple[Judged, ...]:
        """The choice and the baselines on the test rows."""
        return self.record.tests

    @property
    def chosen(self) -> Entry:
        """The choice, with the result of its trial."""
        return self.race.entry(self.decision.chosen)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.record.to_json()

    def _repr_html_(self) -> str | None:
        return as_html(self.record)


def against_baselines(
    task: Task, race: Race, decision: Decision, tests: Sequence[Judged], *, seed: int
) -> tuple[str, ...]:
    """Return what the choice costs and saves against each baseline, a sentence each.

    Args:
        task: for its metric, and for the validation rows where there are no test rows.
        race: how the plans did.
        decision: the choice.
        tests: the choice and the baselines on the test rows.
        seed: of the bootstrap.
    """
    chosen, metric = race.entry(decision.chosen), METRICS[task.metrics[0]]
    others: Iterable[tuple[str, str, Difference | None]] = (
        [(test.name, test.trial, test.choice_minus_it) for test in tests]
        if tests
        else [
            (name, trial, _on_validation(task, chosen, race.entry(trial), seed=seed))
            for name, trial in race.baselines.items()
        ]
    )
    where = "test" if tests else "validation"
    return tuple(
        given_up(chosen, race.entry(trial), name, metric.describe_difference(difference, where) if difference else "")
        for name, trial, difference in others
        if trial != decision.chosen
    )


def _on_validation(task: Task, chosen: Entry, other: Entry, *, seed: int) -> Difference:
    """Return how much better the choice is than another plan on the validation rows."""
    assert task.validation is not None  # noqa: S101 (a race needs one, and says so)
    own, others = (entry.result.predictions["validation"] for entry in (chosen, other))
    return compare(task.validation.labels, own, others, task.metrics[0], groups=task.validation.groups, seed=seed)
