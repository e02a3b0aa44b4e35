"""Confidence intervals: over evaluation rows by a paired bootstrap, over seeds by Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from frostline.records.difference import Difference
from frostline.stats.resampling import resample
from frostline.stats.spearman import spearman
from frostline.tasks.metrics import METRICS

_DRAWS = 2000
_ALMOST = 1 - 1e-9  # a perfect correlation is infinite on the z scale


def compare(
    labels: Sequence[float],
    first: Sequence[float],
    second: Sequence[float],
    metric: str,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
    level: float = 0.95,
) -> Difference:
    """Return how much better one model's predictions are than another's, in points of the metric.

    Rows are drawn with replacement, the same ones for both models; rows of one group are drawn together.

    Args:
        labels: labels of the rows.
        first: predictions of the first model.
        second: predictions of the second model.
        metric: name of a task metric.
        groups: group of each row; None: every row alone.
        seed: seed of the bootstrap.
        draws: number of draws.
        level: confidence level.
    """
    return compare_means(labels, [first], [second], metric, groups=groups, seed=seed, draws=draws, level=level)


def compare_means(
    labels: Sequence[float],
    ones: Sequence[Sequence[float]],
    others: Sequence[Sequence[float]],
    metric: str,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
    level: float = 0.95,
) -> Difference:
    """Return how much better several models are on average than their counterparts; `compare` for several pairs.

    Every draw of rows is the same for all models.

    Args:
        labels: labels of the rows.
        ones: predictions of the first models.
        others: predictions of the second models, in the same order.
        metric: name of a task metric.
        groups: group of each row; None: every row alone.
        seed: seed of the bootstrap.
        draws: number of draws.
        level: confidence level.
    """
    truth = np.asarray(labels)
    first, second = [np.asarray(guess) for guess in ones], [np.asarray(guess) for guess in others]
    task_metric = METRICS[metric]
    first_values, second_values = ([task_metric(truth, guess) for guess in side] for side in (first, second))
    value = task_metric.gain * float(np.mean(differences(first_values, second_values)))
    if all(np.array_equal(*pair) for pair in zip(first, second, strict=True)):
        return Difference(value=0.0, low=0.0, high=0.0)
    values = resample(metric, truth, [*first, *second], groups=groups, seed=seed, draws=draws)
    drawn = task_metric.gain * (values[: len(first)] - values[len(first) :]).mean(0)
    # Rounded, so that rounding errors of equal differences do not exclude 0 from the interval.
    low, high = np.round(np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2]), 9)
    return Difference(value=value, low=float(low), high=float(high))


def ratio_interval(
    labels: Sequence[float],
    ones: Sequence[Sequence[float]],
    others: Sequence[Sequence[float]],
    metric: str,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
) -> tuple[float, float] | None:
    """Return the 95% interval of the ratio of two mean metrics, by a paired bootstrap over rows.

    None if the rows are too few for a ratio: in some draw the second mean is not positive.

    Args:
        labels: labels of the rows.
        ones: predictions of the first models.
        others: predictions of the second models.
        metric: name of a task metric for which higher is better.
        groups: group of each row; None: every row alone.
        seed: seed of the bootstrap.
        draws: number of draws.
    """
    truth, first, second = np.asarray(labels), np.asarray(ones), np.asarray(others)
    values = resample(metric, truth, [*first, *second], groups=groups, seed=seed, draws=draws)
    above, below = values[: len(first)].mean(0), values[len(first) :].mean(0)
    if (below <= 0).any():
        return None
    low, high = np.quantile(above / below, [0.025, 0.975])
    return float(low), float(high)


def interval(
    labels: Sequence[float],
    predictions: Sequence[float],
    metric: str,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
) -> tuple[float, float]:
    """Return the 95% interval of a metric, by a bootstrap over rows."""
    values = resample(metric, np.asarray(labels), [np.asarray(predictions)], groups=groups, seed=seed, draws=draws)
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Values of the same thing under several seeds.

    Args:
        count: number of values.
        mean: mean of the values.
        deviation: sample standard deviation; None for a single value.
        low: lower end of the 95% t-interval of the mean, with count - 1 degrees of freedom; None for a single value.
        high: its upper end.
    """

    count: int
    mean: float
    deviation: float | None
    low: float | None
    high: float | None


