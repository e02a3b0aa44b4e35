"""Whether one arm of a study beats another: paired, over seeds and over test rows, corrected for their number.

Never from a single seed: how two trained models differ says nothing about how two ways to train differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frostline.records.difference import Difference
from frostline.records.table import Cell, Table, group_by, table_of
from frostline.stats.intervals import Summary, differences, holm, paired_p, summarise
from frostline.studies import Ask, Measured
from frostline.studies._tables import compare_over_rows, group_points, is_informative, judged_split, quality_in_points
from frostline.tasks import Task

Pairs = Sequence[tuple[Measured, Measured]]  # with the same seed

_ALL = "all"  # instead of a task: the mean over all informative ones
_INTERVALS = ("seeds_low", "seeds_high", "rows_low", "rows_high", "non_inferior")


def pair_by_seed(ones: Iterable[Measured], others: Iterable[Measured]) -> list[tuple[Measured, Measured]]:
    """Return the points of two arms paired by seed, without failed trials."""
    by_seed = {point["seed"]: point for point in others if point.is_done}
    return [(point, by_seed[point["seed"]]) for point in ones if point.is_done and point["seed"] in by_seed]


def paired_quality(task: Task, pairs: Pairs) -> tuple[list[float], list[float]]:
    """Return the quality of the first and of the second point of each pair."""
    return [quality_in_points(one, task) for one, _ in pairs], [quality_in_points(other, task) for _, other in pairs]


def paired_gaps(task: Task, pairs: Pairs) -> list[float]:
    """Return how many points better the first of each pair is."""
    return differences(*paired_quality(task, pairs))


def average_by_seed(by_task: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the mean over tasks for each seed that all tasks have."""
    seeds = sorted(set.intersection(*map(set, by_task))) if by_task else []
    return {seed: sum(values[seed] for values in by_task) / len(by_task) for seed in seeds}


def compare_arms(task: Task, pairs: Pairs, *, margin: float, name: str) -> dict[str, Cell]:
    """Return the mean difference in points, both intervals, and the p-value of the paired t-test over seeds.

    Args:
        task: the task of both arms.
        pairs: points with the same seed.
        margin: acceptable loss, in points.
        name: column of the difference.
    """
    if not pairs:
        return dict.fromkeys((name, *_INTERVALS, "p"))
    split, _ = judged_split(task)
    ones, others = ([pair[side].result.predictions[split] for pair in pairs] for side in (0, 1))
    gaps = summarise(paired_gaps(task, pairs))
    intervals = interval_columns(gaps, compare_over_rows(task, ones, others), margin=margin)
    return {name: gaps.mean, **intervals, "p": paired_p(*paired_quality(task, pairs))}


def interval_columns(gaps: Summary, over_rows: Difference, *, margin: float) -> dict[str, Cell]:
    """Return the intervals over seeds and rows, and whether both exclude a loss of the margin; None with one seed."""
    if gaps.low is None:
        return dict.fromkeys(_INTERVALS)
    non_inferior = over_rows.is_non_inferior(margin) and gaps.low > -margin
    return dict(zip(_INTERVALS, (gaps.low, gaps.high, over_rows.low, over_rows.high, non_inferior), strict=True))


def non_inferior_note(margin: float) -> str:
    """Return the note on the column `non_inferior`."""
    return (
        f"non_inferior: both 95% intervals of the difference, over seeds by Student's t and over test rows by a paired "
        f"bootstrap, lie above -{margin:g} point{'' if margin == 1 else 's'}; if the difference is the same under all "
        "seeds, the first interval has no width and p is undefined"
    )


def add_holm(
    records: Sequence[Mapping[str, Cell]], case: Sequence[str], *, column: str = "p", counts_undefined: bool = False
) -> list[dict[str, Cell]]:
    """Return the records with p-values corrected by Holm's method within each case, as `{column}_holm`.

    Args:
        records: rows of a table.
        case: columns that define a case.
        column: column of the p-values.
        counts_undefined: whether to count comparisons over seeds without a test because all seeds differ alike.
    """
    cases = [tuple(record[label] for label in case) for record in records]
    values = [p if isinstance(p := record.get(column), float) and p == p else None for record in records]
    corrected: dict[int, float | None] = {}
    for members in group_by(range(len(records)), cases.__getitem__).values():
        tested = sum(records[index].get("seeds_low") is not None for index in members)
        of_case = holm([values[index] for index in members], count=tested if counts_undefined else None)
        corrected |= dict(zip(members, of_case, strict=True))
    return [{**record, f"{column}_holm": corrected[index]} for index, record in enumerate(records)]


def pairs_table(
    ask: Ask,
    points: Sequence[Measured],
    compared: Sequence[tuple[str, str]],
    *,
    baseline: str = "full",
    case: Sequence[str] = ("encoder", "task"),
) -> list[Table]:
    """Return a table of one arm minus another by task, and of their mean over the informative tasks.

    The list is empty if no two arms differ: the best layers can be the last ones, and the trials the same.

    Args:
        ask: the study's request.
        points: measured points.
        compared: pairs of arms; missing ones are left out.
        baseline: the arm that decides whether a task is informative.
        case: labels that both arms share, encoder and task among them.
    """
    arms = group_points(points, (*case, "arm"))
    learned = {key[:-1]: is_informative(ask.task(group[0]["task"]), group)
               for key, group in arms.items() if key[-1] == baseline}  # fmt: skip
    records: list[dict[str, Cell]] = []
    pooled: dict[tuple[Any, ...], list[dict[int, float]]] = {}
    for key in dict.fromkeys(key[:-1] for key in arms):
        labels: Mapping[str, Any] = dict(zip(case, key, strict=True))
        task = ask.task(labels["task"])
        for first, second in compared:
            pairs = pair_by_seed(arms.get((*key, first), ()), arms.get((*key, second), ()))
            if all(one.spec.id == other.spec.id for one, other in pairs):
                continue  # no pairs, or the same trials under two names
            records.append({**labels, "arm": first, "minus": second, "seeds": len(pairs),
                            **compare_arms(task, pairs, margin=ask.margin, name="difference"),
                            "informative": learned.get(key)})  # fmt: skip
            if learned.get(key):
                shared = tuple(_ALL if label == "task" else value for label, value in labels.items())
                seeds = [int(point["seed"]) for point, _ in pairs]
                by_seed = dict(zip(seeds, paired_gaps(task, pairs), strict=True))
                pooled.setdefault((shared, first, second), []).append(by_seed)
    for (shared, first, second), by_task in pooled.items():
        if len(by_task) > 1:
            labels = dict(zip(case, shared, strict=True))
            records.append({**labels, "arm": first, "minus": second, **_summarise_tasks(by_task)})
    notes = [
        "p_holm: corrected for the number of comparisons of one case; task 'all': the mean over the informative tasks, "
        "one difference for each seed",
        non_inferior_note(ask.margin),
    ]
    rows = add_holm(records, case, counts_undefined=True)
    return [table_of("pairs", "One arm minus another", rows, notes=notes)] if rows else []


def _summarise_tasks(by_task: Sequence[Mapping[int, float]]) -> dict[str, Cell]:
    means = list(average_by_seed(by_task).values())
    if not means:
        return {"seeds": 0, "difference": None, "p": None}
    summary = summarise(means)
    return {
        "seeds": summary.count,
        "difference": summary.mean,
        "seeds_low": summary.low,
        "seeds_high": summary.high,
        "p": paired_p(means, [0.0] * len(means)),
    }
