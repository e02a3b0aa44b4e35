"""Tables of Fisher's ranking of layers: from scores to ranks, and how far they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import summarise
from frostline.studies._tables import group_points, mean_columns

if TYPE_CHECKING:
    from frostline.studies import Ask, Measured

Numbers = np.ndarray[Any, np.dtype[np.float64]]

TUNING, ROWS = "full", "at the start"
_TOP = 3  # layers whose overlap is counted


# From scores to ranks ------------------------------------------------------------------------------------------------


def ranks_of(scores: Sequence[float]) -> Numbers:
    """The rank of each layer, 1 for the highest score; equal ones share the mean of their ranks."""
    from scipy.stats import rankdata

    return np.asarray(rankdata([-score for score in scores]), dtype=np.float64)


def concordance(ranks: Numbers) -> float | None:
    """Kendall's W of several rankings, (rankings, layers): 1 where all are the same; None for a single one."""
    judges, layers = ranks.shape
    if judges < 2 or layers < 2:
        return None
    spread = float(np.square(ranks.sum(0) - ranks.sum(0).mean()).sum())
    return 12 * spread / float(judges**2 * (layers**3 - layers))


def rank_correlation(one: Numbers, other: Numbers) -> float | None:
    """Kendall's tau of two rankings; None where it is undefined."""
    from scipy.stats import kendalltau

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(kendalltau(one, other).statistic)


def top_overlap(one: Numbers, other: Numbers) -> float:
    """The share of the three highest layers that two rankings have in common."""
    top = min(_TOP, len(one))
    both = set(np.argsort(one, kind="stable")[:top]) & set(np.argsort(other, kind="stable")[:top])
    return len(both) / top


def variance_shares(ranks: Numbers) -> dict[str, float | None]:
    """How the variance of ranks divides, (heads, draws, layers), added up over layers: head, rows, and the rest."""
    deviations = ranks - ranks.mean((0, 1))
    whole = float(np.square(deviations).sum())
    if whole == 0:
        return {"share_head": None, "share_rows": None, "share_rest": None}
    heads, draws, _ = ranks.shape
    by_head = draws * float(np.square(deviations.mean(1)).sum()) / whole
    by_rows = heads * float(np.square(deviations.mean(0)).sum()) / whole
    return {"share_head": by_head, "share_rows": by_rows, "share_rest": max(0.0, 1 - by_head - by_rows)}


