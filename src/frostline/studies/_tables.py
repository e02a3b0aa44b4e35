"""What the tables of most studies share: groups of points, quality in points, informative tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Literal

import numpy as np

from frostline.records.difference import Difference
from frostline.records.table import Cell, group_by
from frostline.stats.intervals import compare_means, summarise
from frostline.studies import Ask, Measured
from frostline.studies._choices import note_on_protocol
from frostline.tasks import Split, Task
from frostline.tasks.metrics import METRICS

INFORMATIVE = "informative: full tuning is shown to beat the best constant answer, over test rows"
_FEW = 150  # rows; the smallest tests of GLUE and SuperGLUE have 56 to 104
DRAWS = 1000  # draws of a bootstrap over rows
Curve = Sequence[float | None]  # over layers 0..L


def group_points(points: Sequence[Measured], labels: Sequence[str]) -> dict[tuple[Any, ...], list[Measured]]:
    """Return the points grouped by these labels, in order of first appearance, each group sorted by seed."""
    groups = group_by(points, lambda point: tuple(point[label] for label in labels))
    return {key: sorted(group, key=lambda point: int(point["seed"])) for key, group in groups.items()}


def group_done(points: Sequence[Measured], labels: Sequence[str]) -> dict[tuple[Any, ...], list[Measured]]:
    """Return the points whose trials succeeded, grouped by these labels."""
    return group_points([point for point in points if point.is_done], labels)


def judged_split(task: Task) -> tuple[Literal["test", "validation"], Split]:
    """Return the split that results are reported on: the test rows, or the validation rows if there are none."""
    if task.test is not None:
        return "test", task.test
    assert task.validation is not None  # noqa: S101 (studies refuse tasks without either)
    return "validation", task.validation


def metric_in_points(task: Task, metrics: Mapping[str, float]) -> float:
    """Return the task's first metric in points of a hundred, higher is better."""
    metric = METRICS[task.metrics[0]]
    return metric.gain * metrics[metric.name]


def quality_in_points(point: Measured, task: Task) -> float:
    """Return the task's first metric on the reported rows, in points of a hundred, higher is better."""
    return metric_in_points(task, point.result.metrics[judged_split(task)[0]])


def compare_over_rows(
    task: Task, ones: Sequence[Sequence[float]], others: Sequence[Sequence[float]], *, level: float = 0.95
) -> Difference:
    """Return the mean difference of two lists of predictions, with its paired bootstrap interval over rows."""
    _, rows = judged_split(task)
    return compare_means(rows.labels, ones, others, task.metrics[0], groups=rows.groups, draws=DRAWS, level=level)


def summary_columns(
    values: Sequence[float], *, name: str = "mean", ends: tuple[float, float] = (-inf, inf)
) -> dict[str, Cell]:
    """Return the mean over seeds, standard deviation and t-interval as columns of a table.

    Args:
        values: one value for each seed.
        name: column of the mean.
        ends: the lowest and highest possible value, which clip the interval.
    """
    summary = summarise(values)
    low = None if summary.low is None else max(ends[0], summary.low)
    high = None if summary.high is None else min(ends[1], summary.high)
    return {name: summary.mean, "deviation": summary.deviation, "low": low, "high": high}


def quality_columns(values: Sequence[float], task: Task) -> dict[str, Cell]:
    """Return the same columns for quality in points, clipped to the metric's range."""
    return summary_columns(values, ends=METRICS[task.metrics[0]].ends)


def mean_columns(
    column: str, values: Sequence[float | None], *, least: float = -inf, most: float = inf
) -> dict[str, Cell]:
    """Return the mean of the defined values and its t-interval, as columns named after the first.

    Args:
        column: column of the mean.
        values: the values, None where undefined.
        least: the lowest possible value.
        most: the highest possible value.
    """
    defined = [value for value in values if value is not None]
    if not defined:
        return dict.fromkeys((column, f"{column}_low", f"{column}_high"))
    summary = summary_columns(defined, ends=(least, most))
    return {column: summary["mean"], f"{column}_low": summary["low"], f"{column}_high": summary["high"]}


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the defined values; None if there are none."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def mean_curve(curves: Sequence[Curve]) -> list[float | None]:
    """Return the mean at each layer over the curves that are defined there."""
    return [mean_of_known(at_layer) for at_layer in zip(*curves, strict=True)]


