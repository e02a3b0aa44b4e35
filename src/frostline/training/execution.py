"""The execution of one plan: train from cached frozen states, keep the best epoch, evaluate every split."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError
from frostline.plans.learning_rates import learning_rate_for
from frostline.progress import Progress, detailed, logger, silent
from frostline.records import BaseEncoder, Plan, Recipe
from frostline.records.trial_id import canonical_plan, canonical_recipe
from frostline.tasks import METRICS, Task
from frostline.training.checkpoints import Checkpoints
from frostline.training.dataset import Examples
from frostline.training.freeze_audit import count_kept
from frostline.training.loop import Trained, Weights, judge, load_weights, train, weights_of
from frostline.training.model import Tunable, check_recipe, make_tunable
from frostline.training.result import Tuned
from frostline.training.shared_inputs import SharedInputs
from frostline.training.solving import solve
from frostline.training.stock_model import check_base, why_not_stock


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of a run besides encoder, task, plan and recipe.

    Args:
        folder: the folder that the result will be saved to; a model that could not be loaded again is refused early.
        checkpoints: the folder of checkpoints; None to write none.
        resume: continue from the newest checkpoint.
        test: also evaluate on the test rows, all splits of them.
        train_rows: number of training rows to use; None for all.
        new_layers: layers that were re-initialised.
        checkpoint_every: steps between checkpoints.
        is_short: one trial of many, which writes checkpoints only if it takes minutes.
        progress: progress callback.
    """

    folder: Path | None = None
    checkpoints: Path | None = None
    resume: bool = False
    test: bool = True
    train_rows: int | None = None
    new_layers: frozenset[int] = frozenset()
    checkpoint_every: int | None = None
    is_short: bool = False
    progress: Progress = silent

    @property
    def log_level(self) -> int:
        """The level of messages on the course of the work: one trial of many is not worth a line each."""
        return logging.DEBUG if self.is_short else logging.INFO


def execute(
    shared: SharedInputs, plan: Plan, recipe: Recipe, *, rates: Sequence[float] = (), settings: Settings
) -> Tuned:
    """Tune by a plan, with the number of threads that torch is set to.

    Args:
        shared: encoder, task, tokens and frozen states.
        plan: the layers to tune, and the method.
        recipe: learning rate, epochs, batch and the like.
        rates: learning rates to try; by default the recipe's, or else one that suits the plan.
        settings: checkpoints, rows, progress.
    """
    started = time.perf_counter()
    encoder, task = shared.encoder, shared.task
    check_recipe(recipe, encoder)
    rates = rates or (recipe.learning_rate or learning_rate_for(plan, encoder.width),)
    recipe = replace(recipe, threads=torch.get_num_threads(), train_rows=settings.train_rows)
    tunable, base = tunable_for(shared, plan, recipe), base_of(encoder)
    if settings.folder is not None:
        check_base(tunable, base)
    recipes = [replace(recipe, learning_rate=rate) for rate in rates]
    # Before any long work, because a folder with another run's checkpoints is refused.
    checkpoints = [_checkpoints(encoder, task, plan, candidate, settings) for candidate in recipes]
    logger.log(settings.log_level, describe(tunable, rates))
    notes = _notes(encoder, tunable)
    for note in notes:
        logger.log(settings.log_level, "note: %s", note)  # before the long work, which a user may want to stop then
    examples = _examples(tunable, shared, recipe, settings)
    prepared = time.perf_counter()
    best, trained = _train_best(tunable, examples, task, recipes, checkpoints, settings)
    ended = time.perf_counter()
    outputs = {
        name: trained.outputs
        if name == "validation" and trained.outputs is not None
        else rows.outputs(tunable, progress=detailed(settings.progress, name))
        for name, rows in examples.items()
        if name != "train"
    }
    tuned = Tuned(
        tunable=tunable,
        base=base,
        plan=plan,
        recipe=best,
        task=task,
        trained=trained,
        metrics={name: judge(out, examples[name].labels, task.metrics, task.kind) for name, out in outputs.items()},
        outputs=outputs,
        notes=(*task.notes, *notes, *shared.notes),
        seconds={
            "frozen states": round(prepared - started, 3),
            "training": round(trained.seconds, 3),
            "testing": round(time.perf_counter() - ended, 3),
        },
        folder=settings.folder,
    )
    if settings.checkpoints is not None and settings.folder is None and not recipe.can_go_on:
        shutil.rmtree(settings.checkpoints, ignore_errors=True)
    return tuned


def tunable_for(shared: SharedInputs, plan: Plan, recipe: Recipe) -> Tunable:
    """Return the encoder made ready for a plan, as it is before training."""
    task = shared.task
    return make_tunable(
        shared.encoder,
        plan,
        outputs=task.outputs,
        kind=task.kind,
        head=recipe.head,
        dropout=recipe.dropout,
        frozen_dropout=recipe.frozen_dropout,
        lower_dropout=recipe.lower_dropout,
        seed=recipe.seed,
    )


