"""The plans of a race as far as they were trained, and the race as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from frostline.plans.lengths import LEAST_STEPS
from frostline.records import Proposal, TrialResult, TrialSpec
from frostline.records.run import RaceEntry
from frostline.search.proposals import baseline_names


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A plan as far as it was trained in a round, at the best of its learning rates."""

    proposal: Proposal
    spec: TrialSpec
    result: TrialResult
    value: float  # the metric on validation, negated if lower is better
    expected: float  # the same, or what it is expected to be on other rows, given how plans do on most tasks
    loss: float  # the lowest on validation
    seconds: float  # of its trials so far
    is_converged: bool
    rows: int  # training rows

    @property
    def identity(self) -> str:
        """What tells its plan apart from others."""
        return str(self.proposal.plan.identity())

    @property
    def steps(self) -> int:
        """The steps that it was trained for; a solved head counts as trained to the end."""
        return self.spec.recipe.steps or LEAST_STEPS

    @property
    def best_step(self) -> int:
        """The step of the evaluation that was kept."""
        metric = next(iter(self.spec.task.metrics))
        value = self.result.metrics["validation"][metric]
        return next(int(step["step"]) for step in self.result.history if step[f"validation_{metric}"] == value)

    @property
    def record(self) -> RaceEntry:
        """The entry as it is stored."""
        recipe = self.spec.recipe
        return RaceEntry(
            trial=self.spec.id,
            plan=self.proposal.plan,
            sources=self.proposal.sources,
            train_rows=self.rows,
            epochs=ceil((recipe.steps or 1) * recipe.batch * recipe.accumulate / self.rows),
            steps=recipe.steps,
            is_converged=self.is_converged,
            learning_rate=0.0 if recipe.schedule == "solved" else recipe.learning_rate or 0.0,
            soup=recipe.soup,
            validation=self.result.metrics["validation"],
            seconds=round(self.seconds, 3),
        )


@dataclass(frozen=True, kw_only=True)
class Race:
    """A race, finished or not: the entries of each round, best first; the last has the plans that can still win."""

    rounds: tuple[tuple[Entry, ...], ...]
    failed: tuple[str, ...] = ()  # one line per trial that diverged
    notes: tuple[str, ...] = ()

    @property
    def final(self) -> tuple[Entry, ...]:
        """The entries that were trained to the end."""
        return self.rounds[-1]

    @property
    def baselines(self) -> dict[str, str]:
        """The best entry of each kind of baseline in the last round, by its trial.

        A plan that stopped early, because it was behind, is left out: nobody knows how good it would have become.
        """
        early = [entry.spec.recipe.steps or 0 for entry in self.final if not entry.proposal.joins_late]
        trained = [
            entry
            for entry in self.final
            if entry.is_converged or entry.proposal.joins_late or entry.steps >= max(early, default=0)
        ]
        kinds = {name: [entry for entry in trained if name in entry.proposal.baselines] for name in baseline_names()}
        return {name: entries[0].spec.id for name, entries in kinds.items() if entries}

    def entry(self, trial: str) -> Entry:
        """Return an entry of the last round by the id of its trial."""
        return next(entry for entry in self.final if entry.spec.id == trial)

    def then(self, proof: Race) -> Race:
        """Return the race with the plans of another one in its last round."""
        return Race(
            rounds=(*self.rounds[:-1], *proof.rounds[:-1], tuple(ranked([*self.final, *proof.final]))),
            failed=(*self.failed, *proof.failed),
            notes=(*self.notes, *proof.notes),
        )


def ranked(entries: Sequence[Entry]) -> list[Entry]:
    """Return the best entries first, as far as is expected; of equals the one with the lower loss, then the cheaper."""
    return sorted(entries, key=lambda entry: (-entry.expected, -entry.value, entry.loss, entry.proposal.cost.price))