def summarise(values: Sequence[float]) -> Summary:
    """Return mean, standard deviation and t-interval; a single value has only a mean."""
    numbers = np.asarray(values, dtype=np.float64)
    count, mean = len(numbers), float(numbers.mean())
    if count < 2:
        return Summary(count=count, mean=mean, deviation=None, low=None, high=None)
    from scipy.stats import t

    deviation = float(numbers.std(ddof=1))
    low = high = mean
    if deviation:
        low, high = t.interval(0.95, count - 1, loc=mean, scale=deviation / count**0.5)
    return Summary(count=count, mean=mean, deviation=deviation, low=float(low), high=float(high))


def summarise_ratio(ones: Sequence[float], others: Sequence[float]) -> Summary:
    """Return the ratio of two means, paired by seed, with the t-interval of the pairs' contributions."""
    return summarise(shares_of_ratio(ones, others))


def shares_of_ratio(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the contribution of each pair to the ratio of means, to first order; their mean is that ratio.

    Ratios of single pairs would be useless if a second value is close to 0.
    """
    first, second = np.asarray(ones, dtype=np.float64), np.asarray(others, dtype=np.float64)
    ratio = first.mean() / second.mean()
    return [float(value) for value in ratio + (first - ratio * second) / second.mean()]


def summarise_correlations(values: Sequence[float]) -> Summary | None:
    """Return mean and t-interval of correlations, on Fisher's z scale to stay in -1..1; None without values."""
    if not values:
        return None
    summary = summarise([float(value) for value in np.arctanh(np.clip(values, -_ALMOST, _ALMOST))])
    low, high = (None if end is None else float(np.tanh(end)) for end in (summary.low, summary.high))
    return replace(summary, mean=float(np.tanh(summary.mean)), deviation=None, low=low, high=high)


def p_of_correlations(values: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a mean correlation of 0, by Student's t on the z scale; None if undefined."""
    return paired_p([float(value) for value in np.arctanh(np.clip(values, -_ALMOST, _ALMOST))], [0.0] * len(values))


def differences(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return each value minus its counterpart, rounded so that equal values have a difference of 0."""
    gaps = np.round(np.asarray(ones, dtype=np.float64) - np.asarray(others, dtype=np.float64), 9)
    return [float(gap) for gap in gaps + 0.0]  # -0.0 becomes 0.0


def paired_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a paired t-test over seeds; None if it is undefined."""
    gaps = np.asarray(differences(first, second))
    if len(gaps) < 2:
        return None
    if not np.ptp(gaps):
        return 1.0 if gaps[0] == 0 else None
    from scipy.stats import ttest_1samp

    # The paired test, on gaps that are rounded: values that are equal up to rounding must not differ.
    return float(ttest_1samp(gaps, 0).pvalue)


def holm(values: Sequence[float | None], *, count: int | None = None) -> list[float | None]:
    """Return p-values corrected for multiple comparisons by Holm's method, in the same order; None stays None.

    Args:
        values: p-values.
        count: number of comparisons; by default the number of p-values.
    """
    ordered = sorted((value, index) for index, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (value, index) in enumerate(ordered):
        highest = max(highest, min(1.0, value * ((count or len(ordered)) - rank)))
        corrected[index] = highest
    return corrected


def correlate(
    first: Sequence[float | None], second: Sequence[float | None], *, ranks: bool = False
) -> tuple[float, float]:
    """Return the correlation of two columns and its two-sided p-value, (nan, nan) if it is undefined.

    The p-value is Student's t for Pearson's correlation, and exact for Spearman's of at most 8 pairs.

    Args:
        first: first column; pairs with a None are left out.
        second: second column.
        ranks: whether to compute Spearman's correlation instead of Pearson's.
    """
    from scipy.stats import pearsonr

    pairs = np.array([pair for pair in zip(first, second, strict=True) if None not in pair], dtype=np.float64)
    if len(pairs) < 3 or len(set(pairs[:, 0])) < 2 or len(set(pairs[:, 1])) < 2:
        return float("nan"), float("nan")
    if ranks:
        return spearman(*pairs.T)
    result = pearsonr(*pairs.T)
    return float(result.statistic), float(result.pvalue)
