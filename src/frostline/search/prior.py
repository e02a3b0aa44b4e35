"""The plans of a race: a few that do well on most tasks by their place in the encoder alone, and how well.

No layer score that we know ranks plans as their tuning does, so a race does not follow scores; it tries the two middle
layers, the upper half, the upper half of what is left when a third of the layers is dropped, and heads alone. A search
for a small or fast model also drops half of the layers. Limits may exclude some of these; the nearest plans that they
allow stand in.

The two middle layers are the favourite: on development tasks they were the best of these on average. A few hundred
validation rows have an error of two points, so that without a prior the luckiest of several equal plans would win. The
prior of another plan's difference to the favourite is a normal distribution; with what the validation rows show it
gives an expected difference, by which plans are ranked.
"""

from __future__ import annotations

from collections.abc import Sequence

from frostline.records import Plan, Proposal
from frostline.records.budget import Goal
from frostline.records.difference import Difference
from frostline.tasks import Task

_FEW = 32  # labelled rows: on four development sets heads alone were 2 to 5 points better with 16, and as good with 64
FEW_ROWS = (
    f"with fewer than {_FEW} labelled rows a head alone does better than tuned layers on most tasks, so only heads "
    "take part; `goal='best'` includes all plans"
)
# Points that other plans are worth more than the favourite, over ten development cases: mean, standard deviation.
_WORTH, _SPREAD = -1.5, 2.5
_EARLY = 2.0  # points by which differences still change once plans have had their first steps, as a standard deviation
_NINETY_FIVE = 1.96  # standard deviations to the end of a 95% interval
_HEADS = 4  # alone, on the upper half of the layers
_LEAST = 3  # plans that tune layers


def usual_plans(depth: int, *, goal: Goal = "cheapest") -> list[Plan]:
    """Return the plans that do well on most tasks, for an encoder of this depth."""
    centre = depth // 2 + 1
    plans = [Plan.span(max(1, centre - 1), min(centre, depth), depth), Plan.span(centre, depth, depth)]
    for dropped in [depth // 3, *([depth // 2] if goal in ("smallest", "fastest") else [])]:
        head = depth - dropped
        plans.append(Plan.span(head - (head + 1) // 2 + 1, head, head))
    return plans


def favourite(proposals: Sequence[Proposal], depth: int) -> str | None:
    """Return the identity of the plan that does best on most tasks, if it is among these."""
    wanted = str(usual_plans(depth)[0].identity())
    return wanted if any(str(proposal.plan.identity()) == wanted for proposal in proposals) else None


def expected_difference(shown: Difference, *, point: float = 1.0, is_early: bool = False) -> float:
    """Return by how much a plan is expected to be better than the favourite, in points or units of the metric.

    Args:
        shown: the difference on the validation rows.
        point: what a point is in units of the metric.
        is_early: whether the plans have had few steps.
    """
    worth, spread, early = _WORTH * point, _SPREAD * point, _EARLY * point * is_early
    noise = ((shown.high - shown.low) / (2 * _NINETY_FIVE)) ** 2 + early**2
    return (worth * noise + shown.value * spread**2) / (noise + spread**2)


def promising(proposals: Sequence[Proposal], depth: int, goal: Goal) -> list[Proposal]:
    """Return the plans to race, cheapest first; full fine-tuning, which joins late, is not among them.

    Args:
        proposals: all plans within the limits, cheapest first.
        depth: number of layers of the whole encoder.
        goal: with the goal 'best', all plans race.
    """
    early = [proposal for proposal in proposals if not proposal.joins_late]
    if goal == "best":
        return early
    tuned = [proposal for proposal in early if proposal.plan.layers]
    heads = [proposal for proposal in early if not proposal.plan.layers]
    wanted = usual_plans(depth, goal=goal)
    chosen = [min(tuned, key=lambda proposal: _distance(proposal.plan, plan)) for plan in wanted if tuned]
    nearest = sorted(tuned, key=lambda proposal: min(_distance(proposal.plan, plan) for plan in wanted))
    identities = {str(proposal.plan.identity()) for proposal in [*chosen, *nearest[:_LEAST], *_spread(heads, depth)]}
    return [proposal for proposal in early if str(proposal.plan.identity()) in identities]


def heads_for_few_rows(proposals: Sequence[Proposal], task: Task, goal: Goal) -> list[Proposal]:
    """Return the heads alone where there are too few rows for anything else, and otherwise nothing."""
    if goal == "best" or task.kind == "multiple choice" or len(task.labelled) >= _FEW:
        return []
    return [proposal for proposal in proposals if not proposal.plan.layers]


def _spread(heads: Sequence[Proposal], depth: int) -> list[Proposal]:
    """Return heads alone on a few layers of the upper half, or on the highest layers that limits allow."""
    upper = [head for head in heads if 2 * head.plan.head >= depth] or list(heads[-_HEADS:])
    places = {round(place * (len(upper) - 1) / (_HEADS - 1)) for place in range(_HEADS)} if upper else set()
    return [upper[place] for place in sorted(places)]


def _distance(plan: Plan, other: Plan) -> int:
    """Return in how many layers two plans differ, tuned or dropped; another method is further than any layers."""
    is_other_method = plan.method != other.method
    return len({*plan.layers} ^ {*other.layers}) + abs(plan.head - other.head) + 1_000 * is_other_method
