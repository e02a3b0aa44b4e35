"""The record of a tuned model, and of the trial that it came from."""

from __future__ import annotations

import torch

from frostline.files import provenance
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.training.result import Tuned
from frostline.training.shared_inputs import SharedInputs


def make_spec(shared: SharedInputs, plan: Plan, recipe: Recipe, *, train_rows: int | None = None) -> TrialSpec:
    """Return the trial of a plan and a recipe on the encoder and task of shared inputs."""
    encoder, task = shared.encoder, shared.task
    if train_rows is not None and train_rows >= len(task.train):
        train_rows = None  # one identity for all rows, however they are asked for
    return TrialSpec(encoder=encoder.ref, task=task.ref, plan=plan, recipe=recipe, train_rows=train_rows)


def result_of(tuned: Tuned) -> TrialResult:
    """Return the record of a tuned model."""
    return TrialResult(
        status="done",
        metrics={split: dict(values) for split, values in tuned.metrics.items()},
        history=tuned.trained.history,
        predictions={split: decode_outputs(outputs, tuned.task.kind) for split, outputs in tuned.outputs.items()},
        parameters={"total": tuned.trained.audit.total, "trainable": tuned.trained.audit.trainable},
        seconds=dict(tuned.seconds),
        versions=provenance.versions(),
    )


def decode_outputs(outputs: torch.Tensor, kind: str) -> tuple[float, ...]:
    """Return the class number, the choice's number or the value for every row."""
    return tuple((outputs.squeeze(-1) if kind == "regression" else outputs.argmax(-1)).tolist())
