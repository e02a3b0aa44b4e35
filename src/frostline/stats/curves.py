"""Correlation of two curves over layers, with a p-value that knows that layers are not independent points.

Neighbouring layers have similar values, so that two smooth curves that have nothing to do with each other are often
strongly correlated: over 24 layers, independent random walks have a p-value below 0.05 in half of all cases, and over
12 in a third, if layers are taken for independent points. Here a curve is compared with surrogates of the same
smoothness: curves with the same cosine coefficients (those of the discrete cosine transform, which unlike Fourier's
does not join the ends) in absolute value and random signs. The test is exact if coefficients are independent and as
often positive as negative, and nearly so for random walks and stationary curves. Its price: two curves that merely both
rise say little.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from frostline.stats.intervals import correlate
from frostline.stats.resampling import Numbers

_MOST_SIGNS = 14  # largest number of coefficients all of whose signs are listed
_DRAWS = 9_999
_ROUNDING = 1e-9

SURROGATES = (
    "p-values compare with surrogate curves of the same smoothness, since layers are not independent points: curves "
    "that merely both rise or fall are not beyond chance, and over 6 layers p is at least 1 in 16"
)


def correlate_curves(
    first: Sequence[float | None], second: Sequence[float | None], *, ranks: bool = False
) -> tuple[float, float]:
    """Return the correlation of two curves and its two-sided p-value, (nan, nan) if it is undefined.

    Args:
        first: first curve; points with a None in either are left out.
        second: second curve.
        ranks: whether to compute Spearman's correlation instead of Pearson's.
    """
    from scipy.stats import rankdata

    value, _ = correlate(first, second, ranks=ranks)
    if value != value:
        return value, value
    pairs = np.array([pair for pair in zip(first, second, strict=True) if None not in pair], dtype=np.float64)
    columns = [rankdata(column) for column in pairs.T] if ranks else list(pairs.T)
    return value, surrogate_p(*columns)


def surrogate_p(first: Numbers, second: Numbers) -> float:
    """Return the share of surrogates whose correlation is at least as far from 0, the curves themselves among them.

    The correlation of centred curves is the sum of products of their cosine coefficients, over their lengths; a
    surrogate changes the signs of these products.

    Args:
        first: first curve, not constant.
        second: second curve, of the same length.
    """
    from scipy.fft import dct

    products = np.prod([dct(curve - np.mean(curve), norm="ortho")[1:] for curve in (first, second)], axis=0)
    by_chance = np.abs(_signs(len(products)) @ products)
    own = abs(float(products.sum()))
    return float(np.mean(by_chance >= own - _ROUNDING * np.abs(products).sum()))


@cache
def _signs(count: int) -> Numbers:
    """Return (surrogates, count): all signs up to a change of all, or `_DRAWS` random ones; the first are all 1."""
    if count <= _MOST_SIGNS:
        numbers = np.arange(2 ** (count - 1))[:, None] >> np.arange(count - 1)[None, :]
        free = 1.0 - 2.0 * (numbers & 1)
        return np.concatenate([np.ones((len(free), 1)), free], axis=1)
    drawn = np.random.default_rng(0).choice([-1.0, 1.0], size=(_DRAWS, count))
    return np.concatenate([np.ones((1, count)), drawn])
