"""Plans that are worth trying on a task: every strategy applied to what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from frostline.errors import OptionError
from frostline.options import in_words
from frostline.plans.learning_rates import epochs_for
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES
from frostline.records import LayerScores, Plan
from frostline.records.cost import Cost
from frostline.records.proposal import Proposal
from frostline.records.table import group_by

if TYPE_CHECKING:
    from frostline.costs.cost import Costs

PROBE = "probe.linear"  # the layer score that says how good a plan that tunes no layer will be
HEAD_ONLY = "the head only"  # the baseline that no strategy gives


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A plan as one strategy or method gives it."""

    plan: Plan
    source: str
    baseline: str | None = None
    joins_late: bool = False


def needed_scores(depth: int) -> list[str]:
    """The layer scores that proposals for an encoder of this depth read, each once.

    Args:
        depth: number of layers.
    """
    strategies = [strategy for _, strategy in STRATEGIES.items() if strategy.proposed(depth)]
    own = [score for one in strategies for options in one.proposed(depth) for score in one.scores(options)]
    return list(dict.fromkeys([*own, *(one.fallback for one in strategies if one.fallback), PROBE]))


def baseline_names() -> list[str]:
    """What a race compares its choice with: the baselines that strategies declare, and the head alone."""
    return [*sorted({one.baseline for _, one in STRATEGIES.items() if one.baseline}), HEAD_ONLY]


def propose(
    scores: LayerScores, costs: Costs, *, allow_frostline_only: bool = False, seed: int = 0
) -> tuple[list[Proposal], list[str]]:
    """Plans for a race with their costs, cheapest first, and what was left out and why.

    Args:
        scores: measured; the strategies' own and the linear probe's.
        costs: of plans on this encoder and task.
        allow_frostline_only: take part also what transformers cannot load.
        seed: of strategies that draw.
    """
    candidates, notes = _by_strategy(scores, seed)
    every = [*candidates, *_by_method(scores.depth), *_heads(scores.depth)]
    same = group_by(every, lambda candidate: str(candidate.plan.identity()))
    if PROBE not in scores.scores:
        notes.append("the rows are too few for a linear probe: the head alone is tried on every layer")
    tried, left = list(same.values()), []
    if not allow_frostline_only:  # before counting their costs, which takes a second each
        left = [group[0].plan for group in tried if not METHODS[group[0].plan.method].is_stock]
        tried = [group for group in tried if METHODS[group[0].plan.method].is_stock]
    made = [_proposal(group, costs) for group in tried]
    if not allow_frostline_only:
        left += [one.plan for one in made if not one.cost.stock]
        made = [one for one in made if one.cost.stock]
        if left:
            names = ", ".join(dict.fromkeys(plan.method for plan in left))
            notes.append(
                f"{len(left)} plans whose models only Frostline can load ({names}) do not take part; "
                "`allow_frostline_only=True` lets them"
            )
    if not made:
        raise OptionError("no plan makes a model that transformers alone can load; pass `allow_frostline_only=True`")
    kept = [one for one in made if not any(_dominates(other, one, scores) for other in made if other is not one)]
    if len(kept) < len(made):
        notes.append(f"{len(made) - len(kept)} plans are left out: another one does more at no higher cost")
    return sorted(kept, key=lambda one: (one.cost.price, one.cost.trainable)), notes


def _by_strategy(scores: LayerScores, seed: int) -> tuple[list[_Candidate], list[str]]:
    """What strategies propose, and a note for each whose layer score is not there and that declares no other."""
    candidates, notes = [], []
    for name, strategy in STRATEGIES.items():
        for options in strategy.proposed(scores.depth):
            fallback = strategy.fallback
            if fallback and fallback in scores.scores and strategy.scores(options)[0] not in scores.scores:
                options = {**options, "score": fallback}
            if missing := [score for score in strategy.scores(options) if score not in scores.scores]:
                notes.append(f"{name} proposes no plans: it follows {' and '.join(missing)}, not measured on this task")
                continue
            words = in_words(options)
            try:
                plan = strategy.plan(scores.depth, scores, options, seed=seed)
            except OptionError:
                continue  # best-up where the last layer is the best: there is no such plan
            candidates.append(
                _Candidate(
                    plan=plan,
                    source=f"{name}:{words}" if words else name,
                    baseline=strategy.baseline,
                    joins_late=strategy.joins == "last",
                )
            )
    return candidates, list(dict.fromkeys(notes))


def _by_method(depth: int) -> list[_Candidate]:
    """Every other method on all layers."""
    everything = Plan.span(1, depth, depth)
    return [
        _Candidate(
            plan=replace(everything, method=name, because=f"{method.summary.rstrip('.')}: on all layers"), source=name
        )
        for name, method in METHODS.items()
        if name != everything.method
    ]


def _heads(depth: int) -> list[_Candidate]:
    """No layer tuned: the head alone, on each layer."""
    return [
        _Candidate(
            plan=Plan(layers=(), head=layer, because=f"no layer is tuned; the head reads layer {layer}"),
            source="head only",
            baseline=HEAD_ONLY,
        )
        for layer in range(1, depth + 1)
    ]


def _proposal(group: Sequence[_Candidate], costs: Costs) -> Proposal:
    """The plan that all of these are, with its cost."""
    plan = group[0].plan
    return Proposal(
        plan=plan,
        sources=tuple(dict.fromkeys(one.source for one in group)),
        cost=costs.of(plan, epochs=epochs_for(plan, costs.recipe.epochs)),
        baselines=tuple(dict.fromkeys(one.baseline for one in group if one.baseline)),
        joins_late=any(one.joins_late for one in group),
    )


def _dominates(better: Proposal, worse: Proposal, scores: LayerScores) -> bool:
    """Whether nothing speaks for the worse one: it costs no less, and the probe says that it does no better.

    Only heads alone are known before they are tuned; of other plans, none that tunes more costs less.
    """
    if better.plan.layers or worse.plan.layers or PROBE not in scores.scores:
        return False
    mine, theirs = (scores[PROBE].values[one.plan.head] for one in (better, worse))
    is_as_good = mine is not None and theirs is not None and mine >= theirs
    return is_as_good and _is_no_dearer(better.cost, worse.cost)


def _is_no_dearer(one: Cost, other: Cost) -> bool:
    return one.price <= other.price and one.latency <= other.latency and one.memory <= other.memory
