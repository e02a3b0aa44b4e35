"""How sure a number is: over the rows that models were judged on by a paired bootstrap, over seeds by Student's t."""

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
    one: Sequence[float],
    other: Sequence[float],
    metric: str,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
    level: float = 0.95,
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
        level: of the interval.
    """
    return compare_means(labels, [one], [other], metric, groups=groups, seed=seed, draws=draws, level=level)


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
    """How much better several models are on average than their counterparts, as `compare` says for one.

    Every draw of rows is the same for all models.

    Args:
        labels: of the rows.
        ones: predictions of the first models.
        others: predictions of the second ones, in the same order.
        metric: a task metric.
        groups: rows that belong together; None: every row alone.
        seed: of the draws.
        draws: how many.
        level: of the interval.
    """
    truth = np.asarray(labels)
    first, second = [np.asarray(one) for one in ones], [np.asarray(other) for other in others]
    judge = METRICS[metric]
    sign = judge.gain
    found_ones, found_others = ([judge(truth, guess) for guess in side] for side in (first, second))
    value = sign * float(np.mean(differences(found_ones, found_others)))
    if all(np.array_equal(one, other) for one, other in zip(first, second, strict=True)):
        return Difference(value=0.0, low=0.0, high=0.0)
    found = resample(metric, truth, [*first, *second], groups=groups, seed=seed, draws=draws)
    drawn = sign * (found[: len(first)] - found[len(first) :]).mean(0)
    # Equal differences are equal: what is left of rounding must not lie on one side of 0.
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
    """The 95% interval of the mean metric of some models over that of others, by a paired bootstrap over rows.

    None where the rows are too few for a ratio: in some draw the others have no quality at all.

    Args:
        labels: of the rows.
        ones: predictions of the first models.
        others: predictions of the second ones.
        metric: a task metric, the higher the better.
        groups: rows that belong together; None: every row alone.
        seed: of the draws.
        draws: how many.
    """
    truth, first, second = np.asarray(labels), np.asarray(ones), np.asarray(others)
    found = resample(metric, truth, [*first, *second], groups=groups, seed=seed, draws=draws)
    above, below = found[: len(first)].mean(0), found[len(first) :].mean(0)
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
    """The 95% interval of a metric, by a bootstrap over rows."""
    truth, guess = np.asarray(labels), np.asarray(predictions)
    found = resample(metric, truth, [guess], groups=groups, seed=seed, draws=draws)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Values of the same thing under several seeds.

    Args:
        count: how many.
        mean: of the values.
        deviation: the standard deviation, of a sample; None for a single value.
        low: lower end of the 95% t-interval of the mean, with count - 1 degrees of freedom; None for a single value.
        high: its upper end.
    """

    count: int
    mean: float
    deviation: float | None
    low: float | None
    high: float | None


def summarise(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and t-interval; one value has neither of the last two."""
    found = np.asarray(values, dtype=np.float64)
    mean = float(found.mean())
    if len(found) < 2:
        return Summary(count=len(found), mean=mean, deviation=None, low=None, high=None)
    from scipy.stats import t

    deviation = float(found.std(ddof=1))
    low = high = mean
    if deviation:
        low, high = t.interval(0.95, len(found) - 1, loc=mean, scale=deviation / len(found) ** 0.5)
    return Summary(count=len(found), mean=mean, deviation=deviation, low=float(low), high=float(high))


def summarise_ratio(ones: Sequence[float], others: Sequence[float]) -> Summary:
    """The mean of some values over the mean of others, paired by seed, with the t-interval of what each pair adds."""
    return summarise(shares_of_ratio(ones, others))


def shares_of_ratio(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    """What each pair adds to the ratio of means, to first order; their mean is that ratio.

    A pair whose second value is next to nothing has no ratio of its own worth the name.
    """
    first, second = np.asarray(ones, dtype=np.float64), np.asarray(others, dtype=np.float64)
    ratio = first.mean() / second.mean()
    return [float(value) for value in ratio + (first - ratio * second) / second.mean()]


def summarise_correlations(values: Sequence[float]) -> Summary | None:
    """Mean and t-interval of correlations, on Fisher's z scale so that they stay between -1 and 1; None of none."""
    if not values:
        return None
    found = summarise([float(value) for value in np.arctanh(np.clip(values, -_ALMOST, _ALMOST))])
    low, high = (None if end is None else float(np.tanh(end)) for end in (found.low, found.high))
    return replace(found, mean=float(np.tanh(found.mean)), deviation=None, low=low, high=high)


def differences(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    """By how much each value is above its counterpart; equal ones are equal, whatever rounding has left of them."""
    gaps = np.round(np.asarray(ones, dtype=np.float64) - np.asarray(others, dtype=np.float64), 9)
    return [float(gap) for gap in gaps + 0.0]  # and 0 has no sign


def paired_p(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The two-sided p-value of a paired t-test over seeds; None where it is undefined."""
    gaps = np.asarray(differences(one, other))
    if len(gaps) < 2:
        return None
    if not np.ptp(gaps):
        return 1.0 if gaps[0] == 0 else None
    from scipy.stats import ttest_1samp

    # The paired test, on gaps that are rounded: values that are equal up to rounding must not differ.
    return float(ttest_1samp(gaps, 0).pvalue)


def holm(values: Sequence[float | None], *, count: int | None = None) -> list[float | None]:
    """P-values corrected for their number by Holm's method, in the same order; None stays None.

    Args:
        values: p-values.
        count: how many comparisons there are; as many as have a p-value unless set.
    """
    known = sorted((value, place) for place, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (value, place) in enumerate(known):
        highest = max(highest, min(1.0, value * ((count or len(known)) - rank)))
        corrected[place] = highest
    return corrected


def correlate(
    one: Sequence[float | None], other: Sequence[float | None], *, ranks: bool = False
) -> tuple[float, float]:
    """The correlation of two rows of numbers and its two-sided p-value, (nan, nan) where it is undefined.

    The p-value is Student's t for Pearson's, and exact for Spearman's of at most 8 pairs.

    Args:
        one: numbers; where either is None, the pair is left out.
        other: numbers.
        ranks: Spearman's in place of Pearson's.
    """
    from scipy.stats import pearsonr

    pairs = np.array([pair for pair in zip(one, other, strict=True) if None not in pair], dtype=np.float64)
    if len(pairs) < 3 or len(set(pairs[:, 0])) < 2 or len(set(pairs[:, 1])) < 2:
        return float("nan"), float("nan")
    if ranks:
        return spearman(*pairs.T)
    found = pearsonr(*pairs.T)
    return float(found.statistic), float(found.pvalue)
