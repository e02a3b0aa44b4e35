"""The table of every arm's quality, and how it compares with full tuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from frostline.records.table import Cell, Table, table_of
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import add_holm, compare_arms, non_inferior_note, pair_by_seed
from frostline.studies._tables import (
    classes_by_frequency,
    constant_note,
    group_points,
    is_informative,
    judged_split,
    quality_columns,
    quality_in_points,
)
from frostline.tasks import Task
from frostline.tasks.metrics import METRICS

_COLUMNS = (
    "low, high: 95% interval of the mean over seeds; seeds_ and rows_: intervals of the difference from full tuning; "
    "p: paired test over seeds; p_holm: corrected for the arms; informative: full tuning is shown to beat a constant "
    "answer; majority_predicted: share of predictions that are the most frequent class"
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
    """Return mean, deviation and interval of the metric for every arm, and its difference from the baseline.

    Comparisons are paired by seed. The difference has two intervals: over seeds by Student's t, and over test rows by a
    paired bootstrap over all seeds; p-values over seeds are corrected by Holm's method within a case.

    Args:
        ask: the study's request.
        points: measured points.
        name: name of the table.
        title: title of the table.
        labels: columns that identify an arm, encoder, task and arm among them.
        baseline: the arm that others are compared with.
        case: labels that an arm and its baseline share.
        more: further columns from the successful points of an arm.
    """
    baselines = group_points([point for point in points if point["arm"] == baseline], case)
    learned = {key: is_informative(ask.task(group[0]["task"]), group) for key, group in baselines.items()}
    records: list[dict[str, Cell]] = []
    for key, group in group_points(points, labels).items():
        row = dict(zip(labels, key, strict=True))
        task, own_case = ask.task(row["task"]), tuple(row[label] for label in case)
        done = [point for point in group if point.is_done]
        record: dict[str, Cell] = {**row, "metric": task.metrics[0], "seeds": len(done),
                                   "failed": len(group) - len(done)}  # fmt: skip
        if done:
            record |= quality_columns([quality_in_points(point, task) for point in done], task)
            pairs = pair_by_seed(done, baselines.get(own_case, [])) if row["arm"] != baseline else []
            record |= compare_arms(task, pairs, margin=ask.margin, name="minus_full") | _further_columns(task, done)
        record["informative"] = learned.get(own_case)
        records.append(record | dict(more(done) if more and done else {}))
    return table_of(
        name,
        title,
        add_holm(records, case, counts_undefined=True),
        notes=[*(constant_note(task) for task in ask.tasks), non_inferior_note(ask.margin), _COLUMNS],
        settings={"margin": ask.margin},
    )


def _further_columns(task: Task, done: Sequence[Measured]) -> dict[str, Cell]:
    """Return the share of predictions that are the most frequent class, and the task's second metric."""
    split, _ = judged_split(task)
    columns: dict[str, Cell] = {}
    if task.kind != "regression":
        usual = classes_by_frequency(task)[0]
        answers = [point.result.predictions[split] for point in done]
        columns["majority_predicted"] = sum(row.count(usual) / len(row) for row in answers) / len(answers)
    if len(task.metrics) > 1:
        second = task.metrics[1]
        values = [METRICS[second].gain * point.result.metrics[split][second] for point in done]
        columns |= {"second_metric": second, "second_mean": sum(values) / len(values)}
    return columns
