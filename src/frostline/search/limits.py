"""The limits of a budget, and the plans that meet them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

from frostline.costs.cost import Costs
from frostline.errors import OptionError
from frostline.plans.learning_rates import SOUP
from frostline.plans.lengths import FIRST_STEPS, LEAST_STEPS, LEAST_STEPS_OF_SOUP
from frostline.records import Cost, Plan, Proposal
from frostline.records.budget import Budget, Goal
from frostline.tasks.raw_table import counted

_WORTH_TRYING = 0.6  # share of full fine-tuning's compute above which a plan saves too little to be tried by default


@dataclass(frozen=True)
class _Limit:
    """One limit: its name, the largest value that it allows, and the quantity that it limits."""

    name: str
    most: float
    quantity: str  # a field of Cost
    unit: float = 1.0

    def amount(self, cost: Cost) -> float:
        return float(getattr(cost, self.quantity) or 0.0) / self.unit

    def allows(self, cost: Cost) -> bool:
        return self.amount(cost) <= self.most

    def excess(self, cost: Cost) -> float:
        """Return by how many powers of ten it would have to be raised."""
        return 0.0 if self.allows(cost) else log10(self.amount(cost) / self.most)


def within(proposals: Sequence[Proposal], budget: Budget, *, called: str = "plans") -> tuple[list[Proposal], list[str]]:
    """Return the plans within all limits, and a note on each limit that excludes some; raise if no plan is.

    Args:
        proposals: plans with their costs.
        budget: the limits.
        called: name of the plans in messages.
    """
    limits, notes = _limits(budget), []
    for limit in limits:
        excluded = [proposal for proposal in proposals if not limit.allows(proposal.cost)]
        if excluded:
            # Not in powers of ten, which would hide digits of large numbers.
            most = f"{limit.most:,.0f}" if limit.most >= 1e4 else f"{limit.most:g}"
            count = f"{len(excluded)} of {len(proposals)} {called}"
            notes.append(f"`{limit.name}={most}` excludes {count}{_and_full_tuning(excluded)}")
    kept = [proposal for proposal in proposals if all(limit.allows(proposal.cost) for limit in limits)]
    if not kept:
        raise OptionError(f"no plan fits: {'; '.join(notes)}. {_what_would_fit(proposals, limits)}")
    return kept, notes


def _and_full_tuning(excluded: Sequence[Proposal]) -> str:
    return ", including full fine-tuning" if any(proposal.plan.embeddings for proposal in excluded) else ""


def check_limits(costs: Costs, budget: Budget) -> None:
    """Refuse limits that no plan can meet, before anything is measured or timed.

    At every layer the head alone trains, keeps, runs and holds the least, so that only heads are checked. The limit on
    time is not: nothing has been timed yet.
    """
    budget = replace(budget, minutes=None)
    if _limits(budget):
        plans = [Plan(layers=(), head=layer) for layer in range(1, costs.encoder.depth + 1)]
        heads = [Proposal(plan=plan, sources=("head only",), cost=costs.of(plan)) for plan in plans]
        within(heads, budget, called="heads alone, the cheapest plans")


def _limits(budget: Budget) -> list[_Limit]:
    limits = [
        ("minutes", budget.minutes, "seconds", 60.0),
        ("max_trainable", budget.max_trainable, "trainable", 1.0),
        ("max_latency", budget.max_latency, "latency", 1.0),
        ("max_memory", budget.max_memory, "memory", 1e9),
        ("max_layers", budget.max_layers, "layers", 1.0),
    ]
    return [_Limit(name, float(most), quantity, unit) for name, most, quantity, unit in limits if most is not None]


def _what_would_fit(proposals: Sequence[Proposal], limits: Sequence[_Limit]) -> str:
    """Return what one limit would have to be, the others unchanged; or else what the nearest plan needs of several."""
    hints = []
    for limit in limits:
        others = [other for other in limits if other is not limit]
        amounts = [limit.amount(plan.cost) for plan in proposals if all(other.allows(plan.cost) for other in others)]
        if amounts and min(amounts) > limit.most:
            hints.append(f"`{limit.name}={_rounded_up(min(amounts))}`")
    if hints:
        return f"A plan would fit with {' or with '.join(hints)}"
    nearest = min(proposals, key=lambda proposal: sum(limit.excess(proposal.cost) for limit in limits)).cost
    needed = [limit for limit in limits if not limit.allows(nearest)]
    hints = [f"`{limit.name}={_rounded_up(limit.amount(nearest))}`" for limit in needed]
    return f"A plan would fit with {' and '.join(hints)} together"


def _rounded_up(value: float) -> str:
    """Return the number with three digits, never less than it was."""
    if value <= 0:
        return "0"
    scale = 10.0 ** (floor(log10(value)) - 2)
    return f"{ceil(value / scale - 1e-9) * scale:.12g}"


def worth_trying(proposals: Sequence[Proposal], budget: Budget) -> tuple[list[Proposal], list[str]]:
    """Return the plans that save enough compared with full fine-tuning, if that takes part; and a note on the others.

    Args:
        proposals: plans with their costs.
        budget: the goal; with the goal 'best', all plans are tried.
    """
    full = next((proposal.cost for proposal in proposals if proposal.plan.embeddings), None)
    if full is None or budget.goal == "best":
        return list(proposals), []
    kept = [plan for plan in proposals if plan.plan.embeddings or _saves_enough(plan.cost, full, budget.goal)]
    note = (
        f"{counted(len(proposals) - len(kept), 'plan')} left out, saving less than {100 - 100 * _WORTH_TRYING:.0f}% of "
        "full fine-tuning's compute; `goal='best'` includes all"
    )
    return kept, [note] if len(kept) < len(proposals) else []


def _saves_enough(cost: Cost, full: Cost, goal: Goal) -> bool:
    is_smaller = goal == "smallest" and cost.size < full.size
    is_faster = goal == "fastest" and cost.latency < full.latency
    # Plans whose models are not stock ones take part only if the user has asked for them.
    return is_smaller or is_faster or not cost.stock or cost.price < _WORTH_TRYING * full.price


def fitting_time(proposals: Sequence[Proposal], seconds: float) -> tuple[list[Proposal], list[str]]:
    """Return the plans whose race is expected to end in time, without the most expensive ones; and a note on those.

    Args:
        proposals: plans with costs in seconds.
        seconds: time that remains.
    """
    kept = sorted(proposals, key=lambda proposal: proposal.cost.seconds or 0.0)
    excluded: list[Proposal] = []
    while len(kept) > 1 and race_seconds(kept) > seconds:
        excluded.append(kept.pop())
    count = f"{len(excluded)} of {len(proposals)} plans, the most expensive"
    return kept, [f"`minutes` excludes {count}{_and_full_tuning(excluded)}"] if excluded else []


def race_seconds(proposals: Sequence[Proposal]) -> float:
    """Return the expected duration of a race that ends as early as it can."""
    late = sum(LEAST_STEPS * step_seconds(proposal.cost) for proposal in proposals if proposal.joins_late)
    others = [step_seconds(proposal.cost) for proposal in proposals if not proposal.joins_late and proposal.plan.layers]
    leader = 2 * FIRST_STEPS + len(SOUP) * LEAST_STEPS_OF_SOUP  # two more learning rates, and a soup of the best one
    return ((len(others) + 2) * FIRST_STEPS + leader) * max(others, default=0.0) + late  # two plans go on


def step_seconds(cost: Cost) -> float:
    """Return the expected duration of one step; 0 if this machine's speed is not known."""
    return (cost.seconds or 0.0) / max(1.0, cost.steps * cost.epochs)
