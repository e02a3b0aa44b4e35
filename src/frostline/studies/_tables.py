"""What the tables of most studies share: groups of points, quality in points, which tasks tell anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from frostline.records.table import Cell, group_by
from frostline.stats.intervals import compare_means, summarise
from frostline.tasks.assemble import OPTIMISTIC
from frostline.tasks.metrics import METRICS

if TYPE_CHECKING:
    from frostline.studies import Ask, Measured
    from frostline.tasks import Split, Task

_FEW = 150  # rows; the smallest tests of GLUE and SuperGLUE have 56 to 104
DRAWS = 1000  # of a bootstrap over rows
Curve = Sequence[float | None]  # over layers 0..L


def group_points(points: Sequence[Measured], labels: Sequence[str]) -> dict[tuple[Any, ...], list[Measured]]:
    """The points by these labels, in the order in which they come; within a group by seed."""
    groups = group_by(points, lambda point: tuple(point[label] for label in labels))
    return {key: sorted(group, key=lambda point: int(point["seed"])) for key, group in groups.items()}


def judged_split(task: Task) -> tuple[str, Split]:
    """The rows that results are reported on: the test rows, or the validation rows where there are none."""
    if task.test is not None:
        return "test", task.test
    assert task.validation is not None  # noqa: S101 (studies refuse tasks without either)
    return "validation", task.validation


def metric_in_points(task: Task, metrics: Mapping[str, float]) -> float:
    """The deciding metric in points of a hundred, the higher the better."""
    metric = METRICS[task.metrics[0]]
    return metric.gain * metrics[metric.name]


def quality_in_points(point: Measured, task: Task) -> float:
    """The deciding metric on the test rows, in points of a hundred, the higher the better."""
    split, _ = judged_split(task)
    return metric_in_points(task, point.result.metrics[split])


def summary_columns(
    values: Sequence[float], *, name: str = "mean", ends: tuple[float, float] = (-inf, inf)
) -> dict[str, Cell]:
    """Mean over seeds under a name, standard deviation and t-interval, as columns of a table.

    Args:
        values: of the seeds.
        name: of the mean's column.
        ends: the least and the most that values can be; an interval goes no further.
    """
    found = summarise(values)
    low = None if found.low is None else max(ends[0], found.low)
    high = None if found.high is None else min(ends[1], found.high)
    return {name: found.mean, "deviation": found.deviation, "low": low, "high": high}


def quality_columns(values: Sequence[float], task: Task) -> dict[str, Cell]:
    """The same for quality in points, which has ends."""
    return summary_columns(values, ends=METRICS[task.metrics[0]].ends)


def mean_columns(
    column: str, values: Sequence[float | None], *, least: float = -inf, most: float = inf
) -> dict[str, Cell]:
    """The mean of what is defined and the ends of its t-interval, as columns named after the first.

    Args:
        column: name of the mean's column.
        values: to be averaged; None where undefined.
        least: that values can be; an interval goes no further.
        most: that values can be.
    """
    known = [value for value in values if value is not None]
    if not known:
        return {column: None, f"{column}_low": None, f"{column}_high": None}
    found = summarise(known)
    low = None if found.low is None else max(least, found.low)
    high = None if found.high is None else min(most, found.high)
    return {column: found.mean, f"{column}_low": low, f"{column}_high": high}


def mean_curve(curves: Sequence[Curve]) -> list[float | None]:
    """The mean at each layer over the curves that are defined there."""
    known = [[value for value in at_layer if value is not None] for at_layer in zip(*curves, strict=True)]
    return [sum(values) / len(values) if values else None for values in known]


def constant_quality(task: Task) -> float:
    """What the best constant answer gives on the test rows, in points."""
    _, rows = judged_split(task)
    metric = METRICS[task.metrics[0]]
    return metric.gain * metric(rows.labels, [best_constant(task)] * len(rows))


def constant_note(task: Task) -> str:
    """What can be had without a model, in a sentence."""
    return f"{task.name}: the best constant answer gives {constant_quality(task):.1f} points of {task.metrics[0]}"


def informative_note() -> str:
    """What the column of that name says."""
    return "informative: full tuning is shown to beat the best constant answer, over test rows"


def is_informative(task: Task, points: Sequence[Measured]) -> bool:
    """Whether full tuning is shown to beat the best constant answer, one-sided at 5%, over all seeds."""
    split, rows = judged_split(task)
    said = [point.result.predictions[split] for point in points if point.is_done and split in point.result.predictions]
    if not said:
        return False
    constant = [[best_constant(task)] * len(rows)] * len(said)
    gap = compare_means(rows.labels, said, constant, task.metrics[0], groups=rows.groups, draws=DRAWS, level=0.9)
    return gap.low > 0


def best_constant(task: Task) -> float:
    """The one answer that is best for all training rows, by the deciding metric; the most frequent of equals.

    With F1 the most frequent class can be the worst: where most answers are no, always saying yes is better.
    """
    labels = np.asarray(task.train.labels)
    if task.kind == "regression":
        return float(np.mean(labels))
    metric = METRICS[task.metrics[0]]
    return max(_by_frequency(task), key=lambda value: metric.gain * metric(labels, np.full(len(labels), value)))


def most_frequent(task: Task) -> float:
    """The class that most training rows have."""
    return _by_frequency(task)[0]


def _by_frequency(task: Task) -> list[float]:
    values, counts = np.unique(np.asarray(task.train.labels), return_counts=True)
    return [float(values[place]) for place in np.argsort(-counts, kind="stable")]


def notes_on_all(ask: Ask, points: Sequence[Measured]) -> list[str]:
    """What every table of a study has to say: optimistic tasks, those that tell little, and trials that failed."""
    said = [f"{task.name}: {OPTIMISTIC}" for task in ask.tasks if task.protocol == "paper"]
    for task in ask.tasks:
        split, rows = judged_split(task)
        if len(rows) < _FEW:
            said.append(f"{task.name}: only {len(rows)} {split} rows, too few to decide anything by themselves")
    said += _uninformative(ask, points)
    for name in dict.fromkeys(name for point in points for name in point.result.versions):
        known = sorted({point.result.versions[name] for point in points if name in point.result.versions})
        if len(known) > 1:
            said.append(
                f"trials were run with {name} {' and '.join(known)}: they may differ by more than was asked for"
            )
    for (encoder, task), group in group_points(points, ("encoder", "task")).items():
        ran = {point.spec.id: point.is_done for point in group}
        if failed := sum(not is_done for is_done in ran.values()):
            said.append(f"{encoder}, {task}: {failed} of {len(ran)} trials failed and are left out")
    return list(dict.fromkeys(said))


def _uninformative(ask: Ask, points: Sequence[Measured]) -> list[str]:
    """Tasks that full tuning does not solve: what is done to its layers cannot be seen there."""
    tasks = {task.name: task for task in ask.tasks}
    full = [
        point
        for point in points
        if point.spec.plan.embeddings and not point.spec.surgery and point.is_done and not point.is_candidate
    ]
    return [
        f"{encoder}, {name}: uninformative: full tuning is not shown to beat the best constant answer"
        for (encoder, name), group in group_points(full, ("encoder", "task")).items()
        if any(judged_split(tasks[name])[0] in point.result.predictions for point in group)
        and not is_informative(tasks[name], group)
    ]
