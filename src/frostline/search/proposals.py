"""Plans that are worth trying on a task: every strategy applied to the measured layer scores."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from frostline.costs.cost import Costs
from frostline.errors import OptionError
from frostline.options import in_words
from frostline.plans.learning_rates import epochs_for
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES
from frostline.records import LayerScores, Plan, Proposal
from frostline.records.table import group_by

PROBE = "probe.linear"  # a layer score that most strategies can read
HEAD_ONLY = "the head only"  # the baseline that no strategy proposes


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A plan that one strategy or method proposes."""

    plan: Plan
    source: str
    baseline: str | None = None
    joins_late: bool = False


def needed_scores(depth: int) -> list[str]:
    """Return the layer scores that strategies need for an encoder of this depth, each once."""
    strategies = [strategy for _, strategy in STRATEGIES.items() if strategy.proposed(depth)]
    needed = [score for entry in strategies for options in entry.proposed(depth) for score in entry.scores(options)]
    return list(dict.fromkeys([*needed, *(entry.fallback for entry in strategies if entry.fallback), PROBE]))


def baseline_names() -> list[str]:
    """Return the names of the baselines: those that strategies declare, and the head alone."""
    return [*sorted({entry.baseline for _, entry in STRATEGIES.items() if entry.baseline}), HEAD_ONLY]


def propose(
    scores: LayerScores,
    costs: Costs,
    *,
    follow: Collection[str] | None = None,
    allow_frostline_only: bool = False,
    seed: int = 0,
) -> tuple[list[Proposal], list[str]]:
    """Return plans for a race with their costs, cheapest first, and notes on the plans that were left out.

    Args:
        scores: measured layer scores: those that strategies need, and the linear probe's.
        costs: costs of plans on this encoder and task.
        follow: layer scores that strategies may follow; None for all.
        allow_frostline_only: whether to include plans whose models transformers cannot load.
        seed: seed of strategies that draw at random.
    """
    candidates, notes = _by_strategy(scores, follow, seed)
    candidates += [*_by_method(scores.depth), *_heads(scores.depth)]
    same_plan = list(group_by(candidates, lambda candidate: str(candidate.plan.identity())).values())
    # Before their costs are counted, which takes a second each.
    allowed = [group for group in same_plan if allow_frostline_only or METHODS[group[0].plan.method].is_stock]
    made = [_proposal(group, costs) for group in allowed]
    made = [proposal for proposal in made if allow_frostline_only or proposal.cost.stock]
    if not made:
        raise OptionError("no plan makes a model that transformers alone can load; pass `allow_frostline_only=True`")
    if len(made) < len(same_plan):
        plans = [proposal.plan for proposal in made]
        methods = dict.fromkeys(group[0].plan.method for group in same_plan if group[0].plan not in plans)
        notes.append(
            f"{len(same_plan) - len(made)} plans whose models only Frostline can load ({', '.join(methods)}) are left "
            "out; `allow_frostline_only=True` includes them"
        )
    return sorted(made, key=lambda proposal: (proposal.cost.price, proposal.cost.trainable)), notes


def _by_strategy(scores: LayerScores, follow: Collection[str] | None, seed: int) -> tuple[list[_Candidate], list[str]]:
    """Return the plans of strategies, and a note on each strategy whose layer score was not measured."""
    candidates, notes = [], []
    for name, strategy in STRATEGIES.items():
        for options in strategy.proposed(scores.depth):
            fallback = strategy.fallback
            if fallback and fallback in scores.scores and strategy.scores(options)[0] not in scores.scores:
                options = {**options, "score": fallback}
            if follow is not None and not set(strategy.scores(options)) <= set(follow):
                continue
            if missing := [score for score in strategy.scores(options) if score not in scores.scores]:
                notes.append(f"{name} proposes no plan: {' and '.join(missing)} cannot be measured on this task")
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
    """Return the plans that apply another method to all layers."""
    everything = Plan.span(1, depth, depth)
    return [
        _Candidate(
            plan=replace(everything, method=name, because=f"{method.summary.rstrip('.')}: on all layers"), source=name
        )
        for name, method in METHODS.items()
        if name != everything.method
    ]


def _heads(depth: int) -> list[_Candidate]:
    """Return the plans that tune the head alone, on each layer."""
    return [
        _Candidate(
            plan=Plan(layers=(), head=layer, because=f"no layer is tuned; the head reads layer {layer}"),
            source="head only",
            baseline=HEAD_ONLY,
        )
        for layer in range(1, depth + 1)
    ]


def _proposal(group: Sequence[_Candidate], costs: Costs) -> Proposal:
    """Return the plan that all of these candidates have in common, with its cost."""
    plan = group[0].plan
    return Proposal(
        plan=plan,
        sources=tuple(dict.fromkeys(candidate.source for candidate in group)),
        cost=costs.of(plan, epochs=epochs_for(plan, costs.recipe.epochs)),
        baselines=tuple(dict.fromkeys(candidate.baseline for candidate in group if candidate.baseline)),
        joins_late=any(candidate.joins_late for candidate in group),
    )
