"""Tables of the Fisher ranking of layers: from scores to ranks, and their agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import summarise
from frostline.studies import Ask, Measured
from frostline.studies._tables import group_done, group_points, mean_columns, mean_of_known

Numbers = np.ndarray[Any, np.dtype[np.float64]]

TUNING, ROWS = "full", "at the start"
_TOP = 3  # number of highest layers whose overlap is counted


# From scores to ranks ------------------------------------------------------------------------------------------------


def ranks_of(scores: Sequence[float]) -> Numbers:
    """Return the rank of each layer, 1 for the highest score; equal scores share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata([-score for score in scores]), dtype=np.float64)


def concordance(ranks: Numbers) -> float | None:
    """Return Kendall's W of rankings (rankings, layers): 1 if all are the same; None for a single one."""
    judges, layers = ranks.shape
    if judges < 2 or layers < 2:
        return None
    spread = float(np.square(ranks.sum(0) - ranks.sum(0).mean()).sum())
    return 12 * spread / float(judges**2 * (layers**3 - layers))


def rank_correlation(one: Numbers, other: Numbers) -> float | None:
    """Return Kendall's tau of two rankings; None if undefined."""
    from scipy.stats import kendalltau

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(kendalltau(one, other).statistic)


def top_overlap(one: Numbers, other: Numbers) -> float:
    """Return the share of the three highest layers that two rankings have in common."""
    top = min(_TOP, len(one))
    both = set(np.argsort(one, kind="stable")[:top]) & set(np.argsort(other, kind="stable")[:top])
    return len(both) / top


def variance_shares(ranks: Numbers) -> dict[str, float | None]:
    """Return the shares of the variance of ranks (heads, draws, layers), summed over layers: head, rows, rest."""
    deviations = ranks - ranks.mean((0, 1))
    whole = float(np.square(deviations).sum())
    if whole == 0:
        return dict.fromkeys(("share_head", "share_rows", "share_rest"))
    heads, draws, _ = ranks.shape
    by_head = draws * float(np.square(deviations.mean(1)).sum()) / whole
    by_rows = heads * float(np.square(deviations.mean(0)).sum()) / whole
    return {"share_head": by_head, "share_rows": by_rows, "share_rest": max(0.0, 1 - by_head - by_rows)}


