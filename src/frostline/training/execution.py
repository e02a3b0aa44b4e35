"""Tune: execute a plan on a task, from cached frozen states, and keep what came out."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError
from frostline.files import folders
from frostline.plans.learning_rates import paper_rates
from frostline.plans.methods import METHODS
from frostline.plans.parsing import check_words, read_plan
from frostline.prediction.export import save
from frostline.records import BaseEncoder, LayerScores, Plan, Recipe
from frostline.records.trial_id import canonical_plan, canonical_recipe
from frostline.tasks import Task, load_task
from frostline.tasks.metrics import METRICS
from frostline.training.checkpoints import Checkpoints
from frostline.training.dataset import Examples
from frostline.training.freeze_audit import count_kept
from frostline.training.loop import Report, Trained, Weights, judge, load_weights, train, weights_of
from frostline.training.model import Tunable, check_plan, check_recipe, make_tunable
from frostline.training.result import Tuned
from frostline.training.shared_inputs import Workshop
from frostline.training.stock import check_base, why_not_stock


def tune(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    plan: Plan | str = "full",
    scores: LayerScores | None = None,
    recipe: Recipe | None = None,
    rates: Sequence[float] | Literal["paper"] = (),
    output: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    cache: bool = True,
    test: bool = True,
    new_layers: Sequence[int] = (),
    checkpoint_every: int | None = None,
    report: Report | None = None,
    announce: Callable[[str], None] | None = None,
) -> Tuned:
    """Tune an encoder on a task by a plan, and save a stock Hugging Face model where a folder is given.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        plan: a Plan, or in words: 'full', '9,12,12', 'layers=2+5+9,head=12', 'freeze=8', a strategy, a JSON file.
        scores: measured layer scores, for strategies that need some; measured here if none are given.
        recipe: rate, epochs, batch and so on; None for the defaults.
        rates: learning rates to try, of which the best on validation is kept; 'paper' tries those of paper 1.
        output: folder for the model, its card, metrics and predictions.
        overwrite: replace what an earlier run left in that folder.
        resume: go on from where a killed run in that folder stopped.
        cache: keep frozen states on disk.
        test: judge the result on the test rows too.
        new_layers: layers that were re-initialised, for `recipe.new_layer_rate`.
        checkpoint_every: steps between checkpoints; else one after each evaluation and every five minutes.
        report: told how far things are.
        announce: told, before training starts, what is going to be trained.
    """
    recipe = recipe or Recipe()
    folder = None if output is None else Path(output)
    if folder is None and resume:
        raise OptionError("resume: give the output folder of the run to go on with")
    if folder is not None:
        folders.check_output(folder, overwrite=overwrite, resume=resume)
    if isinstance(plan, str):
        check_words(plan)
    task = task if isinstance(task, Task) else load_task("movies" if task is None else task, seed=recipe.seed)
    encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    settings = Settings(
        folder=folder,
        checkpoints=None if folder is None else folder / folders.CHECKPOINTS,
        resume=resume,
        test=test,
        new_layers=frozenset(new_layers),
        checkpoint_every=checkpoint_every,
        report=report or (lambda what, done, total: None),
        announce=announce or (lambda line: None),
    )
    with use_threads(recipe.threads):
        chosen = plan if isinstance(plan, Plan) else read_plan(plan, encoder, task, scores=scores, seed=recipe.seed)
        tried = paper_rates(chosen, encoder.depth) if rates == "paper" else tuple(rates)
        workshop = Workshop(
            encoder,
            task,
            max_length=recipe.max_length,
            dtype=recipe.cache_dtype,
            keep=cache,
            report=settings.report,
        )
        return execute(workshop, chosen, recipe, rates=tried, settings=settings)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is told besides encoder, task, plan and recipe.

    Args:
        folder: where the result is saved, if anywhere.
        checkpoints: where its state is kept while it runs, if anywhere.
        resume: go on from what is there.
        test: judge the result on the test rows too.
        train_rows: how many training rows to learn from; None for all.
        new_layers: layers that were re-initialised.
        checkpoint_every: steps between checkpoints.
        is_short: a trial of many: checkpoints only if it takes minutes.
        report: told how far things are.
        announce: told what is going to be trained.
    """

    folder: Path | None = None
    checkpoints: Path | None = None
    resume: bool = False
    test: bool = True
    train_rows: int | None = None
    new_layers: frozenset[int] = frozenset()
    checkpoint_every: int | None = None
    is_short: bool = False
    report: Report = lambda what, done, total: None
    announce: Callable[[str], None] = lambda line: None