def best_layer(curve: Curve, *, better: str) -> int | None:
    """Return the best of layers 1..L, the lowest among equals; None if no value is defined."""
    sign = 1 if better == "low" else -1
    ranked = [(sign * value, layer) for layer, value in enumerate(curve) if layer and value is not None]
    return min(ranked)[1] if ranked else None


def constant_quality(task: Task) -> float:
    """Return the quality of the best constant answer on the reported rows, in points."""
    _, rows = judged_split(task)
    metric = METRICS[task.metrics[0]]
    return metric.gain * metric(rows.labels, [best_constant(task)] * len(rows))


def constant_note(task: Task) -> str:
    """Return a note on the quality of the best constant answer."""
    return f"{task.name}: the best constant answer has {constant_quality(task):.1f} points of {task.metrics[0]}"


def is_informative(task: Task, points: Sequence[Measured]) -> bool:
    """Whether full tuning is shown to beat the best constant answer, one-sided at 5%, over all seeds."""
    split, rows = judged_split(task)
    answers = [point.result.predictions[split] for point in points
               if point.is_done and split in point.result.predictions]  # fmt: skip
    constant = [[best_constant(task)] * len(rows)] * len(answers)
    return bool(answers) and compare_over_rows(task, answers, constant, level=0.9).low > 0


def best_constant(task: Task) -> float:
    """Return the constant answer with the best metric on the training rows; the most frequent class among equals.

    With F1 the most frequent class can be the worst: where most answers are no, always answering yes is better.
    """
    labels = np.asarray(task.train.labels)
    if task.kind == "regression":
        return float(np.mean(labels))
    metric = METRICS[task.metrics[0]]
    return max(classes_by_frequency(task), key=lambda value: metric.gain * metric(labels, np.full(len(labels), value)))


def classes_by_frequency(task: Task) -> list[float]:
    """Return the classes of the training rows, the most frequent first."""
    values, counts = np.unique(np.asarray(task.train.labels), return_counts=True)
    return [float(values[index]) for index in np.argsort(-counts, kind="stable")]


def notes_on_all(ask: Ask, points: Sequence[Measured]) -> list[str]:
    """Return the notes of every table: what is optimistic, tasks that show little, mixed versions, failed trials."""
    notes = [note_on_protocol(task.name, points) for task in ask.tasks if task.protocol == "paper"]
    for task in ask.tasks:
        split, rows = judged_split(task)
        if len(rows) < _FEW:
            notes.append(f"{task.name}: only {len(rows)} {split} rows, too few to decide anything by themselves")
    # Where full tuning does not solve a task, the effect of a layer cannot be seen.
    full = [point for point in points
            if point.spec.plan.embeddings and not point.spec.surgery and not point.is_candidate]  # fmt: skip
    for (encoder, name), group in group_done(full, ("encoder", "task")).items():
        task = ask.task(name)
        has_predictions = any(judged_split(task)[0] in point.result.predictions for point in group)
        if has_predictions and not is_informative(task, group):
            notes.append(f"{encoder}, {name}: uninformative: full tuning is not shown to beat the best constant answer")
    for name in dict.fromkeys(name for point in points for name in point.result.versions):
        versions = sorted({point.result.versions[name] for point in points if name in point.result.versions})
        if len(versions) > 1:
            notes.append(f"trials ran with {name} {' and '.join(versions)}, which may add differences of its own")
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        is_done = {point.spec.id: point.is_done for point in group}
        if failed := sum(not done for done in is_done.values()):
            notes.append(f"{encoder}, {name}: {failed} of {len(is_done)} trials failed and are left out")
    return list(dict.fromkeys(notes))
