"""Trials of a plan by cross-validation: every labelled row is predicted by a model that was not trained on it.

A few validation rows tell plans apart badly. All labelled rows, each left out once, tell more, and no row is lost for
training.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from frostline.files import provenance
from frostline.progress import Progress, Step
from frostline.records import Recipe, TrialResult, TrialSpec
from frostline.tasks.splits import folds
from frostline.training.dataset import Examples
from frostline.training.execution import tunable_for
from frostline.training.loop import Trained, judge, loss_of, train
from frostline.training.model import Tunable
from frostline.training.solving import solve
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs

_FOLDS = "folds"  # the option of a trial that has their number


def by_folds(spec: TrialSpec, count: int) -> TrialSpec:
    """Return the trial of the same plan by cross-validation over all labelled rows.

    The held-out rows are those that plans are judged on, so that they may not choose the length: all folds end after
    the same number of steps.
    """
    recipe = replace(spec.recipe, rows="all", select="last")
    return replace(spec, kind=FOLDS.name, recipe=recipe, options={_FOLDS: count})


def of_whole(spec: TrialSpec) -> TrialSpec:
    """Return the trial that trains one model on all labelled rows as a cross-validation trains each of its models."""
    return replace(spec, kind="tune", options={})


@dataclass(frozen=True)
class _Fold:
    """The outputs for the rows that one model was not trained on."""

    rows: list[int]
    outputs: Tensor
    trained: Trained


def cross_validate(context: Context, spec: TrialSpec) -> TrialResult:
    """Return the result of a plan whose predictions for labelled rows are by models that were not trained on them."""
    shared, task, began = context.shared(spec), context.task(spec), time.perf_counter()
    labelled = task.labelled
    parts = folds(labelled, int(spec.options[_FOLDS]), seed=spec.recipe.seed, purpose="search folds")
    done: list[_Fold] = []
    for number, held in enumerate(part for part in parts if part):
        tunable = tunable_for(shared, spec.plan, spec.recipe)
        every = shared.labelled_examples(tunable)
        progress = _of_fold(context.progress, number + 1, len(parts))
        done.append(_train_on_rest(tunable, every, held, spec.recipe, task.metrics, progress))
    outputs = torch.cat([part.outputs for part in done])
    outputs = outputs[torch.as_tensor(np.argsort(np.concatenate([part.rows for part in done])))]
    labels = torch.tensor(labelled.labels)
    values = judge(outputs, labels, task.metrics, task.kind)
    seconds = round(sum(part.trained.seconds for part in done), 3)
    record = {
        "step": spec.recipe.steps or 1,
        "epoch": round(sum(part.trained.best["epoch"] for part in done) / len(done), 4),
        "loss": sum(part.trained.best["loss"] for part in done) / len(done),
        "learning_rate": 0.0 if spec.recipe.schedule == "solved" else spec.recipe.learning_rate or 0.0,
        **{f"validation_{name}": value for name, value in values.items()},
        "validation_loss": loss_of(outputs, labels, task.kind).item(),
        "seconds": seconds,
    }
    audit = done[0].trained.audit
    return TrialResult(
        status="done",
        metrics={"validation": values},
        history=(record,),
        predictions={"validation": decode_outputs(outputs, task.kind)},
        parameters={"total": audit.total, "trainable": audit.trainable},
        seconds={"training": seconds, "testing": round(time.perf_counter() - began - seconds, 3)},
        versions=provenance.versions(),
    )


FOLDS = TrialKind(name="folds", run=cross_validate)


def _train_on_rest(
    tunable: Tunable, every: Examples, held: list[int], recipe: Recipe, metrics: tuple[str, ...], progress: Progress
) -> _Fold:
    """Return the outputs for held-out rows of a model that is trained on the others."""
    rest = every.take(np.setdiff1d(np.arange(len(every)), held))
    if recipe.schedule == "solved":
        trained = solve(tunable, rest, None, recipe, metrics=metrics, progress=progress)
    else:
        rate = recipe.learning_rate or 0.0
        trained = train(tunable, rest, None, recipe, metrics=metrics, learning_rate=rate, progress=progress)
    outputs = every.take(np.array(held)).outputs(tunable)
    return _Fold(rows=held, outputs=outputs, trained=trained)


def _of_fold(progress: Progress, number: int, count: int) -> Progress:
    """Return a callback that says which fold a step belongs to."""

    def show(step: Step) -> None:
        progress(replace(step, detail=f"fold {number}/{count}, {step.detail}"))

    return show
