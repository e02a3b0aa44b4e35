"""Plans for an encoder and a task, with their costs; nothing is tuned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from frostline.api._arguments import to_encoder, to_recipe, to_task_or_sample
from frostline.encoders.encoder import Encoder
from frostline.kernels.device import computing
from frostline.progress import Progress, silent
from frostline.records import Recipe
from frostline.records.budget import Budget
from frostline.records.plans import Plans
from frostline.search.planning import Inputs, make_plans
from frostline.tasks import Task


def plan(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    budget: Budget | None = None,
    recipe: Recipe | str | Path | None = None,
    allow_frostline_only: bool = False,
    progress: Progress = silent,
) -> Plans:
    """Return plans for an encoder and a task with their costs on this machine; nothing is tuned.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        budget: limits of the plans.
        recipe: epochs and batch of a complete trial.
        allow_frostline_only: also consider plans whose models only Frostline can load.
        progress: progress callback.

    Example:
        >>> plans = frostline.plan(task="reviews.csv", budget=frostline.Budget(max_layers=2))
        >>> all(proposal.plan.head <= 2 for proposal in plans.proposals)
        True
    """
    recipe = to_recipe(recipe) or Recipe()
    task = to_task_or_sample(task, seed=recipe.seed)
    encoder = to_encoder(encoder)
    with computing(threads=recipe.threads):
        inputs = Inputs(
            encoder=encoder,
            task=task,
            recipe=replace(recipe, threads=torch.get_num_threads()),
            budget=budget or Budget(),
            allow_frostline_only=allow_frostline_only,
        )
        return make_plans(inputs, progress=progress)
