"""How sure a difference between two models is: a paired bootstrap over the rows that both were judged on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from frostline.tasks.metrics import METRICS

_DRAWS = 2000
Numbers = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference between two models in a metric, in points, positive where the first is better.

    Args:
        value: as it was found.
        low: lower end of the 95% interval.
        high: its upper end.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def compare(
    labels: Sequence[float],
    one: Sequence[float],
    other: Sequence[float],
    metric: str,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
) -> Difference:
    """How much better one model's predictions are than another's, in points of the metric.

    Rows are drawn with replacement, the same ones for both models; rows of one group are drawn together.

    Args:
        labels: of the rows.
        one: predictions of the first model.
        other: predictions of the second one.
        metric: a task metric.
        groups: rows that belong together; None: every row alone.
        seed: of the draws.
        draws: how many.
    """
    truth, first, second = (np.asarray(values) for values in (labels, one, other))
    judge = METRICS[metric]
    sign = 100 if judge.higher_is_better else -100
    value = sign * (judge(truth, first) - judge(truth, second))
    if np.array_equal(first, second):
        return Difference(value=0.0, low=0.0, high=0.0)
    source = np.random.default_rng(seed)
    if metric == "accuracy" and groups is None:
        gains = sign * ((first == truth).astype(np.int8) - (second == truth).astype(np.int8))
        drawn = np.array([gains[source.integers(0, len(truth), len(truth))].mean() for _ in range(draws)])
    else:
        drawn = np.empty(draws)
        for place, rows in enumerate(_resamples(len(truth), groups, source, draws)):
            drawn[place] = sign * (judge(truth[rows], first[rows]) - judge(truth[rows], second[rows]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Difference(value=float(value), low=float(low), high=float(high))


def interval(
    labels: Sequence[float],
    predictions: Sequence[float],
    metric: str,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
) -> tuple[float, float]:
    """The 95% interval of a metric, by a bootstrap over rows."""
    truth, guess = np.asarray(labels), np.asarray(predictions)
    source = np.random.default_rng(seed)
    found = [METRICS[metric](truth[rows], guess[rows]) for rows in _resamples(len(truth), groups, source, draws)]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def _resamples(count: int, groups: Sequence[str] | None, source: np.random.Generator, draws: int) -> Any:
    """Places of rows, drawn with replacement by group."""
    if groups is None:
        for _ in range(draws):
            yield source.integers(0, count, count)
        return
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    members: list[list[int]] = [[] for _ in numbers]
    for row, name in enumerate(groups):
        members[numbers[name]].append(row)
    for _ in range(draws):
        yield np.concatenate([members[number] for number in source.integers(0, len(members), len(members))])
