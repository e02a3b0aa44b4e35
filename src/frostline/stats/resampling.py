"""Metrics of bootstrap draws, for many draws at once.

A draw is represented by the count of each row, so that the sums in most metrics are matrix products with these counts;
calling scikit-learn or scipy for every draw takes a thousand times a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from frostline.tasks.metrics import METRICS

_CELLS = 100_000  # size of a matrix of counts that stays in the processor's cache
_LEAST_SHARE = 1e-4  # smallest variance as a share of the mean square: below it too many digits are lost
_TINY = 1e-100  # smallest mean square: below it squares may have underflowed
Numbers = np.ndarray[Any, np.dtype[Any]]
Judge = Callable[[Numbers], Numbers]  # from counts, (rows, draws), to the metric, (models, draws)
Quick = Callable[[Numbers, Sequence[Numbers]], Judge]  # from labels and every model's predictions


def resample(
    metric: str,
    labels: Numbers,
    predictions: Sequence[Numbers],
    *,
    groups: Sequence[str] | None,
    seed: int,
    draws: int,
) -> Numbers:
    """Return the metric of every model in every draw of rows, (models, draws).

    Rows are drawn with replacement, the same ones for all models; rows of one group are drawn together.

    Args:
        metric: name of a task metric.
        labels: labels of the rows.
        predictions: predictions of every model.
        groups: group of each row; None: every row alone.
        seed: seed of the bootstrap.
        draws: number of draws.
    """
    judge = judge_of(metric, labels, predictions)
    chunks = draw_counts(len(labels), groups, seed=seed, draws=draws)
    return np.concatenate([judge(counts) for counts in chunks], axis=1)


def judge_of(metric: str, labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    """Return a function from the counts of each row in draws, as floating point, to the metric of every model.

    Args:
        metric: name of a task metric.
        labels: labels of the rows.
        predictions: predictions of every model.
    """
    finite = all(np.isfinite(column).all() for column in (labels, *predictions))
    # Values that are not finite are left to the metric, which raises its own error.
    quick = _QUICK.get(metric, _unknown) if finite else _unknown
    judge = quick(labels, predictions)

    def judge_all(counts: Numbers) -> Numbers:
        values = judge(counts)
        for model, draw in np.argwhere(np.isnan(values)):  # the quick way cannot compute these
            times = counts[:, draw].astype(np.int64)
            values[model, draw] = METRICS[metric](np.repeat(labels, times), np.repeat(predictions[model], times))
        return values

    return judge_all


def draw_counts(count: int, groups: Sequence[str] | None, *, seed: int, draws: int) -> Iterator[Numbers]:
    """Yield the count of each row in successive draws, (rows, some draws), until there are enough draws.

    Floating point, because matrix products of integers are slow.
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups or ()))}
    units = np.arange(count) if groups is None else np.array([numbers[name] for name in groups])
    size = count if groups is None else len(numbers)
    source = np.random.default_rng(seed)
    step = max(1, _CELLS // count)
    for start in range(0, draws, step):
        drawn = [source.integers(0, size, size) for _ in range(start, min(start + step, draws))]
        yield np.stack([np.bincount(draw, minlength=size) for draw in drawn], axis=1).astype(np.float64)[units]


def _unknown(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    return lambda counts: np.full((len(predictions), counts.shape[1]), np.nan)


def _mse(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    errors = np.array([np.square(column.astype(np.float64) - labels) for column in predictions])
    return lambda counts: errors @ counts / counts.sum(0)


def _r2(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    centred, scale = _centre(labels)
    errors = np.array([np.square((column.astype(np.float64) - labels) / scale) for column in predictions])
    columns = np.stack([centred, centred**2, *errors])

    def judge(counts: Numbers) -> Numbers:
        mean, square, *lost = columns @ counts / counts.sum(0)
        return 1 - np.array(lost) / _variance(mean, square)

    return judge


def _pearson(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    centred = np.array([_centre(column)[0] for column in (labels, *predictions)])
    columns = np.concatenate([centred, centred**2, centred[1:] * centred[0]])

    def judge(counts: Numbers) -> Numbers:
        means, squares, products = np.split(columns @ counts / counts.sum(0), [len(centred), 2 * len(centred)])
        variances = _variance(means, squares)
        together = products - means[1:] * means[0]
        return np.asarray(np.clip(together / np.sqrt(variances[1:] * variances[0]), -1.0, 1.0))

    return judge


def _centre(column: Numbers) -> tuple[Numbers, float]:
    """Return the column minus its median, scaled to -1..1, and the scale.

    The median and not the mean: an outlier would move the mean away from the draws without the outlier.
    """
    centred = column.astype(np.float64) - np.median(column)
    scale = float(np.abs(centred).max()) or 1.0
    return centred / scale, scale


def _variance(mean: Numbers, square: Numbers) -> Numbers:
    """Return the variance from mean and mean square; NaN if it may be a rounding error, as for constant values."""
    variance = square - mean**2
    return np.where((variance > _LEAST_SHARE * square) & (square > _TINY), variance, np.nan)


def _spearman(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    sorted_labels, *others = (_sort(column) for column in (labels, *predictions))

    def judge(counts: Numbers) -> Numbers:
        ranks, spread = _rank(counts, *sorted_labels)
        weighted = counts * ranks
        correlations = []
        for other in others:
            other_ranks, other_spread = _rank(counts, *other)
            together = np.einsum("rd,rd->d", weighted, other_ranks)
            correlations.append(_divide(together, np.sqrt(spread * other_spread)))
        return np.array(correlations)

    return judge


def _sort(column: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the order of the rows by value, the end of each distinct value in it, and each row's value number."""
    _, numbers, sizes = np.unique(column, return_inverse=True, return_counts=True)
    return np.argsort(numbers), np.cumsum(sizes) - 1, numbers


def _rank(counts: Numbers, order: Numbers, ends: Numbers, numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return every row's rank within each draw minus the mean rank, (rows, draws), and their sum of squares, (draws,).

    Equal values share the mean of their ranks: all lower values and half of the equal ones. Ranks are multiples of one
    half, so sums are exact, and the sum for constant values is exactly 0.
    """
    up_to = np.cumsum(counts[order], axis=0)[ends]
    held = np.diff(up_to, axis=0, prepend=0.0)
    ranks = up_to - (held + up_to[-1]) / 2
    return ranks[numbers], np.einsum("vd,vd,vd->d", held, ranks, ranks)


def _divide(above: Numbers, below: Numbers) -> Numbers:
    """Return the quotient, or 0 if a correlation is undefined because a side is constant, as in the metrics."""
    return np.asarray(np.divide(above, below, out=np.zeros_like(below), where=below > 0))


def _from_classes(score: Callable[[Numbers, Numbers, Numbers, Numbers], Numbers]) -> Quick:
    """Return the quick way of a metric that depends only on counts of rows for each class and draw.

    The arguments of `score`: rows with the label, (classes, draws); rows with the prediction and rows with both,
    (models, classes, draws); and the classes themselves.
    """

    def quick(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
        both = np.stack([labels, *predictions])
        names, numbers = np.unique(both, return_inverse=True)
        labelled, *rest = numbers.reshape(both.shape)
        predicted, classes = np.array(rest), len(names)
        # Wrong predictions are hits of no class: they are counted in an additional class that is not read.
        hits = np.where(predicted == labelled, labelled, classes)
        columns = _one_hot(np.stack([labelled, *predicted, *hits]), classes + 1)

        def judge(counts: Numbers) -> Numbers:
            sums = (columns @ counts).reshape(-1, classes + 1, counts.shape[1])[:, :classes]
            return score(sums[0], sums[1 : 1 + len(predicted)], sums[1 + len(predicted) :], names)

        return judge

    return quick


def _one_hot(numbers: Numbers, classes: int) -> Any:
    """Return a sparse matrix, (columns x classes, rows), from class numbers, (columns, rows)."""
    from scipy.sparse import csr_array

    columns, rows = np.indices(numbers.shape)
    coordinates = (columns * classes + numbers).ravel(), rows.ravel()
    return csr_array((np.ones(numbers.size), coordinates), shape=(len(numbers) * classes, numbers.shape[1]))


def _accuracy(labelled: Numbers, predicted: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    return np.asarray(hits.sum(1) / labelled.sum(0))


def _f1(labelled: Numbers, predicted: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    return np.asarray(_f1s(labelled, predicted, hits)[:, names == 1].sum(1))  # 0 if there is no class 1


def _macro_f1(labelled: Numbers, predicted: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    return np.asarray(_f1s(labelled, predicted, hits).sum(1) / (labelled + predicted > 0).sum(1))


def _f1s(labelled: Numbers, predicted: Numbers, hits: Numbers) -> Numbers:
    """Return F1 of every class; 0 for classes without labels and predictions."""
    return np.asarray(2 * hits / np.maximum(labelled + predicted, 1))


def _matthews(labelled: Numbers, predicted: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    count = labelled.sum(0)
    spread = (count**2 - (labelled**2).sum(0)) * (count**2 - (predicted**2).sum(1))
    together = hits.sum(1) * count - (labelled * predicted).sum(1)
    return _divide(together, np.sqrt(spread))


_QUICK: dict[str, Quick] = {
    "accuracy": _from_classes(_accuracy),
    "f1": _from_classes(_f1),
    "f1a": _from_classes(_f1),
    "macro_f1": _from_classes(_macro_f1),
    "matthews": _from_classes(_matthews),
    "mse": _mse,
    "pearson": _pearson,
    "r2": _r2,
    "spearman": _spearman,
}
