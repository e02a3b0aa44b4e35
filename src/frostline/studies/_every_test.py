"""Tasks with several test splits, such as MNLI with both dev sets: trained once, a row of the tables for each split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frostline.records import TrialResult
from frostline.records.table import Cell
from frostline.studies import Ask, Measured
from frostline.tasks import Task


def for_every_test(ask: Ask, points: Sequence[Measured]) -> tuple[Ask, list[Measured]]:
    """Return the request and the points as if every further test split were the test split of a task of its own.

    The points of a task with several test splits get the label `split`. Other tasks and their points stay as they are.
    """
    views = {task.name: _views(task) for task in ask.tasks}
    judged = [
        replace(point, labels={**point.labels, "task": task.name, "split": split}, result=_of(point.result, split))
        if split
        else point
        for point in points
        for split, task in views[point["task"]].items()
    ]
    return replace(ask, tasks=tuple(task for of_one in views.values() for task in of_one.values())), judged


def split_column(points: Sequence[Measured]) -> Mapping[str, Cell]:
    """Return the name of the points' split as a column, if their task has several test splits."""
    return {"split": points[0]["split"]} if points and "split" in points[0].labels else {}


def _views(task: Task) -> dict[str, Task]:
    """Return a task for each test split by the split's name; the task itself under no name if it has one."""
    if not task.more_tests:
        return {"": task}
    one = replace(task, more_tests={})
    more = {name: replace(one, name=f"{task.name} {name}", test=rows) for name, rows in task.more_tests.items()}
    return {"test": one, **more}


def _of(result: TrialResult, split: str) -> TrialResult:
    """Return the result with the metrics and predictions of a split as those of the test rows."""
    metrics, predictions = dict(result.metrics), dict(result.predictions)
    if split in metrics:  # a failed trial has none
        metrics["test"], predictions["test"] = metrics[split], predictions[split]
    return replace(result, metrics=metrics, predictions=predictions)