def base_of(encoder: Encoder) -> BaseEncoder:
    """Return the record of the encoder that a model is tuned from."""
    return BaseEncoder(
        name=encoder.name,
        revision=encoder.revision,
        layers=encoder.depth,
        origin=encoder.origin,
        folder=None if encoder.folder is None else str(encoder.folder.absolute()),
        is_changed=encoder.is_changed,
    )


def _notes(encoder: Encoder, tunable: Tunable) -> list[str]:
    """Return sentences on what a user should know about the model."""
    notes = []
    if encoder.shares_layers and not tunable.encoder.shares_layers:
        full, own = (sum(value.numel() for value in body.model.parameters()) for body in (encoder, tunable.encoder))
        notes.append(
            f"layers of {encoder.name} share parameters; to treat them differently each got its own copy: "
            f"{own:,} parameters instead of {full:,}"
        )
    if (reason := why_not_stock(tunable)) is not None:
        notes.append(reason)
    return notes


def _examples(tunable: Tunable, shared: SharedInputs, recipe: Recipe, settings: Settings) -> dict[str, Examples]:
    """Return the rows of every split that is used, with their frozen states."""
    names = [name for name in shared.task.splits if settings.test or name not in shared.task.tests]
    if recipe.rows == "all":
        tests = {name: shared.examples(tunable, name) for name in names if name in shared.task.tests}
        return {"train": shared.labelled_examples(tunable), **tests}
    examples = {name: shared.examples(tunable, name) for name in names}
    if settings.train_rows is not None and settings.train_rows < len(examples["train"]):
        examples["train"] = examples["train"].take(shared.some_rows(settings.train_rows, seed=recipe.seed))
    return examples


def _train_best(
    tunable: Tunable,
    examples: Mapping[str, Examples],
    task: Task,
    recipes: Sequence[Recipe],
    checkpoints: Sequence[Checkpoints | None],
    settings: Settings,
) -> tuple[Recipe, Trained]:
    """Train with each recipe from the same start; leave the weights that are best on validation in the model."""
    if recipes[0].schedule == "solved":
        solved = solve(
            tunable,
            examples["train"],
            examples.get("validation"),
            recipes[0],
            metrics=task.metrics,
            progress=settings.progress,
        )
        return recipes[0], solved
    start = weights_of(tunable)
    metric = METRICS[task.metrics[0]]
    tried: list[tuple[float, Recipe, Trained, Weights]] = []
    for recipe, kept in zip(recipes, checkpoints, strict=True):
        load_weights(tunable, start)
        if kept is not None and kept.resume:
            logger.log(settings.log_level, kept.where_it_continues())
        trained = train(
            tunable,
            examples["train"],
            examples.get("validation"),
            recipe,
            metrics=task.metrics,
            learning_rate=recipe.learning_rate or 0.0,
            new_layers=settings.new_layers,
            checkpoints=kept,
            progress=settings.progress,
        )
        value = trained.best.get(f"validation_{metric.name}", 0.0)
        tried.append((metric.signed(value), recipe, trained, weights_of(tunable)))
        if len(recipes) > 1:
            logger.info("learning rate %g: validation %s %.4f", recipe.learning_rate, metric.name, value)
    _, recipe, trained, weights = max(tried, key=lambda entry: entry[0])  # the first of equals
    load_weights(tunable, weights)
    return recipe, trained


def _checkpoints(encoder: Encoder, task: Task, plan: Plan, recipe: Recipe, settings: Settings) -> Checkpoints | None:
    """Return the checkpoints of a run with this recipe, or None where no folder was given."""
    if settings.checkpoints is None:
        return None
    identity = [
        encoder.revision,
        task.fingerprint,
        canonical_plan(plan),
        canonical_recipe(recipe.of_any_length()),
        sorted(settings.new_layers),
        settings.train_rows,
        task.metrics,
    ]
    checkpoints = Checkpoints(
        settings.checkpoints / f"rate-{recipe.learning_rate:g}",
        run=hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest(),
        resume=settings.resume,
        every_steps=settings.checkpoint_every,
        at_evaluations=not settings.is_short,
        at_end=settings.is_short and recipe.can_go_on,
    )
    if checkpoints.is_of_another_run():
        raise OptionError(
            f"{settings.folder or settings.checkpoints}: the interrupted run there had other data, plan or "
            "recipe; give the same ones, or start over without `resume`"
        )
    return checkpoints


def describe(tunable: Tunable, rates: Sequence[float]) -> str:
    """Return one line on what will be trained."""
    plan = tunable.plan
    trainable = sum(value.numel() for value in tunable.trainable().values())
    total = count_kept(tunable)
    tried = ", ".join(f"{rate:g}" for rate in rates)
    return (
        f"plan {plan}, method {plan.method}, learning rate {tried}: {trainable:,} of {total:,} parameters train "
        f"({100 * trainable / total:.1f}%)"
    )
