"""What the tables of most studies share: groups of points, quality in points, comparisons with full tuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from frostline.runner.statistics import Difference, compare_means, holm, paired_p, summarise
from frostline.table import Cell, Table, table_of
from frostline.tasks.metrics import METRICS

if TYPE_CHECKING:
    from frostline.studies import Ask, Measured
    from frostline.tasks import Split, Task

_DRAWS = 1000


def grouped(points: Sequence[Measured], labels: Sequence[str]) -> dict[tuple[Any, ...], list[Measured]]:
    """The points by these labels, in the order in which they come; within a group by seed."""
    found: dict[tuple[Any, ...], list[Measured]] = {}
    for point in points:
        found.setdefault(tuple(point[label] for label in labels), []).append(point)
    return {key: sorted(group, key=lambda point: int(point["seed"])) for key, group in found.items()}


def judged_split(task: Task) -> tuple[str, Split]:
    """The rows that results are reported on: the test rows, or the validation rows where there are none."""
    if task.test is not None:
        return "test", task.test
    assert task.validation is not None  # noqa: S101 (studies refuse tasks without either)
    return "validation", task.validation


def in_points(task: Task, metrics: Mapping[str, float]) -> float:
    """The deciding metric in points of a hundred, the higher the better."""
    metric = METRICS[task.metrics[0]]
    return metric.gain * metrics[metric.name]


def quality(point: Measured, task: Task) -> float:
    """The deciding metric on the test rows, in points of a hundred, the higher the better."""
    split, _ = judged_split(task)
    return in_points(task, point.result.metrics[split])


def spread(values: Sequence[float], *, name: str = "mean") -> dict[str, Cell]:
    """Mean over seeds under a name, standard deviation and t-interval, as columns of a table."""
    found = summarise(values)
    return {name: found.mean, "deviation": found.deviation, "low": found.low, "high": found.high}


def mean_with_ends(column: str, values: Sequence[float | None]) -> dict[str, Cell]:
    """The mean of what is defined and the ends of its t-interval, as columns named after the first."""
    known = [value for value in values if value is not None]
    if not known:
        return {column: None, f"{column}_low": None, f"{column}_high": None}
    found = summarise(known)
    return {column: found.mean, f"{column}_low": found.low, f"{column}_high": found.high}


def majority(task: Task) -> float:
    """What always saying the most frequent answer of the training rows gives on the test rows, in points."""
    _, rows = judged_split(task)
    metric = METRICS[task.metrics[0]]
    return metric.gain * metric(rows.labels, _constant(task, len(rows)))


def is_informative(task: Task, points: Sequence[Measured]) -> bool:
    """Whether full tuning is shown to beat always saying the most frequent answer, one-sided at 5%, over all seeds."""
    split, rows = judged_split(task)
    said = [point.result.predictions[split] for point in points if point.is_done]
    if not said:
        return False
    constant = [_constant(task, len(rows))] * len(said)
    gap = compare_means(rows.labels, said, constant, task.metrics[0], groups=rows.groups, draws=_DRAWS, level=0.9)
    return gap.low > 0


def _constant(task: Task, count: int) -> list[float]:
    if task.kind == "regression":
        return [float(np.mean(task.train.labels))] * count
    values, counts = np.unique(np.asarray(task.train.labels), return_counts=True)
    return [float(values[counts.argmax()])] * count


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
    groups = grouped(points, labels)
    whole = grouped([one for one in points if one["arm"] == baseline], case)
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
            record |= spread([quality(point, task) for point in done])
            base = whole.get(tuple(said[label] for label in case), [])
            others = [one for one in base if one.is_done and said["arm"] != baseline]
            record |= _against(task, done, others, margin=ask.margin)
        record["informative"] = fine.get(tuple(said[label] for label in case))
        records.append(record | dict(more(done) if more and done else {}))
    _correct(records, case)
    said_of = [f"{task.name}: always saying the most frequent answer gives {majority(task):.1f} points of "
               f"{task.metrics[0]}" for task in ask.tasks]  # fmt: skip
    return table_of(name, title, records, notes=[*said_of, non_inferior_note(ask.margin)])


def non_inferior_note(margin: float) -> str:
    """What the column of that name says."""
    return f"non_inferior: shown by the bootstrap over test rows to lose less than {margin:g} points, at 95%"


def _against(task: Task, done: Sequence[Measured], base: Sequence[Measured], *, margin: float) -> dict[str, Cell]:
    """The difference to the baseline in points, over the seeds that both have."""
    others = {point["seed"]: point for point in base}
    pairs = [(point, others[point["seed"]]) for point in done if point["seed"] in others]
    if not pairs:
        return dict.fromkeys(("minus_full", "seeds_low", "seeds_high", "rows_low", "rows_high", "non_inferior", "p"))
    ours, theirs = ([quality(pair[side], task) for pair in pairs] for side in (0, 1))
    gaps = summarise([one - other for one, other in zip(ours, theirs, strict=True)])
    over_rows = pooled_difference(task, pairs)
    return {
        "minus_full": gaps.mean,
        "seeds_low": gaps.low,
        "seeds_high": gaps.high,
        "rows_low": over_rows.low,
        "rows_high": over_rows.high,
        "non_inferior": over_rows.is_non_inferior(margin),
        "p": paired_p(ours, theirs),
    }


def pooled_difference(task: Task, pairs: Sequence[tuple[Measured, Measured]], *, level: float = 0.95) -> Difference:
    """The mean difference over seeds with a bootstrap over test rows, the same rows for all seeds."""
    split, rows = judged_split(task)
    ones, others = ([pair[side].result.predictions[split] for pair in pairs] for side in (0, 1))
    return compare_means(rows.labels, ones, others, task.metrics[0], groups=rows.groups, draws=_DRAWS, level=level)


def _correct(records: list[dict[str, Cell]], case: Sequence[str]) -> None:
    """Correct the p-values of all arms of one case for their number."""
    by_case: dict[tuple[Cell, ...], list[dict[str, Cell]]] = {}
    for record in records:
        by_case.setdefault(tuple(record[label] for label in case), []).append(record)
    for mine in by_case.values():
        values = [record.get("p") for record in mine]
        for record, value in zip(mine, holm([v if isinstance(v, float) else None for v in values]), strict=True):
            record["p_holm"] = value


def notes_on_all(ask: Ask, points: Sequence[Measured]) -> list[str]:
    """What every table of a study has to say: of which tasks it is optimistic, and how many trials failed."""
    said = [f"{task.name}: {note}" for task in ask.tasks for note in task.notes if "optimistic" in note]
    for (encoder, task), group in grouped(points, ("encoder", "task")).items():
        ran = {point.spec.id: point.is_done for point in group}
        if failed := sum(not is_done for is_done in ran.values()):
            said.append(f"{encoder}, {task}: {failed} of {len(ran)} trials failed and are left out")
    return list(dict.fromkeys(said))
