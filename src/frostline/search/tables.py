"""The tables of a run, for the command line, the report and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frostline.records.cost import Cost
from frostline.records.proposal import Proposal
from frostline.records.run import Decision, RaceEntry, RunRecord
from frostline.records.table import Cell, Table, table_of
from frostline.tasks.metrics import METRICS, TaskMetric

CHOSEN = "▶"  # marks the choice


def race_table(
    entries: Sequence[RaceEntry], proposals: Sequence[Proposal], metric: TaskMetric, *, decision: Decision | None = None
) -> Table:
    """Return the table of one round of a race.

    Args:
        entries: plans of the round, best first.
        proposals: all plans, with their costs.
        metric: the metric that decides.
        decision: in the last round, the choice and each plan's difference to the best.
    """
    costs = {str(proposal.plan.identity()): proposal.cost for proposal in proposals}
    rows: list[dict[str, Cell]] = []
    for entry in entries:
        row: dict[str, Cell] = {} if decision is None else {"": CHOSEN if entry.trial == decision.chosen else ""}
        row |= {"plan": entry.plan.name, _column(metric): metric.shown(entry.validation[metric.name])}
        if decision is not None:
            row[metric.gap("difference to best (95%)")] = str(decision.against_best.get(entry.trial, ""))
        row |= _cost_cells(costs.get(str(entry.plan.identity())))
        row |= {"seconds": f"{entry.seconds:.1f}", **_training_cells(entry), "from": entry.origins}
        rows.append(row)
    return table_of("race", "", rows, notes=_order(entries, metric))


def round_tables(run: RunRecord) -> list[Table]:
    """Return the tables of all rounds, last round first."""
    metric, tables = METRICS[run.task.metric], []
    for number, entries in reversed(list(enumerate(run.race, 1))):
        decision = run.decision if number == len(run.race) else None
        table = race_table(entries, run.proposals, metric, decision=decision)
        tables.append(replace(table, title=f"Round {number}: {entries[0].train_rows:,} training rows"))
    return tables


def tests_table(run: RunRecord) -> Table:
    """Return the table of the choice and the baselines on the test rows."""
    metric, rows = METRICS[run.task.metric], []
    for test in run.tests:
        plan = run.entry(test.trial).plan
        gap = str(test.choice_minus_it or ("" if test is run.tests[0] else "the same plan"))
        rows.append(
            {
                "model": test.name,
                "plan": plan.name,
                _column(metric): metric.shown(test.metrics[metric.name]),
                "95% interval": f"{metric.shown(test.low)} to {metric.shown(test.high)}",
                metric.gap("choice minus it"): gap,
                **_cost_cells(run.cost(plan)),
            }
        )
    return table_of("tests", "", rows)


def _training_cells(entry: RaceEntry) -> dict[str, Cell]:
    """Return how long and how fast a plan was trained."""
    if entry.steps is None and not entry.learning_rate:
        return {"steps": "solved", "learning rate": ""}
    epochs = f"{entry.epochs} epoch{'' if entry.epochs == 1 else 's'}"  # the first files counted epochs alone
    steps = epochs if entry.steps is None else f"{entry.steps:,}"
    return {
        "steps": steps if entry.soup is None else f"{len(entry.soup)} x {steps}",
        "learning rate": f"{entry.learning_rate:g}",
    }


def _order(entries: Sequence[RaceEntry], metric: TaskMetric) -> tuple[str, ...]:
    """Return why a plan is above another one with a better score, if any is."""
    values = [metric.gain * entry.validation[metric.name] for entry in entries]
    if values == sorted(values, reverse=True):
        return ()
    return ("a plan above one with a better score is expected to be better on other rows, from how plans usually do",)


def _column(metric: TaskMetric) -> str:
    return f"{metric.name}, points" if metric.points == 100 else metric.name


def _cost_cells(cost: Cost | None) -> dict[str, Cell]:
    if cost is None:
        return {"trainable": None, "latency": None}
    return {"trainable": cost.trainable, "latency": f"{100 * cost.latency:.0f}%"}
