"""Tune an encoder on a task by a plan."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from frostline.api._arguments import recipe_fields, to_encoder, to_scores, to_task_or_sample
from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError
from frostline.files import output_folder
from frostline.kernels.device import computing
from frostline.plans.layer_rates import layer_rates as rates_by
from frostline.plans.learning_rates import epochs_for, paper_rates, scale_paper_rate
from frostline.plans.parsing import check_words, read_plan, with_method
from frostline.prediction.export import save
from frostline.progress import Progress, silent
from frostline.records import LayerScores, Plan, Recipe
from frostline.scoring.measurement import MeasureOptions, measure_layers
from frostline.scoring.scores import LAYER_SCORES
from frostline.search.validation import with_more_validation
from frostline.tasks import Task
from frostline.training.execution import Settings, execute
from frostline.training.result import Tuned
from frostline.training.shared_inputs import SharedInputs


def tune(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    plan: Plan | str = "full",
    method: str | None = None,
    scores: LayerScores | str | Path | None = None,
    recipe: Recipe | Mapping[str, Any] | str | Path | None = None,
    rates: Sequence[float] | Literal["paper"] = (),
    layer_rates: str | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    cache: bool = True,
    test: bool = True,
    new_layers: Sequence[int] = (),
    checkpoint_every: int | None = None,
    progress: Progress = silent,
) -> Tuned:
    """Tune an encoder on a task by a plan, and save the model if `output` is set.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        plan: a Plan, or in words: 'full', '9,12,12', 'layers=2+5+9,head=12', 'freeze=8', a strategy, a JSON file.
        method: how the layers train, as in 'lora:rank=8'; None for the plan's own method.
        scores: layer scores or the folder of a measurement, for strategies that need them; measured by default.
        recipe: a Recipe, some of its fields, or a JSON file such as a run's recipe.json; by default it suits the plan.
        rates: learning rates to try; the best on validation is kept. 'paper' tries those of Xie et al. (2022).
        layer_rates: layer score that learning rates of layers are proportional to, as 'gradient_norm'; None for none.
        output: folder for the model, its card, metrics and predictions.
        overwrite: replace an earlier result in that folder.
        resume: continue the interrupted run in that folder.
        cache: cache the output of frozen layers on disk.
        test: also evaluate the model on the test rows.
        new_layers: layers that were re-initialised, for `recipe.new_layer_rate`.
        checkpoint_every: steps between checkpoints; by default after each evaluation and every five minutes.
        progress: progress callback.

    Example:
        >>> frostline.tune(task="reviews.csv", plan="6,6,6", output="tuned").plan.layers
        (6,)
    """
    fields, folder = recipe_fields(recipe), None if output is None else Path(output)
    check_arguments(plan, method, fields, folder, overwrite=overwrite, resume=resume, layer_rates=layer_rates)
    measured, seed = to_scores(scores), fields.get("seed", 0)
    task, encoder = to_task_or_sample(task, seed=seed), to_encoder(encoder)
    task = with_more_validation(task, seed=seed) if fields.get("rows") == "all" else task  # as a run divides it
    settings = Settings(
        folder=folder, checkpoints=folder and folder / output_folder.CHECKPOINTS, resume=resume, test=test,
        train_rows=fields.get("train_rows"), new_layers=frozenset(new_layers), checkpoint_every=checkpoint_every,
        progress=progress,
    )  # fmt: skip
    with computing(threads=fields.get("threads")):
        measuring = _Measuring(encoder, task, measured, seed, progress)
        chosen = with_method(_to_plan(plan, measuring), method)
        if layer_rates is not None:
            fields = {**fields, "layer_rates": rates_by(measuring.scores(layer_rates), layer_rates)}
        tuned = _tune_by(chosen, encoder, task, fields, rates=rates, cache=cache, settings=settings)
    return tuned if folder is None else _save(tuned, folder)


def check_arguments(
    plan: Plan | str,
    method: str | None,
    recipe: Mapping[str, Any],
    output: Path | None,
    *,
    overwrite: bool,
    resume: bool,
    layer_rates: str | None = None,
) -> None:
    """Refuse arguments of `tune` that are wrong for any encoder and task, before these are loaded."""
    if output is not None:
        output_folder.check_output(output, overwrite=overwrite, resume=resume)
    elif resume or overwrite:
        raise OptionError(f"`{'resume' if resume else 'overwrite'}=True`: give the folder with `output`")
    Recipe(**recipe)
    if layer_rates is not None:
        LAYER_SCORES[layer_rates]
    check_words(plan)
    with_method(Plan(layers=(), head=1), method)


@dataclass(frozen=True)
class _Measuring:
    """Layer scores that were passed, or are measured when they are needed."""

    encoder: Encoder
    task: Task
    given: LayerScores | None
    seed: int
    progress: Progress

    def scores(self, *names: str) -> LayerScores:
        """Return layer scores of which these are among."""
        if self.given is not None and all(name in self.given.scores for name in names):
            return self.given
        options = MeasureOptions(scores=names, similarity=False, uncertainty=False, seed=self.seed)
        return measure_layers(self.encoder, self.task, options, progress=self.progress)


def _to_plan(given: Plan | str, measuring: _Measuring) -> Plan:
    """Return the plan; the scores of a strategy are measured unless they are passed."""
    if isinstance(given, Plan):
        return given
    return read_plan(
        given,
        measuring.encoder,
        measuring.task,
        scores=measuring.given,
        seed=measuring.seed,
        measure=lambda names: measuring.scores(*names),
    )


def _save(tuned: Tuned, folder: Path) -> Tuned:
    """Save the model, and remove the checkpoints that led to it."""
    save(tuned, folder)
    shutil.rmtree(folder / output_folder.CHECKPOINTS, ignore_errors=True)
    return tuned


def _tune_by(
    plan: Plan,
    encoder: Encoder,
    task: Task,
    fields: Mapping[str, Any],
    *,
    rates: Sequence[float] | Literal["paper"],
    cache: bool,
    settings: Settings,
) -> Tuned:
    """Tune by the plan, with a recipe that suits it but for the fields that are set."""
    recipe = Recipe(**{"epochs": epochs_for(plan), **fields})
    if rates == "paper":  # narrow encoders get proportionally higher rates
        rates = [scale_paper_rate(rate, encoder.width) for rate in paper_rates(plan, encoder.depth)]
    shared = SharedInputs.for_recipe(encoder, task, recipe, keep=cache, progress=settings.progress)
    return execute(shared, plan, recipe, rates=rates, settings=settings)
