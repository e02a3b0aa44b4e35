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
        row |= {
            "seconds": f"{entry.seconds:.1f}",
            "learning rate": f"{entry.learning_rate:g}",
            "from": entry.origins,
            "because": entry.plan.because,
        }
        rows.append(row)
    return table_of("race", "", rows)


def round_tables(run: RunRecord) -> list[Table]:
    """Return the tables of all rounds, last round first."""
    metric, tables = METRICS[run.task.metric], []
    for number, entries in reversed(list(enumerate(run.race, 1))):
        decision = run.decision if number == len(run.race) else None
        table = race_table(entries, run.proposals, metric, decision=decision)
        epochs = min(entry.epochs for entry in entries)  # a head alone has more
        passes = f"{epochs} epoch{'' if epochs == 1 else 's'}"
        tables.append(replace(table, title=f"Round {number}: {entries[0].train_rows:,} training rows, {passes}"))
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


def _column(metric: TaskMetric) -> str:
    return f"{metric.name}, points" if metric.points == 100 else metric.name


def _cost_cells(cost: Cost | None) -> dict[str, Cell]:
    if cost is None:
        return {"trainable": None, "latency": None}
    return {"trainable": cost.trainable, "latency": f"{100 * cost.latency:.0f}%"}
