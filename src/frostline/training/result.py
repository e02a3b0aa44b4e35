"""The result of tuning: the model in memory, and how it was tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from frostline.records import BaseEncoder, Plan, Recipe
from frostline.records.encoder_and_task import TunedEncoder, TunedTask
from frostline.records.tuned import Parameters, TuningResult
from frostline.tasks import Task
from frostline.training.loop import Trained
from frostline.training.model import Tunable


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A tuned model and how it was tuned.

    Args:
        tunable: the model, in memory.
        base: the encoder that it was tuned from.
        plan: the plan.
        recipe: the recipe, with the learning rate that was used.
        task: the task that it was tuned for.
        trained: history, best epoch and audit.
        metrics: task metrics by split.
        outputs: the model's outputs for each row, by split; logits or values.
        notes: sentences on what a user should know.
        seconds: durations of building caches, training and testing.
        folder: folder that it was saved to, or None.
    """

    tunable: Tunable
    base: BaseEncoder
    plan: Plan
    recipe: Recipe
    task: Task
    trained: Trained
    metrics: Mapping[str, Mapping[str, float]]
    outputs: Mapping[str, Tensor]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    folder: Path | None = None

    @property
    def record(self) -> TuningResult:
        """The record of the result."""
        task, audit = self.task, self.trained.audit
        return TuningResult(
            encoder=TunedEncoder(name=self.base.name, revision=self.base.revision, layers=self.base.layers),
            task=TunedTask(
                name=task.name,
                fingerprint=task.fingerprint,
                kind=task.kind,
                labels=task.label_names,
                pairs=task.takes_pairs,
                metrics=task.metrics,
            ),
            plan=self.plan,
            recipe=self.recipe,
            parameters=Parameters(total=audit.total, trainable=audit.trainable),
            best=self.trained.best,
            metrics=self.metrics,
            audit=str(audit),
            notes=self.notes,
            seconds=self.seconds,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.record.to_json()
