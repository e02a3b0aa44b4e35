"""Plan: measure an encoder on a task, time a few steps, and propose plans with their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frostline.costs.cost import Costs
from frostline.costs.timing import Speed, calibrate
from frostline.costs.workload import make_workload
from frostline.encoders.encoder import Encoder
from frostline.progress import Progress, Step, silent
from frostline.records import LayerScores, Recipe
from frostline.records.budget import Budget
from frostline.records.plans import Plans
from frostline.records.proposal import Proposal
from frostline.scoring.measurement import MeasureOptions, measure_layers
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import DEFAULT_SCORES
from frostline.search.limits import bargains, check_limits, within
from frostline.search.proposals import needed_scores, propose
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What plans are looked for: the encoder, the task, and what the user allows.

    Args:
        encoder: loaded.
        task: with validation rows, where plans are to be raced.
        recipe: epochs, batch and so on of a complete trial, with threads.
        budget: limits and goal.
        allow_frostline_only: also consider plans whose models only Frostline can load.
        cache: keep frozen states on disk.
    """

    encoder: Encoder
    task: Task
    recipe: Recipe
    budget: Budget
    allow_frostline_only: bool = False
    cache: bool = True

    def shared(self, progress: Progress = silent) -> SharedInputs:
        """Return the encoder and the task with what is computed once for all trials."""
        return SharedInputs.for_recipe(self.encoder, self.task, self.recipe, keep=self.cache, progress=progress)

    def costs(self, shared: SharedInputs) -> Costs:
        """Return what plans cost, without this machine's speed; refuse limits that no plan can keep."""
        costs = Costs(self.encoder.config, make_workload(shared), self.recipe)
        check_limits(costs, self.budget)
        return costs


def make_plans(inputs: Inputs, *, progress: Progress = silent) -> Plans:
    """Return the plans for an encoder and a task, with what each costs on this machine."""
    costs = inputs.costs(inputs.shared(progress))
    scores = measure_for_plans(inputs, progress=progress)
    proposals, notes = plans_within(scores, costs.at(time_steps(inputs, costs, progress)), inputs)
    return Plans(encoder=scores.encoder, task=scores.task, proposals=tuple(proposals), notes=tuple(notes))


def measure_for_plans(inputs: Inputs, *, progress: Progress = silent) -> LayerScores:
    """Return the usual layer scores and those that strategies need, as far as the task has them."""
    options = MeasureOptions(
        scores=_fitting([*DEFAULT_SCORES, *needed_scores(inputs.encoder.depth)], inputs.task),
        needs_all=False,  # plans that follow a score that is not there are not proposed
        max_length=inputs.recipe.max_length,
        seed=inputs.recipe.seed,
    )
    return measure_layers(inputs.encoder, inputs.task, options, progress=progress)


def time_steps(inputs: Inputs, costs: Costs, progress: Progress = silent) -> Speed:
    """Return this machine's speed, from a few steps."""
    progress(Step(stage="timing a few steps"))
    return calibrate(inputs.encoder, costs, max_memory=inputs.budget.max_memory)


def plans_within(scores: LayerScores, costs: Costs, inputs: Inputs) -> tuple[list[Proposal], list[str]]:
    """Return the plans of a race, cheapest first, and what was left out and why.

    Args:
        scores: measured.
        costs: with this machine's speed.
        inputs: limits and goal.
    """
    seed = costs.recipe.seed
    proposals, notes = propose(scores, costs, allow_frostline_only=inputs.allow_frostline_only, seed=seed)
    for rule in (within, bargains):
        proposals, more = rule(proposals, inputs.budget)
        notes += more
    return proposals, notes


def _fitting(names: Sequence[str], task: Task) -> list[str]:
    """The scores that exist and make sense for this kind of task."""
    is_number = task.kind == "regression"
    known = [name for name in dict.fromkeys(names) if name in LAYER_SCORES]
    return [name for name in known if not (is_number and LAYER_SCORES[name].needs == "classes")]
