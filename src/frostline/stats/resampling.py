"""Metrics on rows drawn again and again, for many draws at once.

For a metric a draw is how often it holds each row, so that the sums that most metrics are made of are matrix products
of these counts; scikit-learn and scipy, asked draw by draw, take a thousand times a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from frostline.tasks.metrics import METRICS

_CELLS = 100_000  # of counts at a time: what is worked on stays in the processor's cache
_LEAST_SHARE = 1e-4  # of the mean square that a variance must be, or the difference of both has lost too many digits
_TINY = 1e-100  # a mean square below it is that of numbers whose squares may have vanished
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
    """The metric of every model in every draw of rows, (models, draws).

    Rows are drawn with replacement, the same ones for all models; rows of one group are drawn together.

    Args:
        metric: a task metric.
        labels: of the rows.
        predictions: of every model.
        groups: rows that belong together; None: every row alone.
        seed: of the draws.
        draws: how many.
    """
    judge = judge_of(metric, labels, predictions)
    chunks = draw_counts(len(labels), groups, seed=seed, draws=draws)
    return np.concatenate([judge(counts) for counts in chunks], axis=1)


def judge_of(metric: str, labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    """What gives the metric of every model for draws that hold each row so and so often, as floating point.

    Args:
        metric: a task metric.
        labels: of the rows.
        predictions: of every model.
    """
    finite = all(np.isfinite(column).all() for column in (labels, *predictions))
    # What is not finite is left to the metric, which says so in its own words.
    quick = _QUICK.get(metric, _unknown) if finite else _unknown
    judge = quick(labels, predictions)
    return lambda counts: _ask(metric, labels, predictions, counts, judge(counts))


def draw_counts(count: int, groups: Sequence[str] | None, *, seed: int, draws: int) -> Iterator[Numbers]:
    """How often each row is drawn, (rows, some draws), until there are enough draws.

    Floating point, because matrix products of integers are slow.
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(groups or ()))}
    units = np.arange(count) if groups is None else np.array([places[name] for name in groups])
    size = count if groups is None else len(places)
    source = np.random.default_rng(seed)
    step = max(1, _CELLS // count)
    for start in range(0, draws, step):
        drawn = [source.integers(0, size, size) for _ in range(start, min(start + step, draws))]
        yield np.stack([np.bincount(one, minlength=size) for one in drawn], axis=1).astype(np.float64)[units]


def _ask(metric: str, labels: Numbers, predictions: Sequence[Numbers], counts: Numbers, found: Numbers) -> Numbers:
    """The values found; where one is NaN, the quick way does not know, and the metric itself is asked."""
    filled = found.copy()
    for model, draw in np.argwhere(np.isnan(found)):
        times = counts[:, draw].astype(np.int64)
        filled[model, draw] = METRICS[metric](np.repeat(labels, times), np.repeat(predictions[model], times))
    return filled


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
        found: Numbers = np.clip(together / np.sqrt(variances[1:] * variances[0]), -1.0, 1.0)
        return found

    return judge


def _centre(column: Numbers) -> tuple[Numbers, float]:
    """The column less its median, between -1 and 1, and how much smaller it was made.

    Not less its mean: a far outlier would move it away from the draws that lack the outlier.
    """
    centred = column.astype(np.float64) - np.median(column)
    scale = float(np.abs(centred).max()) or 1.0
    return centred / scale, scale


def _variance(mean: Numbers, square: Numbers) -> Numbers:
    """The variance from mean and mean square; NaN where rounding may have made it up, as that of constant values."""
    found = square - mean**2
    return np.where((found > _LEAST_SHARE * square) & (square > _TINY), found, np.nan)


def _spearman(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
    sorted_labels, *others = (_sort(column) for column in (labels, *predictions))

    def judge(counts: Numbers) -> Numbers:
        ranks, spread = _rank(counts, *sorted_labels)
        weighted = counts * ranks
        found = []
        for other in others:
            other_ranks, other_spread = _rank(counts, *other)
            together = np.einsum("rd,rd->d", weighted, other_ranks)
            found.append(_divide(together, np.sqrt(spread * other_spread)))
        return np.array(found)

    return judge


def _sort(column: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The order of the rows by value, where in it each distinct value ends, and the number of each row's value."""
    _, places, sizes = np.unique(column, return_inverse=True, return_counts=True)
    return np.argsort(places), np.cumsum(sizes) - 1, places


def _rank(counts: Numbers, order: Numbers, ends: Numbers, places: Numbers) -> tuple[Numbers, Numbers]:
    """Every row's rank within each draw less the mean rank, (rows, draws), and their sum of squares, (draws,).

    Equal values share the mean of their ranks: they come after all that are below, and on average after half of their
    own. Ranks are halves of whole numbers, so sums are exact, and that of constant values is exactly 0.
    """
    up_to = np.cumsum(counts[order], axis=0)[ends]
    held = np.diff(up_to, axis=0, prepend=0.0)
    ranks = up_to - (held + up_to[-1]) / 2
    return ranks[places], np.einsum("vd,vd,vd->d", held, ranks, ranks)


def _divide(above: Numbers, below: Numbers) -> Numbers:
    """The quotient; 0 where a correlation is undefined because something is constant, as the metrics have it."""
    found: Numbers = np.divide(above, below, out=np.zeros_like(below), where=below > 0)
    return found


def _from_classes(score: Callable[[Numbers, Numbers, Numbers, Numbers], Numbers]) -> Quick:
    """The quick way of a metric of class numbers that depends on these alone, for each class and draw.

    Rows that have the label, rows of which it is said, and rows of both: (classes, draws) for the first and
    (models, classes, draws) for the others; and the classes themselves.
    """

    def quick(labels: Numbers, predictions: Sequence[Numbers]) -> Judge:
        both = np.stack([labels, *predictions])
        names, numbers = np.unique(both, return_inverse=True)
        asked, *rest = numbers.reshape(both.shape)
        said, classes = np.array(rest), len(names)
        # Mistakes are no hits of any class: they go to a class of their own that nothing looks at.
        columns = _one_hot(np.stack([asked, *said, *np.where(said == asked, asked, classes)]), classes + 1)

        def judge(counts: Numbers) -> Numbers:
            sums = (columns @ counts).reshape(-1, classes + 1, counts.shape[1])[:, :classes]
            return score(sums[0], sums[1 : 1 + len(said)], sums[1 + len(said) :], names)

        return judge

    return quick


def _one_hot(numbers: Numbers, classes: int) -> Any:
    """A sparse matrix, (columns x classes, rows), from class numbers, (columns, rows): with many classes most is 0."""
    from scipy.sparse import csr_array

    columns, rows = np.indices(numbers.shape)
    places = (columns * classes + numbers).ravel(), rows.ravel()
    return csr_array((np.ones(numbers.size), places), shape=(len(numbers) * classes, numbers.shape[1]))


def _accuracy(asked: Numbers, said: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    found: Numbers = hits.sum(1) / asked.sum(0)
    return found


def _f1(asked: Numbers, said: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    found: Numbers = _f1s(asked, said, hits)[:, names == 1].sum(1)  # 0 where there is no class 1
    return found


def _macro_f1(asked: Numbers, said: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    found: Numbers = _f1s(asked, said, hits).sum(1) / (asked + said > 0).sum(1)
    return found


def _f1s(asked: Numbers, said: Numbers, hits: Numbers) -> Numbers:
    """F1 of every class; 0 for classes that neither labels nor predictions have."""
    found: Numbers = 2 * hits / np.maximum(asked + said, 1)
    return found


def _matthews(asked: Numbers, said: Numbers, hits: Numbers, names: Numbers) -> Numbers:
    count = asked.sum(0)
    spread = (count**2 - (asked**2).sum(0)) * (count**2 - (said**2).sum(1))
    together = hits.sum(1) * count - (asked * said).sum(1)
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
