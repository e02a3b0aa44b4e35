"""How sure a difference between two models is: a paired bootstrap over the rows that both were judged on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    quick = quick_judge(metric, truth, first, second)
    drawn = [
        sign * (quick(truth[rows], first[rows]) - quick(truth[rows], second[rows]))
        for rows in _resamples(len(truth), groups, source, draws)
    ]
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
    quick = quick_judge(metric, truth, guess)
    found = [quick(truth[rows], guess[rows]) for rows in _resamples(len(truth), groups, source, draws)]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def quick_judge(metric: str, *columns: Numbers) -> Callable[[Numbers, Numbers], float]:
    """The metric as a function of labels and predictions; for class numbers, from the table of both.

    A bootstrap asks thousands of times, and scikit-learn takes milliseconds for each.

    Args:
        metric: a task metric.
        columns: all that it will be asked about, as far as the numbers go.
    """
    from_table = _FROM_TABLE.get(metric)
    if from_table is None:
        return METRICS[metric]
    classes = 1 + max(int(column.max()) for column in columns)

    def judge(truth: Numbers, guess: Numbers) -> float:
        places = truth.astype(np.int64) * classes + guess.astype(np.int64)
        counted = np.bincount(places, minlength=classes * classes)
        return from_table(counted.reshape(classes, classes).astype(np.float64))

    return judge


def _accuracy(table: Numbers) -> float:
    return float(np.trace(table) / table.sum())


def _f1s(table: Numbers) -> Numbers:
    """F1 of every class; NaN for classes that neither labels nor predictions have."""
    both = table.sum(0) + table.sum(1)
    with np.errstate(invalid="ignore"):
        found: Numbers = 2 * np.diag(table) / both
    return found


def _f1(table: Numbers) -> float:
    found = _f1s(table)
    return float(found[1]) if len(found) > 1 and np.isfinite(found[1]) else 0.0


def _macro_f1(table: Numbers) -> float:
    return float(np.nanmean(_f1s(table)))


def _matthews(table: Numbers) -> float:
    truth, guess, count = table.sum(1), table.sum(0), table.sum()
    spread = (count**2 - truth @ truth) * (count**2 - guess @ guess)
    return float((np.trace(table) * count - truth @ guess) / np.sqrt(spread)) if spread > 0 else 0.0


_FROM_TABLE: dict[str, Callable[[Numbers], float]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "f1a": _f1,
    "macro_f1": _macro_f1,
    "matthews": _matthews,
}


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
