"""Models of trials on disk, for later use: trained weights, outputs and records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from frostline.errors import RecordError
from frostline.files.atomic import build_folder
from frostline.files.checksums import file_checksum
from frostline.records import TrialSpec
from frostline.records._json import Number, Record
from frostline.records.tuned import EvaluationStep
from frostline.training.execution import base_of, tunable_for
from frostline.training.freeze_audit import AuditReport
from frostline.training.loop import Trained, judge, load_weights, weights_of
from frostline.training.result import Tuned
from frostline.training.shared_inputs import SharedInputs

_WEIGHTS, _OUTPUTS, _ABOUT = "weights.safetensors", "outputs.safetensors", "about.json"


@dataclass(frozen=True, kw_only=True)
class KeptModel(Record):
    """What is written beside the weights of a kept model.

    Args:
        history: one record per evaluation.
        best: the evaluation that was kept.
        audit: report on trained and frozen parameters.
        seconds: durations of building caches, training and testing.
        training: duration of training alone.
        notes: sentences on what a user should know.
        learning_rate: the highest one.
        checksums: checksums of the other files, by name.
    """

    history: tuple[EvaluationStep, ...]
    best: EvaluationStep
    audit: AuditReport
    seconds: Mapping[str, float]
    training: float
    notes: tuple[str, ...]
    learning_rate: Number | None
    checksums: Mapping[str, str]


def keep_tuned(tuned: Tuned, folder: Path) -> None:
    """Write the trained weights, outputs and records atomically."""
    from safetensors.torch import save_file

    with build_folder(folder) as building:
        weights = weights_of(tuned.tunable)
        save_file({name: value.cpu().contiguous() for name, value in weights.items()}, building / _WEIGHTS)
        save_file({name: value.contiguous() for name, value in tuned.outputs.items()}, building / _OUTPUTS)
        about = KeptModel(
            history=tuned.trained.history,
            best=tuned.trained.best,
            audit=tuned.trained.audit,
            seconds=tuned.seconds,
            training=tuned.trained.seconds,
            notes=tuned.notes,
            learning_rate=tuned.recipe.learning_rate,
            checksums={name: file_checksum(building / name) for name in (_WEIGHTS, _OUTPUTS)},
        )
        (building / _ABOUT).write_text(json.dumps(about.to_json()), encoding="utf-8")


def load_kept(shared: SharedInputs, spec: TrialSpec, folder: Path) -> Tuned | None:
    """Return the kept model with its outputs, or None where the folder is missing or damaged."""
    from safetensors.torch import load_file

    try:
        about = KeptModel.from_file(folder / _ABOUT)
        if any(about.checksums.get(name) != file_checksum(folder / name) for name in (_WEIGHTS, _OUTPUTS)):
            return None
        weights, outputs = load_file(folder / _WEIGHTS), load_file(folder / _OUTPUTS)
    except (OSError, ValueError, RecordError):
        return None
    task = shared.task
    tunable = tunable_for(shared, spec.plan, spec.recipe)
    load_weights(tunable, weights)
    return Tuned(
        tunable=tunable,
        base=base_of(shared.encoder),
        plan=spec.plan,
        recipe=replace(spec.recipe, train_rows=spec.train_rows),
        task=task,
        trained=Trained(history=about.history, best=about.best, audit=about.audit, seconds=about.training),
        metrics={
            name: judge(out, torch.tensor(task.splits[name].labels), task.metrics, task.kind)
            for name, out in outputs.items()
        },
        outputs=outputs,
        notes=about.notes,
        seconds=about.seconds,
    )
