"""Plan: measure an encoder on a task, time a few steps, and propose plans with their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from frostline.costs.cost import Costs
from frostline.costs.timing import Speed, calibrate
from frostline.costs.workload import make_workload
from frostline.encoders.encoder import Encoder
from frostline.progress import Progress, Step, silent
from frostline.records import LayerScores, Plan, Proposal, Recipe
from frostline.records.budget import Budget
from frostline.records.plans import Plans
from frostline.scoring.measurement import MeasureOptions, measure_layers, texts_to_see
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import DEFAULT_SCORES
from frostline.search.head_choice import POOLINGS, SearchedHead, choose_head
from frostline.search.judging import Judging
from frostline.search.limits import check_limits, within, worth_trying
from frostline.search.proposals import PROBE, needed_scores, propose
from frostline.states.frozen import StatesAt
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs

_MOST_AHEAD = 1 << 30  # bytes of states that are frozen before it is known which of them plans need
_BYTES = 4  # of a number, at most


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs of a search: the encoder, the task, and the user's limits.

    Args:
        encoder: the loaded encoder.
        task: the task; plans can be raced only if it has validation rows.
        recipe: epochs, batch and so on of a complete trial, with threads.
        budget: limits and goal.
        allow_frostline_only: also consider plans whose models only Frostline can load.
        cache: whether to keep frozen states on disk.
        proof: whether to compare the choice with full fine-tuning.
        refit: whether to train the choice on training and validation rows together.
        folds: number of folds of all labelled rows that plans are judged in; None to judge them on validation rows.
        every_plan: whether to propose the plans of every strategy. By default a race leaves out those whose layer
            scores need further passes over the rows, which take longer than they have been shown to be worth.
    """

    encoder: Encoder
    task: Task
    recipe: Recipe
    budget: Budget
    allow_frostline_only: bool = False
    cache: bool = True
    proof: bool = True
    refit: bool = True
    folds: int | None = None
    every_plan: bool = False

    @property
    def judging(self) -> Judging:
        """How plans are judged."""
        return Judging(self.task, self.folds)

    @property
    def layer_scores(self) -> list[str]:
        """The layer scores to measure: those that are shown, and those that strategies follow."""
        proposes_all = self.every_plan or self.budget.goal == "best"
        needed = needed_scores(self.encoder.depth) if proposes_all else [PROBE]
        return list(dict.fromkeys([*DEFAULT_SCORES, *needed]))

    @property
    def may_average(self) -> bool:
        """Whether the head may read the mean of all tokens, for which the saved model has one more layer."""
        budget = self.budget
        wants_few_layers = budget.max_layers is not None or budget.max_latency is not None
        return self.recipe.head == "family" and not wants_few_layers and budget.goal in ("cheapest", "best")

    def with_head(self, head: SearchedHead) -> Inputs:
        """Return the inputs with this head, if plans may have it."""
        return replace(self, recipe=replace(self.recipe, head=head)) if self.may_average else self

    def shared(self, progress: Progress = silent) -> SharedInputs:
        """Return the encoder and the task with the inputs that all trials share."""
        return SharedInputs.for_recipe(self.encoder, self.task, self.recipe, keep=self.cache, progress=progress)

    def costs(self, shared: SharedInputs) -> Costs:
        """Return the costs of plans, without this machine's speed; refuse limits that no plan can meet."""
        costs = Costs(self.encoder.config, make_workload(shared), self.recipe)
        check_limits(costs, self.budget)
        return costs


def most_steps(recipe: Recipe, rows: int) -> int | None:
    """Return the most steps of a plan that tunes layers, where the recipe sets them; None if they follow the curve.

    Args:
        recipe: steps, or a number of epochs other than the default, set the most.
        rows: number of training rows.
    """
    if recipe.steps is not None or recipe.epochs == Recipe().epochs:
        return recipe.steps
    return recipe.epochs * ceil(rows / (recipe.batch * recipe.accumulate))


