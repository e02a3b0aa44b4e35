"""The result of tuning: the model in memory, and how it was tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from frostline.records import FORMAT_VERSION, BaseEncoder, Plan, Recipe
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
        folder: where it was saved, or None.
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

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "kind": "tuned",
            "format": FORMAT_VERSION,
            "encoder": {name: getattr(self.base, name) for name in ("name", "revision", "layers")},
            "task": {
                "name": self.task.name,
                "fingerprint": self.task.fingerprint,
                "kind": self.task.kind,
                "labels": list(self.task.label_names),
                "pairs": self.task.takes_pairs,
                "metrics": list(self.task.metrics),
            },
            "plan": self.plan.to_json(),
            "recipe": self.recipe.to_json(),
            "parameters": {"total": self.trained.audit.total, "trainable": self.trained.audit.trainable},
            "best": dict(self.trained.best),
            "metrics": {split: dict(values) for split, values in self.metrics.items()},
            "audit": str(self.trained.audit),
            "notes": list(self.notes),
            "seconds": dict(self.seconds),
        }
