"""Plans that are worth trying on a task: every strategy applied to what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frostline.errors import OptionError
from frostline.options import as_word
from frostline.plans.learning_rates import typical_epochs
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES
from frostline.records import LayerScores, Plan
from frostline.records.cost import Cost

if TYPE_CHECKING:
    from frostline.costs.cost import Costs

PROBE = "probe.linear"  # the layer score that says how good a plan that tunes no layer will be
NEEDED_SCORES = ("variability", "fisher", PROBE)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A plan, where it comes from and what it costs."""

    plan: Plan
    sources: tuple[str, ...]
    cost: Cost

    @property
    def name(self) -> str:
        """How tables call it."""
        if not self.plan.layers:
            return f"head only at {self.plan.head}"
        is_full = self.plan.embeddings
        return f"{self.plan} {self.plan.method}" if is_full or self.plan.method != "full" else str(self.plan)

    @property
    def is_full(self) -> bool:
        """Whether it is full fine-tuning, embeddings included."""
        return self.plan.embeddings and "full" in self.sources

    @property
    def is_middle(self) -> bool:
        """Whether it tunes the middle layers, whatever was measured."""
        return any(source.startswith("middle") for source in self.sources) and not self.is_full

    @property
    def joins_late(self) -> bool:
        """Whether a race has it in its last round only."""
        return self.is_full or self.is_middle

    @property
    def origins(self) -> str:
        """The strategies and methods that it comes from, without their options."""
        return ", ".join(dict.fromkeys(source.split(":")[0] for source in self.sources))

    def to_json(self) -> dict[str, Any]:
        """The proposal as plain JSON values."""
        return {"plan": self.plan.to_json(), "sources": list(self.sources), "cost": self.cost.to_json()}


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
    found: dict[str, tuple[Plan, list[str]]] = {}
    for plan, source in [*_by_strategy(scores, seed), *_by_method(scores.depth), *_probes(scores)]:
        key = str(plan.identity())
        if key in found:
            found[key][1].append(source)
        else:
            found[key] = (plan, [source])
    notes = []
    if PROBE not in scores.scores:
        notes.append("the rows are too few for a linear probe: the head alone is tried on every layer")
    tried, left = list(found.values()), []
    if not allow_frostline_only:  # before counting their costs, which takes a second each
        left = [plan for plan, _ in tried if not METHODS[plan.method].is_stock]
        tried = [(plan, sources) for plan, sources in tried if METHODS[plan.method].is_stock]
    made = [
        _proposal(plan, sources, costs.of(plan, epochs=typical_epochs(plan, costs.recipe.epochs)))
        for plan, sources in tried
    ]
    if not allow_frostline_only:
        left += [one.plan for one in made if not one.cost.stock]
        made = [one for one in made if one.cost.stock]
        if left:
            names = ", ".join(dict.fromkeys(plan.method for plan in left))
            notes.append(
                f"{len(left)} plans whose models only Frostline can load ({names}) do not take part; "
                "--allow-frostline-only lets them"
            )
    if not made:
        raise OptionError("no plan makes a model that transformers alone can load; say --allow-frostline-only")
    kept = [one for one in made if not any(_dominates(other, one, scores) for other in made if other is not one)]
    if len(kept) < len(made):
        notes.append(f"{len(made) - len(kept)} plans are left out: another one does more at no higher cost")
    return sorted(kept, key=lambda one: (one.cost.price, one.cost.trainable)), notes


def _by_strategy(scores: LayerScores, seed: int) -> list[tuple[Plan, str]]:
    found = []
    for name, strategy in STRATEGIES.items():
        for options in strategy.proposed(scores.depth):
            if any(score not in scores.scores for score in strategy.scores(options)):
                options = {**options, "score": PROBE}  # numbers to predict have no classes to be specialised in
            words = ",".join(f"{key}={as_word(value)}" for key, value in options.items())
            try:
                plan = strategy.plan(scores.depth, scores, options, seed=seed)
            except OptionError:
                continue  # best-up where the last layer is the best: there is no such plan
            found.append((plan, f"{name}:{words}" if words else name))
    return found


def _by_method(depth: int) -> list[tuple[Plan, str]]:
    """Every other method on all layers."""
    everything = Plan.span(1, depth, depth)
    return [
        (replace(everything, method=name, because=f"{method.summary.rstrip('.')}: on all layers"), name)
        for name, method in METHODS.items()
        if name != "full"
    ]


def _probes(scores: LayerScores) -> list[tuple[Plan, str]]:
    """No layer tuned: the head alone, on each layer."""
    return [
        (Plan(layers=(), head=layer, because=f"no layer is tuned; the head reads layer {layer}"), "head only")
        for layer in range(1, scores.depth + 1)
    ]


def _proposal(plan: Plan, sources: Sequence[str], cost: Cost) -> Proposal:
    return Proposal(plan=plan, sources=tuple(dict.fromkeys(sources)), cost=cost)


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