def execute(
    workshop: Workshop, plan: Plan, recipe: Recipe, *, rates: Sequence[float] = (), settings: Settings
) -> Tuned:
    """Tune by a plan in a workshop, with the threads that torch is set to.

    Args:
        workshop: encoder, task, tokens and frozen states.
        plan: what trains.
        recipe: how.
        rates: learning rates to try; none for the recipe's or the method's own.
        settings: where to save, what to tell whom.
    """
    started = time.perf_counter()
    encoder, task = workshop.encoder, workshop.task
    check_plan(plan, encoder)
    check_recipe(recipe, encoder)
    rates = rates or (recipe.learning_rate or default_rate(plan),)
    recipe = replace(recipe, threads=torch.get_num_threads())
    tunable, base = tunable_for(workshop, plan, recipe), base_of(encoder)
    if settings.folder is not None:
        check_base(tunable, base)
    recipes = [replace(recipe, learning_rate=rate) for rate in rates]
    kept = [_checkpoints(encoder, task, plan, one, settings) for one in recipes]  # refuses before any long work
    settings.announce(describe(tunable, rates))
    notes = [*task.notes, *_notes(encoder, tunable)]
    for note in notes[len(task.notes) :]:
        settings.announce(f"note: {note}")  # before the long work, for those who want something else then
    examples = _examples(tunable, workshop, recipe, settings)
    prepared = time.perf_counter()
    best, trained = _train_best(tunable, examples, task, recipes, kept, settings)
    at_end = time.perf_counter()
    outputs = {
        name: trained.outputs
        if name == "validation" and trained.outputs is not None
        else rows.outputs(tunable, progress=partial(settings.report, f"judging: {name}"))
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
        metrics={name: judge(found, examples[name].labels, task.metrics, task.kind) for name, found in outputs.items()},
        outputs=outputs,
        notes=(*notes, *workshop.notes),
        seconds={
            "frozen states": round(prepared - started, 3),
            "training": round(trained.seconds, 3),
            "testing": round(time.perf_counter() - at_end, 3),
        },
        folder=settings.folder,
    )
    if settings.folder is not None:
        save(tuned, settings.folder)
    if settings.checkpoints is not None:
        shutil.rmtree(settings.checkpoints, ignore_errors=True)
    return tuned


def tunable_for(workshop: Workshop, plan: Plan, recipe: Recipe) -> Tunable:
    """The workshop's encoder made ready for a plan, as it is before training."""
    task = workshop.task
    return make_tunable(
        workshop.encoder,
        plan,
        outputs=len(task.label_names) if task.kind == "classification" else 1,
        kind=task.kind,
        head=recipe.head,
        dropout=recipe.dropout,
        frozen_dropout=recipe.frozen_dropout,
        seed=recipe.seed,
    )


def base_of(encoder: Encoder) -> BaseEncoder:
    """What is recorded of the encoder that a model is tuned from."""
    return BaseEncoder(
        name=encoder.name,
        revision=encoder.revision,
        layers=encoder.depth,
        origin=encoder.origin,
        folder=None if encoder.folder is None else str(encoder.folder.absolute()),
        is_changed=encoder.is_changed,
    )


