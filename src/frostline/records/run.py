"""A run: the plans that were raced, which was chosen and why, and how it did on the test rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from frostline.records._json import FORMAT_VERSION, Number, Record
from frostline.records.budget import Budget
from frostline.records.cost import Cost
from frostline.records.difference import Difference
from frostline.records.display import Displayed
from frostline.records.encoder_and_task import MeasuredEncoder, MeasuredTask
from frostline.records.plan import Plan
from frostline.records.proposal import Proposal, without_options
from frostline.records.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class RaceEntry(Record):
    """A plan in one round of a race.

    Args:
        trial: id of its trial, with the best of the learning rates that were tried.
        plan: what trained.
        sources: strategies with their options, and methods, that gave the plan.
        train_rows: that it learnt from.
        epochs: over these rows.
        learning_rate: the highest one.
        validation: task metrics on validation.
        seconds: of all its trials in this round.
    """

    trial: str
    plan: Plan
    sources: tuple[str, ...]
    train_rows: int
    epochs: int
    learning_rate: Number
    validation: Mapping[str, float]
    seconds: float

    @property
    def origins(self) -> str:
        """The strategies and methods that the plan comes from, without their options."""
        return without_options(self.sources)


@dataclass(frozen=True, kw_only=True)
class Decision(Record):
    """Which plan was chosen and why; plans are named by the ids of their trials in the last round.

    Args:
        chosen: the choice.
        best: the best on validation.
        good_enough: those that are shown to lie within the margin of the best.
        against_best: how far each is from the best on validation, in points.
        why: the reasons, a sentence each.
    """

    chosen: str
    best: str
    good_enough: tuple[str, ...]
    against_best: Mapping[str, Difference]
    why: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Judged(Record):
    """How good a model is on the test rows.

    Args:
        name: what it is: the choice, or a baseline.
        trial: id of its trial in the last round.
        metrics: by name.
        low: lower end of the 95% interval of the deciding metric.
        high: its upper end.
        choice_minus_it: how much better the choice is, in points; None for the choice itself.
    """

    name: str
    trial: str
    metrics: Mapping[str, float]
    low: float
    high: float
    choice_minus_it: Difference | None


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record, Displayed):
    """What a run recorded.

    Args:
        kind: of file.
        format: of file.
        encoder: that was tuned.
        task: that it was tuned for.
        plan: the choice.
        recipe: that the choice was tuned with.
        budget: limits and goal.
        decision: which plan was chosen and why.
        given_up: what the choice costs and saves against each baseline, a sentence each.
        tests: the choice and the baselines on the test rows; none where there are no test rows.
        race: the plans of every round, the best first.
        failed: trials that failed, a line each.
        proposals: the plans that took part and their costs.
        notes: everything that is worth knowing, a sentence each.
        seconds: of measuring, planning, racing and testing.
        validation_rows: that the plans were compared on; None in the first files.
    """

    kind: Literal["run"] = "run"
    format: Literal[1] = FORMAT_VERSION
    encoder: MeasuredEncoder
    task: MeasuredTask
    plan: Plan
    recipe: Recipe
    budget: Budget
    decision: Decision
    given_up: tuple[str, ...]
    tests: tuple[Judged, ...]
    race: tuple[tuple[RaceEntry, ...], ...]
    failed: tuple[str, ...]
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    validation_rows: int | None = None

    def __post_init__(self) -> None:
        ids = {entry.trial for entry in self.final}
        for what, trial in [("choice", self.decision.chosen), *((test.name, test.trial) for test in self.tests)]:
            if trial not in ids:
                raise ValueError(f"{what}: trial {trial} is not in the last round of the race")

    @property
    def final(self) -> tuple[RaceEntry, ...]:
        """The plans of the last round, the best first."""
        return self.race[-1] if self.race else ()

    def entry(self, trial: str) -> RaceEntry:
        """Return a plan of the last round by the id of its trial."""
        return next(entry for entry in self.final if entry.trial == trial)

    def cost(self, plan: Plan) -> Cost | None:
        """Return what a plan costs; None where it was not proposed."""
        return next((one.cost for one in self.proposals if one.plan.identity() == plan.identity()), None)

    @classmethod
    def upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON with differences under the names of their fields; their value was called points at first."""
        decision = data["decision"]
        against = {
            trial: {"value" if name == "points" else name: value for name, value in gap.items()}
            for trial, gap in decision["against_best"].items()
        }
        return {**data, "decision": {**decision, "against_best": against}}
