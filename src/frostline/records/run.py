"""A run: the plans in the race, the choice and its reasons, and the results on the test rows."""

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
        trial: id of its trial with the best of the learning rates.
        plan: the plan.
        sources: strategies with their options, and methods, that propose the plan.
        train_rows: number of training rows.
        epochs: number of epochs over these rows, the last one perhaps begun only.
        steps: number of steps; None in the first files, where only epochs were counted.
        is_converged: whether more steps were not worth it; None in the first files.
        learning_rate: peak learning rate.
        soup: factors on it of the models whose weights were averaged; None for one model.
        validation: task metrics on the validation rows.
        seconds: time of all its trials in this round.
    """

    left_out_at_default = ("soup",)

    trial: str
    plan: Plan
    sources: tuple[str, ...]
    train_rows: int
    epochs: int
    learning_rate: Number
    validation: Mapping[str, float]
    seconds: float
    steps: int | None = None
    is_converged: bool | None = None
    soup: tuple[Number, ...] | None = None

    @property
    def origins(self) -> str:
        """The strategies and methods that propose the plan, without their options."""
        return without_options(self.sources)


@dataclass(frozen=True, kw_only=True)
class Decision(Record):
    """The chosen plan and the reasons; plans are identified by the ids of their trials in the last round.

    Args:
        chosen: the chosen plan.
        best: the best plan on validation.
        good_enough: plans that are shown to be within the margin of the best.
        against_best: difference of each plan to the best on validation, in points.
        why: the reasons, one sentence each.
        proof: difference of full fine-tuning to the choice of the race on validation, in points; None without it.
        is_proof: whether full fine-tuning was shown to be better by more than the margin, and is the choice.
    """

    chosen: str
    best: str
    good_enough: tuple[str, ...]
    against_best: Mapping[str, Difference]
    why: tuple[str, ...]
    proof: Difference | None = None
    is_proof: bool = False


@dataclass(frozen=True, kw_only=True)
class Judged(Record):
    """The results of a model on the test rows.

    Args:
        name: 'the choice', or the name of a baseline.
        trial: id of its trial in the last round.
        metrics: task metrics by name.
        low: lower end of the 95% interval of the deciding metric.
        high: its upper end.
        choice_minus_it: difference of the choice to this model, in points; None for the choice itself.
    """

    name: str
    trial: str
    metrics: Mapping[str, float]
    low: float
    high: float
    choice_minus_it: Difference | None


def judging_rows(rows: int, *, folds: int | None) -> str:
    """Return in words which rows plans are judged on.

    Args:
        rows: their number.
        folds: number of folds of all labelled rows; None for validation rows.
    """
    return f"{rows:,} validation rows" if folds is None else f"{rows:,} labelled rows in {folds} folds"


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record, Displayed):
    """The complete record of a run.

    Args:
        kind: kind of file.
        format: version of the file format.
        encoder: the tuned encoder.
        task: the task that it was tuned for.
        plan: the chosen plan.
        recipe: the recipe of the chosen plan.
        budget: limits and goal.
        decision: the choice and its reasons.
        given_up: what the choice costs and saves compared with each baseline, one sentence each.
        tests: results of the choice and the baselines on the test rows; empty without test rows.
        race: the plans of every round, the best first.
        failed: trials that failed, one line each.
        proposals: the plans that took part and their costs.
        notes: remarks for the reader, one sentence each.
        seconds: time of measuring, planning, racing and testing.
        validation_rows: number of rows that plans were judged on; None in the first files.
        folds: number of folds of all labelled rows that they were judged in; None if they were validation rows.
        is_finished: whether the search had come to its end when this was written.
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
    folds: int | None = None
    is_finished: bool = True

    def __post_init__(self) -> None:
        ids = {entry.trial for entry in self.final}
        for what, trial in [("choice", self.decision.chosen), *((test.name, test.trial) for test in self.tests)]:
            if trial not in ids:
                raise ValueError(f"{what}: trial {trial} is not in the last round of the race")

    @property
    def judged_on(self) -> str:
        """The rows that plans were judged on, in words."""
        return judging_rows(self.validation_rows or 0, folds=self.folds)

    @property
    def final(self) -> tuple[RaceEntry, ...]:
        """The plans of the last round, the best first."""
        return self.race[-1] if self.race else ()

    def entry(self, trial: str) -> RaceEntry:
        """Return a plan of the last round by the id of its trial."""
        return next(entry for entry in self.final if entry.trial == trial)

    def cost(self, plan: Plan) -> Cost | None:
        """Return the cost of a plan, or None if it was not proposed."""
        return next((each.cost for each in self.proposals if each.plan.identity() == plan.identity()), None)

    @classmethod
    def upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON with the value of a difference under its name; the first version called it points."""
        decision = data["decision"]
        against = {
            trial: {"value" if name == "points" else name: value for name, value in gap.items()}
            for trial, gap in decision["against_best"].items()
        }
        return {**data, "decision": {**decision, "against_best": against}}
