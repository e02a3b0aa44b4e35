"""A trial: everything its result depends on, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from frostline.records._json import Number, Record
from frostline.records.encoder_and_task import EncoderRef, TaskRef
from frostline.records.plan import Plan
from frostline.records.recipe import Recipe
from frostline.records.trial_id import trial_id

# Why a trial failed: its training diverged, a user's mistake, a bug, a lost process, or a disk without room.
FailureCause = Literal["", "diverged", "refused", "error", "lost", "disk full"]
FAILURE_CAUSES: tuple[FailureCause, ...] = get_args(FailureCause)


@dataclass(frozen=True, kw_only=True)
class TrialSpec(Record):
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

    @classmethod
    def upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON with the metrics as a list; the first stores have them in one word, with commas between."""
        task = dict(data["task"])
        metrics = task["metrics"]
        return {**data, "task": {**task, "metrics": metrics.split(",") if isinstance(metrics, str) else metrics}}


@dataclass(frozen=True, kw_only=True)
class TrialResult(Record):
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
    predictions: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
