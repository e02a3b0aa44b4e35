"""The choice among the plans of a race, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from frostline.records.budget import GOALS, Budget
from frostline.records.difference import Difference
from frostline.records.run import Decision, Judged
from frostline.search.entries import Entry, Race
from frostline.search.judging import Judging
from frostline.tasks import METRICS

_PRICES: Mapping[str, Callable[[Entry], float]] = {
    "cheapest": lambda entry: entry.proposal.cost.price,
    "smallest": lambda entry: entry.proposal.cost.size,
    "fastest": lambda entry: entry.proposal.cost.latency,
    "best": lambda entry: -entry.value,
}
# A plan with a lower price, in words.
_CHEAPER = {
    "cheapest": "that needs less compute to tune",
    "smallest": "with fewer parameters",
    "fastest": "that predicts faster",
}


def decide(race: Race, judging: Judging, budget: Budget, *, depth: int, seed: int = 0) -> Decision:
    """Choose among the plans that were trained to the end, by validation alone.

    A plan is good enough if the 95% interval of its difference to the leader lies above minus the margin; the leader is
    expected to be the best, from these rows and from how plans do on most tasks. Full fine-tuning and other plans that
    join late are chosen only if they are shown to be better than the choice among the others, by more than the margin.

    Args:
        race: the race, finished or not.
        judging: the task, and the rows that plans were judged on.
        budget: margin and goal.
        depth: number of layers of the whole encoder.
        seed: seed of the bootstrap.
    """
    price = _PRICES[budget.goal]
    margin = budget.margin_of(METRICS[judging.task.metrics[0]].points)
    early = [entry for entry in race.final if not entry.proposal.joins_late] or list(race.final)
    leader = early[0]
    gaps = {entry.spec.id: judging.difference(entry.result, leader.result, seed=seed) for entry in early}
    good_enough = [entry for entry in early if entry is leader or gaps[entry.spec.id].is_non_inferior(margin)]
    of_race = chosen = min(good_enough, key=lambda entry: (price(entry), -entry.value))
    late = next((entry for entry in race.final if entry not in early), None)
    proof = None if late is None else judging.difference(late.result, of_race.result, seed=seed)
    is_replaced = proof is not None and proof.low > 0 and proof.value > margin
    if late is not None and is_replaced:
        chosen, good_enough = late, [late]
    best = max(race.final, key=lambda entry: entry.value)
    decision = Decision(
        chosen=chosen.spec.id,
        best=best.spec.id,
        against_best={entry.spec.id: judging.difference(entry.result, best.result, seed=seed) for entry in race.final},
        good_enough=tuple(entry.spec.id for entry in good_enough),
        why=(),
        proof=proof,
        is_proof=is_replaced,
    )
    plan = chosen.proposal.plan
    source = [f"Proposed by {chosen.proposal.origins}: {plan.because}."] if plan.because else []
    members = len(chosen.spec.recipe.soup or ())
    soup = (
        [f"Its weights are the mean of those of {members} models that saw the rows in other orders."] if members else []
    )
    reason = _reason(race, decision, of_race, leader, gaps, judging, budget)
    return replace(decision, why=(f"{plan.name}: {plan.in_words(depth)}.", *soup, *source, *reason))


def _reason(
    race: Race,
    decision: Decision,
    of_race: Entry,
    leader: Entry,
    gaps: Mapping[str, Difference],
    judging: Judging,
    budget: Budget,
) -> list[str]:
    """Return sentences on why the plan was chosen, and on the comparison with full fine-tuning."""
    metric, rows = METRICS[judging.task.metrics[0]], judging.in_words
    margin = budget.margin_of(metric.points)
    unit = "" if metric.points != 100 else " point" if margin == 1 else " points"
    proof = "" if decision.proof is None else metric.describe_difference(decision.proof)
    if decision.is_proof:
        return [
            f"Full fine-tuning is better than the choice of the race, {of_race.proposal.plan.name}, by more than "
            f"{margin:g}{unit}: {proof} on {rows}. So it is the choice."
        ]
    compared = [f"Full fine-tuning minus the choice: {proof} on {rows}."] if proof else []
    return [_why_of_race(race, decision, leader, gaps, judging, budget), *compared]


def _why_of_race(
    race: Race, decision: Decision, leader: Entry, gaps: Mapping[str, Difference], judging: Judging, budget: Budget
) -> str:
    early = [entry for entry in race.final if entry.spec.id in gaps]
    if budget.goal == "best":
        return f"It is the best of {len(early)} plans on validation."
    metric, rows = METRICS[judging.task.metrics[0]], judging.in_words
    margin, price = budget.margin_of(metric.points), _PRICES[budget.goal]
    unit = "" if metric.points != 100 else " point" if margin == 1 else " points"
    if decision.chosen != leader.spec.id:
        difference = metric.describe_difference(gaps[decision.chosen])
        return (
            f"It is {GOALS[budget.goal]} of the {len(decision.good_enough)} plans shown to be within {margin:g}{unit} "
            f"of the best one, {leader.proposal.plan.name}: {difference} on {rows}."
        )
    luckiest = max(early, key=lambda entry: entry.value)
    if luckiest.value > leader.value:
        difference = metric.describe_difference(gaps[luckiest.spec.id])
        return (
            f"Its layers do best on most tasks, and {rows} are too few to show that "
            f"{luckiest.proposal.plan.name} is better on this one: {difference}."
        )
    cheaper = [gaps[entry.spec.id] for entry in early if price(entry) < price(leader)]
    if len(decision.good_enough) > 1 or not cheaper:
        return f"It is the best on validation, and {GOALS[budget.goal]} of the plans that are good enough."
    if all(difference.high < -margin for difference in cheaper):
        return (
            f"It is the best on validation; every plan {_CHEAPER[budget.goal]} is shown to be more than "
            f"{margin:g}{unit} worse."
        )
    return (
        f"It is the best on validation; {rows} are too few to show that any plan {_CHEAPER[budget.goal]} is "
        f"within {margin:g}{unit} of it. With more of them, or a larger `margin`, a cheaper plan may be chosen."
    )


def trade_offs(
    judging: Judging, race: Race, decision: Decision, tests: Sequence[Judged], *, seed: int
) -> tuple[str, ...]:
    """Return what the choice costs and saves compared with each baseline, one line each.

    Args:
        judging: the task, and the rows that plans were judged on, which count where there are no test rows.
        race: the finished race.
        decision: the choice.
        tests: the choice and the baselines on the test rows.
        seed: seed of the bootstrap.
    """
    chosen, metric = race.entry(decision.chosen), METRICS[judging.task.metrics[0]]
    split = "test" if tests else "validation"
    on_test = {test.trial: test.choice_minus_it for test in tests}
    lines = []
    for name, trial in race.baselines.items():
        if trial != decision.chosen:
            baseline = race.entry(trial)
            difference = on_test.get(trial) or judging.difference(chosen.result, baseline.result, seed=seed)
            lines.append(trade_off(chosen, baseline, name, metric.describe_difference(difference, split)))
    return tuple(lines)


def trade_off(chosen: Entry, baseline: Entry, name: str, difference: str) -> str:
    """Return one line on what the choice costs and saves compared with a baseline.

    Args:
        chosen: the choice.
        baseline: the baseline's plan.
        name: name of the baseline.
        difference: difference in quality, in words.
    """
    cost, other = chosen.proposal.cost, baseline.proposal.cost
    return (
        f"vs {name}, {baseline.proposal.plan}: {difference}; {_relative(_price(chosen), _price(baseline))} compute "
        f"({_seconds(chosen.seconds)} vs {_seconds(baseline.seconds)}); {_millions(cost.trainable)} vs "
        f"{_millions(other.trainable)} trainable parameters; {_relative(cost.latency, other.latency)} latency"
    )


def _price(entry: Entry) -> float:
    """Return the compute of an epoch, of all members of a soup."""
    return entry.proposal.cost.price * len(entry.spec.recipe.soup or (1,))


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f}M" if count >= 1e6 else f"{count:,}"


def _relative(value: float, reference: float) -> str:
    """Return 'same', '46% of the' or '2.5 times the'."""
    ratio = value / reference if reference > 0 else 1.0
    if f"{ratio:.2f}" == "1.00":
        return "same"
    return f"{100 * ratio:.0f}% of the" if ratio <= 2 else f"{ratio:.1f} times the"
