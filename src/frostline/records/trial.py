"""A trial: everything its result depends on, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from frostline.records._plain import plain
from frostline.records.plan import Plan
from frostline.records.recipe import Recipe
from frostline.records.references import EncoderRef, TaskRef
from frostline.records.trial_id import trial_id

# Why a trial failed: its training diverged, a user's mistake, a bug, a lost process, or a disk without room.
FailureCause = Literal["", "diverged", "refused", "error", "lost", "disk full"]
FAILURE_CAUSES: tuple[FailureCause, ...] = get_args(FailureCause)


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """One trial: everything that its result depends on.

    Args:
        encoder: that it starts from.
        task: that it is about, and the metrics that choose the epoch that is kept.
        plan: what trains.
        recipe: how, with threads and seed.
        train_rows: how many training rows are learnt from; None for all.
        kind: what is done: 'tune', or what a study has defined.
        surgery: changes to the layers before that, see `surgery.operate`.
        options: of the kind.
    """

    encoder: EncoderRef
    task: TaskRef
    plan: Plan
    recipe: Recipe
    train_rows: int | None = None
    kind: str = "tune"
    surgery: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """A hash of everything that the result depends on; names and reasons are left out."""
        return trial_id(self)

    def to_json(self) -> dict[str, Any]:
        """The specification as plain JSON values."""
        return {
            "encoder": self.encoder.to_json(),
            "task": self.task.to_json(),
            "plan": self.plan.to_json(),
            "recipe": self.recipe.to_json(),
            "train_rows": self.train_rows,
            "kind": self.kind,
            "surgery": plain(self.surgery),
            "options": plain(self.options),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrialSpec:
        """The specification that `to_json` wrote."""
        made = {
            "encoder": EncoderRef.from_json(data["encoder"]),
            "task": TaskRef.from_json(data["task"]),
            "plan": Plan.from_json(data["plan"]),
            "recipe": Recipe.from_json(data["recipe"]),
        }
        return cls(**{**data, **made})


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """What came out of a trial.

    Args:
        status: done, or failed.
        reason: why it failed, in a line.
        cause: the kind of failure; empty for a trial that is done, or was recorded before causes were.
        traceback: where a bug arose.
        metrics: by split, those of the epoch that was kept.
        history: one record per evaluation.
        predictions: by split, for every row the class number, the choice's number or the value.
        values: what else came out, by name, as plain JSON values: curves, matrices, scores.
        parameters: total and trainable.
        seconds: of frozen states, training and judging.
        versions: of what it ran with.
    """

    status: Literal["done", "failed"]
    reason: str = ""
    cause: FailureCause = ""
    traceback: str = ""
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    predictions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {key: plain(getattr(self, key)) for key in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrialResult:
        """The result that `to_json` wrote."""
        predictions = {split: tuple(values) for split, values in data["predictions"].items()}
        return cls(**{**data, "history": tuple(data["history"]), "predictions": predictions})
