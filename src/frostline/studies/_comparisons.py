"""Whether one arm of a study is better than another: over seeds and over test rows, paired, corrected for their number.

Never from a single seed: what two trained models differ by says nothing of what two ways to train differ by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frostline.records.difference import Difference
from frostline.records.table import Cell, Table, group_by, table_of
from frostline.stats.intervals import Summary, compare_means, differences, holm, paired_p, summarise
from frostline.studies._tables import DRAWS, group_points, is_informative, judged_split, quality_in_points

if TYPE_CHECKING:
    from frostline.studies import Ask, Measured
    from frostline.tasks import Task

Pairs = Sequence[tuple["Measured", "Measured"]]  # with the same seed

_ALL = "all"  # in the place of a task: the mean over all that are informative


def pair_by_seed(ones: Iterable[Measured], others: Iterable[Measured]) -> list[tuple[Measured, Measured]]:
    """The points of two arms by seed, where neither has failed."""
    by_seed = {point["seed"]: point for point in others if point.is_done}
    return [(point, by_seed[point["seed"]]) for point in ones if point.is_done and point["seed"] in by_seed]


def paired_gaps(task: Task, pairs: Pairs) -> list[float]:
    """By how many points the first of each pair is better."""
    return differences(*([quality_in_points(pair[side], task) for pair in pairs] for side in (0, 1)))


def compare_arms(task: Task, pairs: Pairs, *, margin: float, name: str) -> dict[str, Cell]:
    """The mean difference in points under a name, both intervals, and the p-value of the paired t-test over seeds.

    Args:
        task: that both arms were judged on.
        pairs: points with the same seed.
        margin: points that one is ready to give up.
        name: of the column with the difference.
    """
    if not pairs:
        return dict.fromkeys((name, "seeds_low", "seeds_high", "rows_low", "rows_high", "non_inferior", "p"))
    split, rows = judged_split(task)
    ones, others = ([pair[side].result.predictions[split] for pair in pairs] for side in (0, 1))
    gaps = summarise(paired_gaps(task, pairs))
    over_rows = compare_means(rows.labels, ones, others, task.metrics[0], groups=rows.groups, draws=DRAWS)
    return {
        name: gaps.mean,
        **interval_columns(gaps, over_rows, margin=margin),
        "p": paired_p(*([quality_in_points(pair[side], task) for pair in pairs] for side in (0, 1))),
    }


def interval_columns(gaps: Summary, over_rows: Difference, *, margin: float) -> dict[str, Cell]:
    """Over seeds and over rows, and whether both show that less than the margin is lost; undefined for one seed."""
    if gaps.low is None:
        return dict.fromkeys(("seeds_low", "seeds_high", "rows_low", "rows_high", "non_inferior"))
    return {
        "seeds_low": gaps.low,
        "seeds_high": gaps.high,
        "rows_low": over_rows.low,
        "rows_high": over_rows.high,
        "non_inferior": over_rows.is_non_inferior(margin) and gaps.low > -margin,
    }


def non_inferior_note(margin: float) -> str:
    """What the column of that name says."""
    return (
        f"non_inferior: both 95% intervals of the difference, over seeds by Student's t and over test rows by a paired "
        f"bootstrap, lie above -{margin:g} point{'' if margin == 1 else 's'}; where the difference is the same under "
        "all seeds, the first has no width and p is undefined"
    )


def correct(records: Sequence[dict[str, Cell]], case: Sequence[str]) -> None:
    """Correct the p-values of all comparisons of one case by Holm's method, in place.

    Those of which the test is undefined, equal differences for all seeds, count as well.
    """
    for mine in group_by(records, lambda record: tuple(record[label] for label in case)).values():
        tested = [record for record in mine if record.get("seeds_low") is not None]
        found = holm([p if isinstance(p := record["p"], float) else None for record in tested], count=len(tested))
        for record in mine:
            record["p_holm"] = None
        for record, value in zip(tested, found, strict=True):
            record["p_holm"] = value


def correct_known(records: Sequence[dict[str, Cell]], case: Sequence[str], *, column: str = "p") -> None:
    """Correct p-values that are known, whatever they are of, by Holm's method within a case, in place."""
    for mine in group_by(records, lambda record: tuple(record[label] for label in case)).values():
        known = [p if isinstance(p := record.get(column), float) and p == p else None for record in mine]
        for record, value in zip(mine, holm(known), strict=True):
            record[f"{column}_holm"] = value


def pairs_table(
    ask: Ask,
    points: Sequence[Measured],
    wanted: Sequence[tuple[str, str]],
    *,
    baseline: str = "full",
    case: Sequence[str] = ("encoder", "task"),
) -> list[Table]:
    """Arms against each other: one minus the other by task, and their mean over the tasks that are informative.

    No table where there are no two to compare: the best layers can be the last ones, and the trials the same.

    Args:
        ask: what was asked.
        points: measured.
        wanted: pairs of arms; those that there are not are left out.
        baseline: the arm that has to beat the best constant answer for a task to be informative.
        case: labels that both arms have in common, encoder and task among them.
    """
    tasks = {task.name: task for task in ask.tasks}
    arms = group_points(points, (*case, "arm"))
    fine = {key[:-1]: is_informative(tasks[mine[0]["task"]], mine) for key, mine in arms.items() if key[-1] == baseline}
    records: list[dict[str, Cell]] = []
    pooled: dict[tuple[Any, ...], list[dict[int, float]]] = {}
    for key in dict.fromkeys(key[:-1] for key in arms):
        said: Mapping[str, Any] = dict(zip(case, key, strict=True))
        task = tasks[said["task"]]
        for one, other in wanted:
            pairs = pair_by_seed(arms.get((*key, one), ()), arms.get((*key, other), ()))
            if not pairs or all(mine.spec.id == theirs.spec.id for mine, theirs in pairs):
                continue  # none, or the same trials under two names
            found = compare_arms(task, pairs, margin=ask.margin, name="difference")
            records.append({**said, "arm": one, "minus": other, "seeds": len(pairs), **found,
                            "informative": fine.get(key)})  # fmt: skip
            if fine.get(key):
                shared = tuple(value for label, value in said.items() if label != "task")
                by_seed = {int(pair[0]["seed"]): gap for pair, gap in zip(pairs, paired_gaps(task, pairs), strict=True)}
                pooled.setdefault((*shared, one, other), []).append(by_seed)
    rest = [label for label in case if label != "task"]
    for (*common, one, other), several in pooled.items():
        if len(several) > 1:
            said = {label: _ALL if label == "task" else common[rest.index(label)] for label in case}
            records.append({**said, "arm": one, "minus": other, **_over_tasks(several)})
    correct(records, case)
    notes = [
        "p_holm: corrected for the number of comparisons of one case; task 'all': of each seed the mean over the "
        "informative tasks, one gap a seed",
        non_inferior_note(ask.margin),
    ]
    return [table_of("pairs", "One arm minus another", records, notes=notes)] if records else []


def _over_tasks(several: Sequence[Mapping[int, float]]) -> dict[str, Cell]:
    """The mean over tasks, over the seeds that all have."""
    seeds = sorted(set.intersection(*(set(gaps) for gaps in several)))
    means = [sum(gaps[seed] for gaps in several) / len(several) for seed in seeds]
    if not means:
        return {"seeds": 0, "difference": None, "p": None}
    found = summarise(means)
    return {
        "seeds": found.count,
        "difference": found.mean,
        "seeds_low": found.low,
        "seeds_high": found.high,
        "p": paired_p(means, [0.0] * len(means)),
    }
