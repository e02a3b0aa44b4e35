"""From a labelled file to a tuned model, with the layers chosen by a search."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from frostline.api._arguments import to_encoder, to_recipe, to_task_or_sample
from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError
from frostline.files import output_folder
from frostline.kernels.device import computing
from frostline.progress import Progress, logger, silent
from frostline.records import Recipe
from frostline.records.budget import Budget
from frostline.records.compute import Compute
from frostline.report.pages import write_report
from frostline.search.judging import divided_for_search
from frostline.search.planning import Inputs
from frostline.search.run import Search, check_task
from frostline.search.run_result import Run
from frostline.tasks import Task
from frostline.training.half_products import usual_precision
from frostline.trials.make_executor import make_executor, source_of

DEFAULT_OUTPUT = "frostline-run"


def run(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    output: str | Path = DEFAULT_OUTPUT,
    overwrite: bool = False,
    budget: Budget | None = None,
    recipe: Recipe | str | Path | None = None,
    allow_frostline_only: bool = False,
    proof: bool = True,
    refit: bool = True,
    compute: Compute | None = None,
    cache: bool = True,
    progress: Progress = silent,
) -> Run:
    """Measure an encoder on a task, race plans, tune the winner and save it with the evidence.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        output: folder for the model, the report and the evidence; an interrupted run there is continued.
        overwrite: replace an earlier run in that folder.
        budget: limits and goal; None for the cheapest plan within one point of the best.
        recipe: batch, length limit and so on of all trials, or a JSON file of them; a learning rate in it applies to
            every plan, and steps, or epochs other than 3, are the most that a plan trains.
        allow_frostline_only: also consider plans whose models only Frostline can load.
        proof: compare the choice with full fine-tuning at the end, and take that if it is shown to be better.
        refit: train the choice again, on the training and validation rows together.
        compute: where trials run; None for this process. With the same threads per trial, the choice is the same.
        cache: cache the output of frozen layers on disk.
        progress: progress callback.

    Example:
        >>> recipe = frostline.Recipe(epochs=1, threads=1)
        >>> run = frostline.run(task="reviews.csv", output="run", recipe=recipe, budget=frostline.Budget(max_layers=1))
        >>> run.tuned.plan.head
        1
    """
    folder, recipe, compute = Path(output), _checked(to_recipe(recipe) or Recipe()), compute or Compute()
    check_folder(folder, overwrite=overwrite)
    task, budget = to_task_or_sample(task, seed=recipe.seed), budget or Budget()
    check_task(task)
    task, folds = divided_for_search(task, refit=refit, goal=budget.goal, seed=recipe.seed)
    loaded = to_encoder(encoder, device=compute.device)
    threads, precision = _threads(recipe, compute), recipe.precision or usual_precision(loaded.device)
    with computing(threads=recipe.threads):
        inputs = Inputs(
            encoder=loaded,
            task=task,
            recipe=replace(recipe, threads=threads, precision=precision),
            budget=budget,
            allow_frostline_only=allow_frostline_only,
            cache=cache,
            proof=proof,
            refit=refit,
            folds=folds,
        )
        source = source_of(encoder, loaded) if compute.leaves_this_process else None
        return _search(inputs, folder, compute, source, progress).run(overwrite=overwrite)


def _search(inputs: Inputs, folder: Path, compute: Compute, source: str | None, progress: Progress) -> Search:
    return Search(
        inputs=inputs,
        folder=folder,
        make_executor=partial(make_executor, compute),
        source=source,
        finish=partial(_write_report, run_folder=folder),
        progress=progress,
    )


def _checked(recipe: Recipe) -> Recipe:
    """Return the recipe, or refuse one that a run cannot follow."""
    if recipe.train_rows is not None:
        raise OptionError(
            f"recipe train_rows {recipe.train_rows}: a run trains on all rows; remove it, or pass fewer rows"
        )
    return recipe


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder in which a run can neither start nor continue."""
    is_resumed = (folder / output_folder.CHECKPOINTS).is_dir() and not overwrite
    output_folder.check_output(folder, overwrite=overwrite, resume=is_resumed, is_run=True)


def _threads(recipe: Recipe, compute: Compute) -> int:
    """Return the threads of a trial: those of the recipe, or an equal share of this process's threads."""
    if recipe.threads is not None:
        return recipe.threads
    if compute.on is not None:
        return max(1, int(compute.cpus_per_trial))
    return max(1, torch.get_num_threads() // compute.workers)


def _write_report(folder: Path, *, run_folder: Path) -> None:
    """Write the report; an error in it must not lose the model."""
    try:
        write_report(folder)
    except Exception as error:
        logger.warning("the report was not written (%s); `frostline report %s` tries again", error, run_folder)
        logger.debug("traceback of the report", exc_info=True)