# The tables ----------------------------------------------------------------------------------------------------------


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Ranks and how stable they are during fine-tuning, with other rows and heads, and between tasks."""
    done = [point for point in points if point.is_done]
    runs = group_points([point for point in done if point["arm"] == TUNING], ("encoder", "task"))
    starts = group_points(_starts_of(done), ("encoder", "task"))
    found = [
        table_of(
            "ranks",
            "Fisher's rank of every layer at epochs of full fine-tuning, 1 the highest",
            (row for key, group in runs.items() for row in _by_layer(key, group)),
            notes=["changed is the mean over runs of the absolute difference to the rank at the first epoch given"],
        ),
        table_of(
            "stability",
            "How far the ranking at an epoch is that of the first one",
            (row for key, group in runs.items() for row in _by_epoch(key, group)),
            notes=[
                "means over runs with 95% t-intervals; tau is Kendall's rank correlation with the first epoch given, "
                f"top_overlap the share of the {_TOP} highest layers that are the same",
                "w is Kendall's coefficient of concordance of all epochs up to this one",
            ],
        ),
        table_of(
            "rows",
            "How far the ranking at the start depends on rows and head",
            (row for key, group in starts.items() for row in _by_rows(key, group)),
            notes=[
                "tau is Kendall's rank correlation with the ranking by the mean score over draws of the most rows, "
                "with the same head; its interval is over heads, each the mean of its draws. That mean holds each draw "
                "of the most rows itself, and smaller draws are part of a larger one: of few draws tau is rather high",
                "shares are of the variance of ranks over heads and draws; where neither mattered, the head's share "
                "would be (heads - 1) / (heads x draws - 1) on average",
            ],
        ),
    ]
    between = [
        row for key, group in group_points(_starts_of(done), ("encoder",)).items() for row in _between(key[0], group)
    ]
    if between:
        found.append(
            table_of(
                "between",
                "Whether the ranking at the start tells one task from another",
                between,
                notes=[
                    "tau_between: Kendall's rank correlation of a draw of one task and a draw of the other, mean over "
                    "all; tau_within: of two draws of the same task, mean of both tasks; with the same head, intervals "
                    "over heads"
                ],
            )
        )
    return found


def _starts_of(points: Sequence[Measured]) -> list[Measured]:
    """The rankings before any training."""
    return [point for point in points if point["arm"] == ROWS]


def _by_epoch_ranks(point: Measured) -> dict[int, Numbers]:
    scores: Mapping[str, Sequence[float]] = point.result.values["scores"]
    return {epoch: ranks_of(scores[str(epoch)]) for epoch in sorted(map(int, scores))}


def _by_layer(key: tuple[str, str], points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    runs = [_by_epoch_ranks(point) for point in points]
    for epoch in sorted({epoch for run in runs for epoch in run}):
        mine = [run for run in runs if epoch in run]
        for layer in range(1, len(mine[0][epoch]) + 1):
            found = summarise([float(run[epoch][layer - 1]) for run in mine])
            changed = [abs(float(run[epoch][layer - 1] - run[min(run)][layer - 1])) for run in mine]
            yield {
                "encoder": key[0],
                "task": key[1],
                "epoch": epoch,
                "layer": layer,
                "seeds": found.count,
                "rank": found.mean,
                "low": found.low,
                "high": found.high,
                "changed": summarise(changed).mean,
            }


def _by_epoch(key: tuple[str, str], points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    runs = [_by_epoch_ranks(point) for point in points]
    for epoch in sorted({epoch for run in runs for epoch in run}):
        mine = [(run[epoch], run[min(run)], run) for run in runs if epoch in run]
        changes = [np.abs(now - first) for now, first, _ in mine]
        yield {
            "encoder": key[0],
            "task": key[1],
            "epoch": epoch,
            "seeds": len(mine),
            **mean_columns("changed", [float(change.mean()) for change in changes], least=0),
            "most_changed": max(float(change.max()) for change in changes),
            **mean_columns("tau", [rank_correlation(now, first) for now, first, _ in mine], least=-1, most=1),
            **mean_columns("top_overlap", [top_overlap(now, first) for now, first, _ in mine], least=0, most=1),
            **mean_columns("w", [concordance(_up_to(run, epoch)) for _, _, run in mine], least=0, most=1),
        }


def _up_to(run: Mapping[int, Numbers], last: int) -> Numbers:
    return np.stack([ranks for epoch, ranks in run.items() if epoch <= last])


def _by_rows(key: tuple[str, str], points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    by_size = {size: group for (size,), group in group_points(points, ("rows",)).items()}
    best: dict[int, Numbers] = {}
    for (head,), group in group_points(by_size[max(by_size)], ("head",)).items():
        best[head] = ranks_of(np.mean([point.result.values["scores"] for point in group], axis=0).tolist())
    for size, group in sorted(by_size.items()):
        heads = {head: mine for (head,), mine in group_points(group, ("head",)).items() if head in best}
        ranks = {head: [ranks_of(point.result.values["scores"]) for point in mine] for head, mine in heads.items()}
        taus = [_mean([rank_correlation(one, best[head]) for one in ranks[head]]) for head in ranks]
        tops = [_mean([top_overlap(one, best[head]) for one in ranks[head]]) for head in ranks]
        row: dict[str, Cell] = {"encoder": key[0], "task": key[1], "rows": size, "heads": len(ranks)}
        row |= {"draws": min(map(len, ranks.values()), default=0)}
        row |= mean_columns("tau", taus, least=-1, most=1) | mean_columns("top_overlap", tops, least=0, most=1)
        if len({len(mine) for mine in ranks.values()}) == 1:  # a trial that failed leaves nothing to divide evenly
            row |= variance_shares(np.array(list(ranks.values())))
        yield row


def _between(encoder: str, points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    """Two tasks at a time, for every number of rows that both have."""
    ranks: dict[tuple[str, int, int], list[Numbers]] = {}
    for point in points:
        key = (point["task"], point["rows"], point["head"])
        ranks.setdefault(key, []).append(ranks_of(point.result.values["scores"]))
    for one, other in combinations(dict.fromkeys(task for task, _, _ in ranks), 2):
        for size in sorted({size for task, size, _ in ranks if task == one}):
            heads = [head for task, rows, head in ranks if (task, rows) == (one, size) and (other, size, head) in ranks]
            if not heads:
                continue
            mine, theirs = ([ranks[task, size, head] for head in heads] for task in (one, other))
            across = [_mean([rank_correlation(a, b) for a in first for b in second])
                      for first, second in zip(mine, theirs, strict=True)]  # fmt: skip
            within = [_mean([_within(first), _within(second)]) for first, second in zip(mine, theirs, strict=True)]
            more = [None if a is None or b is None else a - b for a, b in zip(within, across, strict=True)]
            yield {
                "encoder": encoder, "task": one, "other": other, "rows": size, "heads": len(heads),
                **mean_columns("tau_between", across, least=-1, most=1),
                **mean_columns("tau_within", within, least=-1, most=1),
                **mean_columns("within_minus_between", more, least=-2, most=2),
            }  # fmt: skip


def _within(ranks: Sequence[Numbers]) -> float | None:
    """How alike draws of one task are; None of a single draw."""
    return _mean([rank_correlation(a, b) for a, b in combinations(ranks, 2)])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