def make_plans(inputs: Inputs, *, progress: Progress = silent) -> Plans:
    """Return the plans of every strategy for an encoder and a task, with their costs on this machine."""
    inputs = replace(inputs, every_plan=True)
    shared = inputs.shared(progress)
    costs = inputs.costs(shared)
    scores = measure_for_plans(inputs, shared=shared, progress=progress).scores
    proposals, notes = plans_within(scores, costs.at(time_steps(inputs, costs, progress)), inputs)
    return Plans(encoder=scores.encoder, task=scores.task, proposals=tuple(proposals), notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class OnePass:
    """What one pass over the training rows tells.

    Args:
        scores: the layer scores.
        head: the head that plans should have.
    """

    scores: LayerScores
    head: SearchedHead


def measure_for_plans(
    inputs: Inputs,
    *,
    shared: SharedInputs | None = None,
    keep: Sequence[StatesAt] = (),
    progress: Progress = silent,
) -> OnePass:
    """Return the head to use and the layer scores to show and to follow, without those that do not fit the task.

    Args:
        inputs: encoder, task and recipe.
        shared: inputs of the trials; the pass over the training rows uses their tokens and freezes states for them.
        keep: states to freeze in the same pass.
        progress: progress callback.
    """
    options = _options(inputs)
    shared = inputs.shared(progress) if shared is None else shared
    texts, poolings = texts_to_see(inputs.task, options)
    seen = shared.pass_over(
        "train",
        keep=keep,
        texts=texts,
        poolings=list(dict.fromkeys([*poolings, *POOLINGS])),
        memory_limit=options.memory_limit,
    )
    head = choose_head(inputs.encoder, inputs.task, seen, seed=options.seed)
    return OnePass(scores=measure_layers(inputs.encoder, inputs.task, options, seen=seen, progress=progress), head=head)


def _options(inputs: Inputs) -> MeasureOptions:
    scores = [LAYER_SCORES[name] for name in inputs.layer_scores if name in LAYER_SCORES]
    has_classes = inputs.task.kind != "regression"
    return MeasureOptions(
        scores=[score.name for score in scores if has_classes or score.needs != "classes"],
        needs_all=False,  # plans that follow a score that is not there are not proposed
        max_length=inputs.recipe.max_length,
        seed=inputs.recipe.seed,
    )


def states_of_any_plan(costs: Costs, depth: int) -> list[StatesAt]:
    """Return the states that plans start from, whichever layers scores favour; none if they would fill the disk.

    Written while the rows are measured, they save a second pass.
    """
    spans = [Plan.span(layer, depth, depth) for layer in range(1, depth + 1)]
    heads = [Plan(layers=(), head=layer) for layer in range(1, depth + 1)]
    places = costs.frozen_at([*spans, *heads])
    tokens, texts = int(costs.load.train.sum()), len(costs.load.train)
    size = sum(texts if at.reads.is_single else tokens for at in places) * costs.encoder.width * _BYTES
    return places if size <= _MOST_AHEAD else []


def time_steps(inputs: Inputs, costs: Costs, progress: Progress = silent) -> Speed:
    """Return this machine's speed, from a few steps."""
    progress(Step(stage="timing a few steps"))
    return calibrate(inputs.encoder, costs, max_memory=inputs.budget.max_memory)


def plans_within(scores: LayerScores, costs: Costs, inputs: Inputs) -> tuple[list[Proposal], list[str]]:
    """Return the plans of a race, cheapest first, and notes on the plans that were left out.

    Args:
        scores: measured layer scores.
        costs: costs of plans, with this machine's speed.
        inputs: limits and goal.
    """
    seed = costs.recipe.seed
    proposals, notes = propose(
        scores,
        costs,
        follow=inputs.layer_scores,
        allow_frostline_only=inputs.allow_frostline_only,
        seed=seed,
    )
    for rule in (within, worth_trying):
        proposals, more = rule(proposals, inputs.budget)
        notes += more
    return proposals, notes
