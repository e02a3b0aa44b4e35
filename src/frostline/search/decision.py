"""The choice among the plans of a race, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frostline.records.budget import GOALS, Budget
from frostline.records.difference import Difference
from frostline.records.run import Decision
from frostline.search.successive_halving import Entry, Race
from frostline.stats.intervals import compare
from frostline.tasks import Task
from frostline.tasks.metrics import METRICS, TaskMetric

_PRICES: Mapping[str, Callable[[Entry], float]] = {
    "cheapest": lambda entry: entry.proposal.cost.price,
    "smallest": lambda entry: entry.proposal.cost.size,
    "fastest": lambda entry: entry.proposal.cost.latency,
    "best": lambda entry: -entry.value,
}
# Of a plan with a lower price, in words.
_LESS = {
    "cheapest": "that takes less arithmetic to tune",
    "smallest": "with fewer parameters",
    "fastest": "that predicts faster",
}


def decide(race: Race, task: Task, budget: Budget, *, depth: int, seed: int = 0) -> Decision:
    """Choose among the plans that were tried on the whole budget, by validation alone.

    A plan is good enough if the 95% interval of its difference to the best one lies above minus the margin.

    Args:
        race: how it went.
        task: for the labels of the validation rows.
        budget: margin and goal.
        depth: of the whole encoder.
        seed: of the bootstrap.
    """
    assert task.validation is not None  # noqa: S101 (a race needs one, and says so)
    rows, metric, final = task.validation, task.metrics[0], race.final
    best = final[0]
    against = {
        entry.spec.id: compare(
            rows.labels,
            entry.result.predictions["validation"],
            best.result.predictions["validation"],
            metric,
            groups=rows.groups,
            seed=seed,
        )
        for entry in final
    }
    margin = budget.margin_of(METRICS[metric].points)
    fine = [entry for entry in final if entry is best or against[entry.spec.id].is_non_inferior(margin)]
    price = _PRICES[budget.goal]
    chosen = best if budget.goal == "best" else min(fine, key=lambda entry: (price(entry), -entry.value))
    cheaper = [entry for entry in final if price(entry) < price(best)]
    return Decision(
        chosen=chosen.spec.id,
        best=best.spec.id,
        against_best=against,
        good_enough=tuple(entry.spec.id for entry in fine),
        why=tuple(_reasons(chosen, best, fine, cheaper, against, budget, METRICS[metric], len(rows), depth)),
    )


def _reasons(
    chosen: Entry,
    best: Entry,
    fine: list[Entry],
    cheaper: list[Entry],
    against: Mapping[str, Difference],
    budget: Budget,
    metric: TaskMetric,
    rows: int,
    depth: int,
) -> list[str]:
    plan, margin = chosen.proposal.plan, budget.margin_of(metric.points)
    within = _points(margin) if metric.points == 100 else f"{margin:g}"
    said = [f"{plan.name}: {plan.in_words(depth)}."]
    if plan.because:
        said.append(f"Proposed by {chosen.proposal.origins}: {plan.because}.")
    if budget.goal == "best":
        said.append(f"It is the best of {len(against)} plans on validation.")
    elif chosen is not best:
        gap = metric.describe_difference(against[chosen.spec.id])
        said.append(
            f"It is {GOALS[budget.goal]} of the {len(fine)} plans that are shown to be within {within} "
            f"of the best one, {best.proposal.plan.name}: {gap} on {rows:,} validation rows."
        )
    elif len(fine) == 1 and any(against[entry.spec.id].high >= -margin for entry in cheaper):
        said.append(
            f"It is the best on validation; {rows:,} rows are too few to show that any plan {_LESS[budget.goal]} is "
            f"within {within} of it, so it is taken. More validation rows, or a larger `margin`, may show one."
        )
    elif len(fine) == 1 and cheaper:
        said.append(
            f"It is the best on validation; every plan {_LESS[budget.goal]} is shown to be more than {within} worse."
        )
    else:
        said.append(f"It is the best on validation, and {GOALS[budget.goal]} of those that are good enough.")
    return said


def given_up(chosen: Entry, other: Entry, name: str, difference: str) -> str:
    """What choosing one plan and not another costs and saves, in a sentence; the difference in quality in words."""
    mine, theirs = chosen.proposal.cost, other.proposal.cost
    quality = f"{difference}; " if difference else ""
    return (
        f"against {name}, {other.proposal.plan.name}: {quality}tuning takes {_share(mine.price, theirs.price)} its "
        f"arithmetic and took {_seconds(chosen.seconds)} in place of {_seconds(other.seconds)}, {mine.trainable:,} "
        f"parameters train in place of {theirs.trainable:,}, a prediction takes {_share(mine.latency, theirs.latency)} "
        "its time"
    )


def _seconds(count: float) -> str:
    return f"{count:.0f} s" if count >= 10 else f"{count:.1f} s"


def _points(count: float) -> str:
    return "1 point" if count == 1 else f"{count:g} points"


def _share(mine: float, theirs: float) -> str:
    if theirs <= 0:
        return "100% of"
    return f"{100 * mine / theirs:.0f}% of" if mine <= 2 * theirs else f"{mine / theirs:.1f} times"