# The tables ----------------------------------------------------------------------------------------------------------


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return ranks and their stability during fine-tuning, with other rows and heads, and between tasks."""
    runs = group_done([point for point in points if point["arm"] == TUNING], ("encoder", "task"))
    at_start = [point for point in points if point["arm"] == ROWS]
    by_encoder = group_done(at_start, ("encoder",))
    between = table_of(
        "between",
        "Similarity of rankings before training, between and within tasks",
        (row for (encoder,), group in by_encoder.items() for row in _between_tasks(encoder, group)),
        notes=[
            "tau_between: Kendall's rank correlation of a draw of one task with a draw of the other, mean over all; "
            "tau_within: of two draws of the same task, mean of both tasks; with the same head, intervals over heads"
        ],
    )
    return [
        table_of(
            "ranks",
            "The Fisher rank of every layer during full fine-tuning, 1 the highest",
            (row for key, group in runs.items() for row in _by_layer(key, group)),
            notes=["changed: mean over runs of the absolute difference from the rank at the first epoch"],
        ),
        table_of(
            "stability",
            "Agreement of the ranking at an epoch with the first one",
            (row for key, group in runs.items() for row in _by_epoch(key, group)),
            notes=[
                "means over runs with 95% t-intervals; tau: Kendall's rank correlation with the first epoch; "
                f"top_overlap: share of the {_TOP} highest layers that are the same",
                "w: Kendall's coefficient of concordance of all epochs up to this one",
            ],
        ),
        table_of(
            "rows",
            "Dependence of the ranking before training on rows and head",
            (row for key, group in group_done(at_start, ("encoder", "task")).items() for row in _by_rows(key, group)),
            notes=[
                "tau: Kendall's rank correlation with the ranking by the mean score over draws of the most rows, with "
                "the same head; its interval is over heads, each the mean of its draws. That mean score includes each "
                "draw of the most rows, and smaller draws are part of larger ones, so tau is too high with few draws",
                "share_: shares of the variance of ranks over heads and draws; if neither mattered, the head's share "
                "would be (heads - 1) / (heads x draws - 1) on average",
            ],
        ),
        *([between] if between.rows else []),
    ]


def _by_epoch_ranks(point: Measured) -> dict[int, Numbers]:
    scores: Mapping[str, Sequence[float]] = point.result.values["scores"]
    return {epoch: ranks_of(scores[str(epoch)]) for epoch in sorted(map(int, scores))}


def _by_layer(key: tuple[str, str], points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    runs = [_by_epoch_ranks(point) for point in points]
    for epoch in sorted({epoch for run in runs for epoch in run}):
        ranked = [run for run in runs if epoch in run]
        for layer in range(1, len(ranked[0][epoch]) + 1):
            summary = summarise([float(run[epoch][layer - 1]) for run in ranked])
            changed = [abs(float(run[epoch][layer - 1] - run[min(run)][layer - 1])) for run in ranked]
            yield {
                "encoder": key[0],
                "task": key[1],
                "epoch": epoch,
                "layer": layer,
                "seeds": summary.count,
                "rank": summary.mean,
                "low": summary.low,
                "high": summary.high,
                "changed": summarise(changed).mean,
            }


def _by_epoch(key: tuple[str, str], points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    runs = [_by_epoch_ranks(point) for point in points]
    for epoch in sorted({epoch for run in runs for epoch in run}):
        ranked = [(run[epoch], run[min(run)]) for run in runs if epoch in run]
        changes = [np.abs(now - first) for now, first in ranked]
        histories = [[ranks for past, ranks in run.items() if past <= epoch] for run in runs if epoch in run]
        yield {
            "encoder": key[0],
            "task": key[1],
            "epoch": epoch,
            "seeds": len(ranked),
            **mean_columns("changed", [float(change.mean()) for change in changes], least=0),
            "most_changed": max(float(change.max()) for change in changes),
            **mean_columns("tau", [rank_correlation(now, first) for now, first in ranked], least=-1, most=1),
            **mean_columns("top_overlap", [top_overlap(now, first) for now, first in ranked], least=0, most=1),
            **mean_columns("w", [concordance(np.stack(so_far)) for so_far in histories], least=0, most=1),
        }


def _by_rows(key: tuple[str, str], points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    by_size = {size: group for (size,), group in group_points(points, ("rows",)).items()}
    best = {head: ranks_of(np.mean([point.result.values["scores"] for point in group], axis=0).tolist())
            for (head,), group in group_points(by_size[max(by_size)], ("head",)).items()}  # fmt: skip
    for size, group in sorted(by_size.items()):
        ranks = {head: [ranks_of(point.result.values["scores"]) for point in draws]
                 for (head,), draws in group_points(group, ("head",)).items() if head in best}  # fmt: skip
        taus = [mean_of_known([rank_correlation(draw, best[head]) for draw in ranks[head]]) for head in ranks]
        tops = [mean_of_known([top_overlap(draw, best[head]) for draw in ranks[head]]) for head in ranks]
        row: dict[str, Cell] = {"encoder": key[0], "task": key[1], "rows": size, "heads": len(ranks),
                                "draws": min(map(len, ranks.values()), default=0)}  # fmt: skip
        row |= mean_columns("tau", taus, least=-1, most=1) | mean_columns("top_overlap", tops, least=0, most=1)
        if len(set(map(len, ranks.values()))) == 1:  # after a failed trial, variance cannot be divided evenly
            row |= variance_shares(np.array(list(ranks.values())))
        yield row


def _between_tasks(encoder: str, points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    """Yield a row for every pair of tasks and every number of rows that both have."""
    ranks: dict[tuple[str, int, int], list[Numbers]] = {}
    for point in points:
        key = (point["task"], point["rows"], point["head"])
        ranks.setdefault(key, []).append(ranks_of(point.result.values["scores"]))
    for own, other in combinations(dict.fromkeys(task for task, _, _ in ranks), 2):
        for size in sorted({size for task, size, _ in ranks if task == own}):
            heads = [head for task, rows, head in ranks if (task, rows) == (own, size) and (other, size, head) in ranks]
            if not heads:
                continue
            draws = [(ranks[own, size, head], ranks[other, size, head]) for head in heads]
            across = [mean_of_known([rank_correlation(a, b) for a in first for b in second]) for first, second in draws]
            within = [mean_of_known([_mean_tau(first), _mean_tau(second)]) for first, second in draws]
            more = [None if a is None or b is None else a - b for a, b in zip(within, across, strict=True)]
            yield {
                "encoder": encoder, "task": own, "other": other, "rows": size, "heads": len(heads),
                **mean_columns("tau_between", across, least=-1, most=1),
                **mean_columns("tau_within", within, least=-1, most=1),
                **mean_columns("within_minus_between", more, least=-2, most=2),
            }  # fmt: skip


def _mean_tau(ranks: Sequence[Numbers]) -> float | None:
    """Return the mean rank correlation of two draws of one task; None for a single draw."""
    return mean_of_known([rank_correlation(a, b) for a, b in combinations(ranks, 2)])
