"""What the user is ready to spend and to give up, and which plans that leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

from frostline.costs.cost import Costs
from frostline.errors import OptionError
from frostline.records import Plan
from frostline.records.budget import Budget, Goal
from frostline.records.cost import Cost
from frostline.records.proposal import Proposal

_BARGAIN = 0.6  # of full fine-tuning's arithmetic: what takes more of it saves too little to be tried by default


@dataclass(frozen=True)
class _Limit:
    """One limit: its name, the most that it allows, and what it looks at."""

    name: str
    most: float
    of: str  # a field of Cost
    unit: float = 1.0

    def amount(self, cost: Cost) -> float:
        return float(getattr(cost, self.of) or 0.0) / self.unit

    def allows(self, cost: Cost) -> bool:
        return self.amount(cost) <= self.most

    def excess(self, cost: Cost) -> float:
        """By how many powers of ten it would have to be raised."""
        return 0.0 if self.allows(cost) else log10(self.amount(cost) / self.most)


def within(proposals: Sequence[Proposal], budget: Budget, *, called: str = "plans") -> tuple[list[Proposal], list[str]]:
    """The plans that the limits leave, and what each limit excludes; an error where none is left.

    Args:
        proposals: with their costs.
        budget: the limits.
        called: what the plans are, in messages.
    """
    limits = _limits(budget)
    kept = [one for one in proposals if all(limit.allows(one.cost) for limit in limits)]
    excluded = [(limit, [one for one in proposals if not limit.allows(one.cost)]) for limit in limits]
    said = [
        f"`{limit.name}={_written(limit.most)}` excludes {len(some)} of {len(proposals)} {called}"
        + (", full fine-tuning among them" if any(one.plan.embeddings for one in some) else "")
        for limit, some in excluded
        if some
    ]
    if not kept:
        raise OptionError(f"no plan fits: {'; '.join(said)}. {_what_would_fit(proposals, limits)}")
    return kept, said


def check_limits(costs: Costs, budget: Budget) -> None:
    """Refuse limits that no plan can keep, before anything is measured or timed.

    At every layer the head alone trains, keeps, runs and holds the least, so that heads alone tell. Time is not known
    yet.
    """
    budget = replace(budget, minutes=None)
    if _limits(budget):
        heads = [Plan(layers=(), head=layer) for layer in range(1, costs.encoder.depth + 1)]
        made = [Proposal(plan=plan, sources=("head only",), cost=costs.of(plan)) for plan in heads]
        within(made, budget, called="heads alone, the cheapest plans")


def _limits(budget: Budget) -> list[_Limit]:
    given = [
        ("minutes", budget.minutes, "seconds", 60.0),
        ("max_trainable", budget.max_trainable, "trainable", 1.0),
        ("max_latency", budget.max_latency, "latency", 1.0),
        ("max_memory", budget.max_memory, "memory", 1e9),
        ("max_layers", budget.max_layers, "layers", 1.0),
    ]
    return [_Limit(name, float(most), of, unit) for name, most, of, unit in given if most is not None]


def _what_would_fit(proposals: Sequence[Proposal], limits: Sequence[_Limit]) -> str:
    """The least that one limit would have to be, the others as they are; or what the nearest plan takes of several."""
    hints = []
    for limit in limits:
        others = [other for other in limits if other is not limit]
        amounts = [limit.amount(one.cost) for one in proposals if all(other.allows(one.cost) for other in others)]
        if amounts and min(amounts) > limit.most:
            hints.append(f"`{limit.name}={_rounded_up(min(amounts))}`")
    if hints:
        return f"With {' or with '.join(hints)} there would be one"
    nearest = min(proposals, key=lambda one: sum(limit.excess(one.cost) for limit in limits))
    needed = [limit for limit in limits if not limit.allows(nearest.cost)]
    said = [f"`{limit.name}={_rounded_up(limit.amount(nearest.cost))}`" for limit in needed]
    return f"With {' and '.join(said)} together there would be one"


def _written(value: float) -> str:
    """The number as people write it; powers of ten would hide digits of large ones."""
    return f"{value:,.0f}" if value >= 1e4 else f"{value:g}"


def _rounded_up(value: float) -> str:
    """The number with three digits, never below what it was."""
    if value <= 0:
        return "0"
    scale = 10.0 ** (floor(log10(value)) - 2)
    return f"{ceil(value / scale - 1e-9) * scale:.12g}"


def bargains(proposals: Sequence[Proposal], budget: Budget) -> tuple[list[Proposal], list[str]]:
    """Without the plans that save little against full fine-tuning, where that takes part itself.

    Args:
        proposals: with their costs.
        budget: its goal; who wants the best model wants all plans tried.
    """
    full = next((one.cost for one in proposals if one.plan.embeddings), None)
    if full is None or budget.goal == "best":
        return list(proposals), []
    kept = [one for one in proposals if one.plan.embeddings or _is_bargain(one.cost, full, budget.goal)]
    left = len(proposals) - len(kept)
    if not left:
        return kept, []
    plans = "1 plan saves" if left == 1 else f"{left} plans save"
    return kept, [
        f"{plans} less than {100 - 100 * _BARGAIN:.0f}% of full fine-tuning's arithmetic: left out; "
        "`goal='best'` takes all"
    ]


def _is_bargain(cost: Cost, full: Cost, goal: Goal) -> bool:
    if not cost.stock:
        return True  # it takes part only where the user has asked for such plans
    if goal == "smallest" and cost.size < full.size:
        return True
    if goal == "fastest" and cost.latency < full.latency:
        return True
    return cost.price < _BARGAIN * full.price


def fitting_time(proposals: Sequence[Proposal], seconds: float) -> tuple[list[Proposal], list[str]]:
    """The plans whose race is expected to end in time: the dearest go first, one after the other.

    Args:
        proposals: with costs in seconds.
        seconds: that are left.
    """
    kept = sorted(proposals, key=lambda one: one.cost.seconds or 0.0)
    left: list[Proposal] = []
    while len(kept) > 1 and race_seconds(kept) > seconds:
        left.append(kept.pop())
    if not left:
        return kept, []
    full = ", full fine-tuning among them" if any(one.plan.embeddings for one in left) else ""
    return kept, [f"`minutes` leaves out the {len(left)} dearest of {len(proposals)} plans{full}"]


def race_seconds(proposals: Sequence[Proposal]) -> float:
    """What a race is expected to take, if the dearest plans go on; some plans are in its last round only."""
    late = [one for one in proposals if one.joins_late]
    taken = sorted((one.cost.seconds or 0.0 for one in proposals if one not in late), reverse=True)
    quarter = max(3, -(-len(taken) // 4))
    last = sum(taken[:3]) + sum(one.cost.seconds or 0.0 for one in late)
    return sum(taken) / 9 + (sum(taken[:quarter]) + sum(taken[:1])) / 3 + last
