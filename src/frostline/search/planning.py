"""Plan: measure an encoder on a task, time a few steps, and propose plans with their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from frostline.costs.cost import Costs
from frostline.costs.timing import calibrate
from frostline.costs.workload import workload
from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.records import FORMAT_VERSION, LayerScores, Recipe
from frostline.records.cost import Cost
from frostline.records.table import Table, table_of
from frostline.scoring.measurement import measure
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import DEFAULT_SCORES
from frostline.search.limits import Budget, bargains, check_limits, within
from frostline.search.proposals import Proposal, needed_scores, propose
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample
from frostline.training.execution import use_threads
from frostline.training.loop import Report
from frostline.training.shared_inputs import Workshop

_EXAMPLE = {"train": 2000, "validation": 1000, "test": 2000}


@dataclass(frozen=True, kw_only=True)
class Plans:
    """Plans that are worth trying, cheapest first.

    Args:
        scores: what was measured.
        proposals: the plans, where they come from and what they cost.
        notes: what was left out and why, a sentence each.
    """

    scores: LayerScores
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...]

    @property
    def table(self) -> Table:
        """The plans with their costs, as they are shown."""
        scores = self.scores
        rows = [
            {
                "plan": one.name,
                "trainable": f"{one.cost.trainable:,}",
                "saved": f"{one.cost.stored:,}",
                "latency": f"{100 * one.cost.latency:.0f}%",
                "memory": f"{one.cost.memory / 1e6:,.0f} MB",
                "cache": f"{one.cost.cache / 1e6:,.0f} MB",
                "seconds": _range(one.cost),
                "from": one.origins,
            }
            for one in self.proposals
        ]
        title = f"{scores.encoder['name']} ({scores.depth} layers) on {scores.task['name']}"
        return table_of("plans", title, rows)

    def _repr_html_(self) -> str:
        from frostline.report.notebook import tables_html

        return tables_html(self.table.title, [replace(self.table, title=" ".join(self.notes))])

    def to_json(self) -> dict[str, Any]:
        """The plans as plain JSON values."""
        return {
            "kind": "plans",
            "format": FORMAT_VERSION,
            "encoder": dict(self.scores.encoder),
            "task": dict(self.scores.task),
            "proposals": [one.to_json() for one in self.proposals],
            "notes": list(self.notes),
        }


def plan(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    budget: Budget | None = None,
    recipe: Recipe | None = None,
    allow_frostline_only: bool = False,
    report: Report | None = None,
) -> Plans:
    """Plans for an encoder and a task, with what each costs on this machine; nothing is tuned.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        budget: limits that plans have to keep.
        recipe: epochs and batch of a complete trial.
        allow_frostline_only: also plans whose models transformers alone cannot load.
        report: told how far things are.
    """
    recipe, budget = recipe or Recipe(), budget or Budget()
    task = task if isinstance(task, Task) else task_or_example(task, seed=recipe.seed)
    encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    with use_threads(recipe.threads):
        recipe = replace(recipe, threads=torch.get_num_threads())
        load = workload(Workshop(encoder, task, max_length=recipe.max_length))
        costs = Costs(encoder.config, load, recipe)
        check_limits(costs, budget)
        scores = measure_for_plans(encoder, task, recipe, report=report)
        costs.speed = calibrate(encoder, costs, max_memory=budget.max_memory)
        proposals, notes = plans_within(scores, costs, budget, allow_frostline_only=allow_frostline_only)
    return Plans(scores=scores, proposals=tuple(proposals), notes=tuple(notes))


def plans_within(
    scores: LayerScores, costs: Costs, budget: Budget, *, allow_frostline_only: bool
) -> tuple[list[Proposal], list[str]]:
    """The plans of a race, cheapest first, and what was left out and why: those that a budget allows and are worth it.

    Args:
        scores: measured.
        costs: with this machine's speed.
        budget: limits and goal.
        allow_frostline_only: also plans whose models transformers alone cannot load.
    """
    proposals, notes = propose(scores, costs, allow_frostline_only=allow_frostline_only, seed=costs.recipe.seed)
    for rule in (within, bargains):
        proposals, more = rule(proposals, budget)
        notes += more
    return proposals, notes


def task_or_example(source: Any, *, seed: int = 0, **given: Any) -> Task:
    """The task that is given, or a part of the embedded data where none is; further arguments as of `load_task`."""
    return example_task(seed=seed, **given) if source is None else load_task(source, seed=seed, **given)


def example_task(*, seed: int = 0, **given: Any) -> Task:
    """A part of the embedded data, small enough for a first run of a few minutes.

    Args:
        seed: of the sample.
        given: what else `load_task` is told.
    """
    task = load_task("movies", seed=seed, **given)
    parts = {name: sample(task.splits[name], count, seed=seed) for name, count in _EXAMPLE.items()}
    note = f"a sample of {', '.join(f'{len(part):,} {name}' for name, part in parts.items())} rows"
    return replace(
        task, train=parts["train"], validation=parts["validation"], test=parts["test"], notes=(*task.notes, note)
    )


def measure_for_plans(encoder: Encoder, task: Task, recipe: Recipe, *, report: Report | None = None) -> LayerScores:
    """The usual layer scores and those that strategies need, as far as the task has them."""
    return measure(
        encoder,
        task,
        scores=_fitting([*DEFAULT_SCORES, *needed_scores(encoder.depth)], task),
        needs_all=False,  # plans that follow a score that is not there are not proposed
        max_length=recipe.max_length,
        seed=recipe.seed,
        progress=report,
    )


def _range(cost: Cost) -> str:
    return "" if cost.seconds is None else f"{cost.seconds:.0f} ({cost.low:.0f} to {cost.high:.0f})"


def _fitting(names: Sequence[str], task: Task) -> list[str]:
    """The scores that exist and make sense for this kind of task."""
    is_number = task.kind == "regression"
    known = [name for name in dict.fromkeys(names) if name in LAYER_SCORES]
    return [name for name in known if not (is_number and LAYER_SCORES[name].needs == "classes")]
