"""Rank correlations of plans given where their layers are, and the largest that noise in the truth allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

HALVINGS = 50
_ROUNDING = 1e-8  # what is left of ranks that depth explains


def depth_columns(layers: Sequence[Sequence[int]], *, wide: bool = False) -> np.ndarray:
    """Return (plans, columns): ranks of the centres of the tuned layers, their squares, ranks of the numbers of layers.

    Args:
        layers: the tuned layers of each plan.
        wide: add the squared ranks of the numbers of layers, and the products of both ranks.
    """
    centre = _ranks([float(np.mean(own)) for own in layers])
    number = _ranks([len(own) for own in layers])
    columns = [centre, centre**2, number, *([number**2, centre * number] if wide else [])]
    return np.column_stack(columns)


def partial_correlation(first: Sequence[float], second: Sequence[float], columns: np.ndarray) -> float:
    """Return Spearman's correlation given other columns; NaN where they explain all that varies in one of the two.

    The correlation of what is left of both ranks after a linear regression on the columns, (plans, columns); without
    columns it is the plain one.
    """
    design = np.column_stack([np.ones(len(first)), columns])
    left = []
    for values in (first, second):
        ranks = _ranks(values)
        residuals = ranks - design @ np.linalg.lstsq(design, ranks)[0]
        if np.linalg.norm(residuals) <= _ROUNDING * len(ranks):
            return float("nan")
        left.append(residuals / np.linalg.norm(residuals))
    return float(left[0] @ left[1])


def ceiling(is_right: np.ndarray, columns: np.ndarray, *, halvings: int = HALVINGS, seed: int = 0) -> float:
    """Return the largest correlation with accuracy that a perfect criterion can reach on so few test rows.

    The correlation of the accuracy on a random half of the rows with that on the other half, averaged over halvings, is
    corrected to all rows (Spearman-Brown); its root is the correlation of the accuracy with itself without noise. 0 if
    the halves do not agree.

    Args:
        is_right: (plans, rows), 1 where a plan's prediction is right.
        columns: (plans, columns), as in `partial_correlation`.
        halvings: number of times that the rows are halved.
        seed: seed of the halves.
    """
    shared = []
    for number in range(halvings):
        order = np.random.default_rng([seed, number]).permutation(is_right.shape[1])
        accuracies = [is_right[:, half].mean(axis=1) for half in np.array_split(order, 2)]
        shared.append(partial_correlation(accuracies[0], accuracies[1], columns))
    reliability = float(np.mean(shared))
    return max(0.0, 2 * reliability / (1 + reliability)) ** 0.5


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return the ranks, less their mean."""
    return rankdata(values) - (len(values) + 1) / 2