def _notes(encoder: Encoder, tunable: Tunable) -> list[str]:
    """What is to be known about the model, a sentence each."""
    notes = []
    if encoder.shares_layers and not tunable.encoder.shares_layers:
        shared, own = (sum(value.numel() for value in each.model.parameters()) for each in (encoder, tunable.encoder))
        notes.append(
            f"layers of {encoder.name} share parameters; to treat them differently each got its own copy: "
            f"{own:,} parameters in place of {shared:,}"
        )
    if (reason := why_not_stock(tunable)) is not None:
        notes.append(reason)
    return notes


def _examples(tunable: Tunable, workshop: Workshop, recipe: Recipe, settings: Settings) -> dict[str, Examples]:
    """The rows of every split that is looked at, with their frozen states."""
    names = [name for name in workshop.task.splits if name != "test" or settings.test]
    examples = {name: workshop.examples(tunable, name) for name in names}
    if settings.train_rows is not None and settings.train_rows < len(examples["train"]):
        rows = workshop.some_rows(settings.train_rows, seed=recipe.seed)
        examples["train"] = examples["train"].take(rows)
    return examples


def _train_best(
    tunable: Tunable,
    examples: Mapping[str, Examples],
    task: Task,
    recipes: Sequence[Recipe],
    checkpoints: Sequence[Checkpoints | None],
    settings: Settings,
) -> tuple[Recipe, Trained]:
    """Train with each recipe from the same start, and leave in the model what is best on validation."""
    start = weights_of(tunable)
    sign = 1 if METRICS[task.metrics[0]].higher_is_better else -1
    tried: list[tuple[float, Recipe, Trained, Weights]] = []
    for recipe, kept in zip(recipes, checkpoints, strict=True):
        load_weights(tunable, start)
        if kept is not None and kept.resume:
            settings.announce(kept.says())
        trained = train(
            tunable,
            examples["train"],
            examples.get("validation"),
            recipe,
            metrics=task.metrics,
            learning_rate=recipe.learning_rate or 0.0,
            new_layers=settings.new_layers,
            checkpoints=kept,
            report=settings.report,
        )
        value = trained.best.get(f"validation_{task.metrics[0]}", 0.0)
        tried.append((sign * value, recipe, trained, weights_of(tunable)))
        if len(recipes) > 1:
            settings.announce(f"learning rate {recipe.learning_rate:g}: validation {task.metrics[0]} {value:.4f}")
    _, recipe, trained, weights = max(tried, key=lambda one: one[0])  # the first of equals
    load_weights(tunable, weights)
    return recipe, trained


def _checkpoints(encoder: Encoder, task: Task, plan: Plan, recipe: Recipe, settings: Settings) -> Checkpoints | None:
    """Where a run with this recipe keeps its state, or None where no folder was given."""
    if settings.checkpoints is None:
        return None
    said = [
        encoder.revision,
        task.fingerprint,
        canonical_plan(plan),
        canonical_recipe(recipe),
        sorted(settings.new_layers),
        settings.train_rows,
        task.metrics,
    ]
    identity = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    place = settings.checkpoints / f"rate-{recipe.learning_rate:g}"
    made = Checkpoints(
        place,
        run=identity,
        resume=settings.resume,
        every_steps=settings.checkpoint_every,
        at_evaluations=not settings.is_short,
    )
    if made.is_of_another_run():
        raise OptionError(
            f"{settings.folder or settings.checkpoints}: the run stopped there had other data, plan or recipe; "
            "give the same ones, or start anew without --resume"
        )
    return made


def default_rate(plan: Plan) -> float:
    """The method's own learning rate; a higher one where only the head trains."""
    return METHODS[plan.method].learning_rate if plan.layers else 1e-3


def describe(tunable: Tunable, rates: Sequence[float]) -> str:
    """What is going to be trained, in a line."""
    plan = tunable.plan
    trainable = sum(value.numel() for value in tunable.trainable().values())
    total = count_kept(tunable)
    tried = ", ".join(f"{rate:g}" for rate in rates)
    return (
        f"plan {plan}, method {plan.method}, learning rate {tried}: {trainable:,} of {total:,} parameters train "
        f"({100 * trainable / total:.1f}%)"
    )


@contextlib.contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Compute with so many threads within the block; None changes nothing."""
    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
