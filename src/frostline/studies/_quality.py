"""Quality of every arm of a study, and how it compares with full tuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from frostline.records.table import Cell, Table, table_of
from frostline.studies._comparisons import compare_arms, correct, non_inferior_note, pair_by_seed
from frostline.studies._tables import (
    constant_note,
    group_points,
    is_informative,
    judged_split,
    most_frequent,
    quality_columns,
    quality_in_points,
)
from frostline.tasks.metrics import METRICS

if TYPE_CHECKING:
    from frostline.studies import Ask, Measured
    from frostline.tasks import Task


_COLUMNS = (
    "low, high: 95% interval of the mean over seeds; seeds_, rows_: of the difference to full tuning; p: paired over "
    "seeds, p_holm: corrected for the arms; informative: full tuning is shown to beat a constant answer; "
    "majority_predicted: share of predictions that are the most frequent class"
)


def quality_table(
    ask: Ask,
    points: Sequence[Measured],
    *,
    name: str,
    title: str,
    labels: Sequence[str] = ("encoder", "task", "arm"),
    baseline: str = "full",
    case: Sequence[str] = ("encoder", "task"),
    more: Callable[[Sequence[Measured]], Mapping[str, Cell]] | None = None,
) -> Table:
    """Mean, deviation and interval of the metric for every arm, and how each compares with the baseline.

    Comparisons are paired by seed. Two intervals of the difference are given: over seeds by Student's t, and over test
    rows by a paired bootstrap, whichever seed; the p-values over seeds are corrected by Holm's method within a case.

    Args:
        ask: what was asked.
        points: measured.
        name: of the table.
        title: of the table.
        labels: what tells arms apart; encoder, task and arm among them.
        baseline: the arm that others are compared with.
        case: labels that an arm and its baseline have in common.
        more: further columns for the points of an arm that have not failed.
    """
    tasks = {task.name: task for task in ask.tasks}
    groups = group_points(points, labels)
    whole = group_points([one for one in points if one["arm"] == baseline], case)
    fine = {of: is_informative(tasks[mine[0]["task"]], mine) for of, mine in whole.items()}
    records: list[dict[str, Cell]] = []
    for key, group in groups.items():
        said = dict(zip(labels, key, strict=True))
        task = tasks[said["task"]]
        done = [point for point in group if point.is_done]
        record: dict[str, Cell] = {
            **said,
            "metric": task.metrics[0],
            "seeds": len(done),
            "failed": len(group) - len(done),
        }
        if done:
            record |= quality_columns([quality_in_points(point, task) for point in done], task)
            base = whole.get(tuple(said[label] for label in case), [])
            pairs = pair_by_seed(done, base) if said["arm"] != baseline else []
            record |= compare_arms(task, pairs, margin=ask.margin, name="minus_full")
            record |= _besides(task, done)
        record["informative"] = fine.get(tuple(said[label] for label in case))
        records.append(record | dict(more(done) if more and done else {}))
    correct(records, case)
    notes = [*(constant_note(task) for task in ask.tasks), non_inferior_note(ask.margin), _COLUMNS]
    return table_of(name, title, records, notes=notes, settings={"margin": ask.margin})


def _besides(task: Task, done: Sequence[Measured]) -> dict[str, Cell]:
    """The task's second metric, and how many of the predictions are the most frequent class: all is no model."""
    split, _ = judged_split(task)
    found: dict[str, Cell] = {}
    if task.kind != "regression":
        usual = most_frequent(task)
        shares = [sum(said == usual for said in told) / len(told)
                  for told in (point.result.predictions[split] for point in done)]  # fmt: skip
        found["majority_predicted"] = sum(shares) / len(shares)
    for second in task.metrics[1:2]:
        values = [METRICS[second].gain * point.result.metrics[split][second] for point in done]
        found |= {"second_metric": second, "second_mean": sum(values) / len(values)}
    return found
