"""A trial: its specification, on which the result depends, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from frostline.records._json import Number, Record
from frostline.records.encoder_and_task import EncoderRef, TaskRef
from frostline.records.plan import Plan
from frostline.records.recipe import Recipe
from frostline.records.trial_id import trial_id

# Why a trial failed: training diverged, a user's mistake, a bug, a lost process, or a full disk.
FailureCause = Literal["", "diverged", "refused", "error", "lost", "disk full"]
FAILURE_CAUSES: tuple[FailureCause, ...] = get_args(FailureCause)


@dataclass(frozen=True, kw_only=True)
class TrialSpec(Record):
    """One trial: everything that its result depends on.

    Args:
        encoder: the pretrained encoder.
        task: the task, with the metrics that choose the epoch to keep.
        plan: the plan.
        recipe: the recipe, with threads and seed.
        train_rows: number of training rows to use; None for all.
        kind: kind of trial: 'tune', or a kind that a study defines.
        surgery: changes to the layers before training, see `surgery.operate`.
        options: options of the kind.
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

    @classmethod
    def upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON with the metrics as a list; the first stores have them as one string with commas."""
        task = dict(data["task"])
        metrics = task["metrics"]
        return {**data, "task": {**task, "metrics": metrics.split(",") if isinstance(metrics, str) else metrics}}


@dataclass(frozen=True, kw_only=True)
class TrialResult(Record):
    """The result of a trial.

    Args:
        status: done, or failed.
        reason: why it failed, in one line.
        cause: kind of failure; empty for a finished trial, or if it was recorded before causes were.
        traceback: traceback of a bug.
        metrics: metrics of the kept epoch, by split.
        history: one record per evaluation.
        predictions: for every row of a split, the class number, the number of the choice or the value.
        values: further results by name, as plain JSON values: curves, matrices, scores.
        parameters: numbers of total and trainable parameters.
        seconds: time of computing frozen states, training and evaluating.
        versions: versions of the libraries.
    """

    status: Literal["done", "failed"]
    reason: str = ""
    cause: FailureCause = ""
    traceback: str = ""
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    predictions: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
