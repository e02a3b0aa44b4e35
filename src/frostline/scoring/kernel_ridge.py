"""Kernel ridge regression in which each group of rows is predicted from all others, in closed form.

With H = (K + I)^-1, the errors of the rows g when they are left out are H_gg^-1 (H t)_g; without further rows f, H is
its Schur complement H - H_f' H_ff^-1 H_f. So nothing is refitted, neither for an error nor for a choice between kernels
that never sees the rows that it is judged on. The ridge is 1: weights are those of the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST_DIRECTION = 1e-6  # as a share of the largest


def inverse_of(kernel: Tensor) -> Tensor:
    """Return the inverse of a kernel (rows, rows) plus the unit matrix."""
    unit = torch.eye(len(kernel), dtype=kernel.dtype)
    return torch.cholesky_inverse(torch.linalg.cholesky(kernel + unit))


def left_out_errors(inverse: Tensor, targets: Tensor, groups: Tensor, *, ignored: Tensor | None = None) -> Tensor:
    """Return (rows, outputs): targets minus what is predicted for them from the rows of all other groups.

    Args:
        inverse: (rows, rows), result of `inverse_of`.
        targets: (rows, outputs).
        groups: (rows,), integers.
        ignored: (rows,), true at rows that are left out everywhere, whole groups; their errors are 0.
    """
    solved, cross = inverse @ targets, inverse.new_zeros(0, len(inverse))
    kept = torch.arange(len(groups))
    if ignored is not None:
        factor = torch.linalg.cholesky(inverse[ignored][:, ignored])
        cross = torch.linalg.solve_triangular(factor, inverse[ignored], upper=False)
        solved = solved - cross.T @ torch.linalg.solve_triangular(factor, solved[ignored], upper=False)
        kept = kept[~ignored]
    errors = torch.zeros_like(targets)
    for members in _by_size(groups[kept]):
        rows = kept[members]  # (groups, size)
        if rows.shape[1] == 1:
            single = rows[:, 0]
            errors[single] = solved[single] / (inverse.diagonal() - cross.square().sum(0))[single, None]
            continue
        blocks = inverse[rows[:, :, None], rows[:, None, :]]
        blocks = blocks - torch.einsum("fgi,fgj->gij", cross[:, rows], cross[:, rows])
        errors[rows] = torch.linalg.solve(blocks, solved[rows])
    return errors


def _by_size(groups: Tensor) -> list[Tensor]:
    """Return the positions of the members of each group, (groups, size), for each size of groups."""
    order, (_, counts) = groups.argsort(stable=True), torch.unique(groups, return_counts=True)
    starts = counts.cumsum(0) - counts
    return [order[starts[counts == size, None] + torch.arange(size)] for size in torch.unique(counts).tolist()]


def cross_fitted_errors(kernels: Iterable[Tensor], targets: Tensor, groups: Tensor, folds: Tensor) -> Tensor:
    """Return (rows,): squared errors of left-out groups, each with the kernel that is best without its fold.

    Args:
        kernels: kernels to choose from, each (rows, rows).
        targets: (rows, outputs).
        groups: (rows,), integers.
        folds: (rows,), from 0, whole groups; a fold's kernel has the least error on the other folds' rows, each
            predicted from those rows alone.
    """
    outer, inner = [], []
    for kernel in kernels:
        inverse = inverse_of(kernel)
        outer.append(left_out_errors(inverse, targets, groups).square().sum(1))
        within = [
            left_out_errors(inverse, targets, groups, ignored=folds == fold).square().sum()
            for fold in range(int(folds.max()) + 1)
        ]
        inner.append(torch.stack(within))
    chosen = torch.stack(inner).argmin(0)  # (folds,)
    return torch.stack(outer)[chosen[folds], torch.arange(len(folds))]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Ridge regression of targets on features that are standardised by the rows it was fitted on.

    Args:
        weights: (features, outputs), of standardised features.
        intercepts: (outputs,).
        centre: (features,), their means.
        inverse_scale: (features,), one over their deviations; 0 where they are constant.
    """

    weights: Tensor
    intercepts: Tensor
    centre: Tensor
    inverse_scale: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Return (rows, outputs) for features (rows, features)."""
        values: Tensor = (features - self.centre) * self.inverse_scale @ self.weights
        return values + self.intercepts

    def kernel(self, features: Tensor) -> Tensor:
        """Return (rows, rows): inner products of the gradients of its weights and intercept."""
        return _linear_kernel((features - self.centre) * self.inverse_scale)

    def directions(self, most: int) -> Tensor:
        """Return (directions, features): its largest singular directions, as linear functions of raw features."""
        left, sizes, _ = torch.linalg.svd(self.weights, full_matrices=False)
        kept = (sizes > _LEAST_DIRECTION * sizes[0]).nonzero()[:most, 0]
        directions: Tensor = (left * sizes)[:, kept].T
        return directions * self.inverse_scale


def fit_probe(features: Tensor, targets: Tensor, groups: Tensor, *, weights: Sequence[float]) -> Probe:
    """Return the probe whose penalty has the least squared error on left-out groups.

    Args:
        features: (rows, features), float64.
        targets: (rows, outputs), float64.
        groups: (rows,), integers.
        weights: weights of the features' kernel to choose from, each one over a penalty.
    """
    centre, deviation = features.mean(0), features.std(0)
    varies = deviation > 1e-6 * torch.maximum(centre.abs(), deviation.max())
    inverse_scale = torch.where(varies, 1 / deviation, 0)
    standard = (features - centre) * inverse_scale
    mean, kernel = targets.mean(0), _linear_kernel(standard)

    def error(weight: float) -> float:
        return float(left_out_errors(inverse_of(weight * kernel), targets - mean, groups).square().sum())

    weight = min(weights, key=error)
    solved = weight * inverse_of(weight * kernel) @ (targets - mean)
    return Probe(
        weights=standard.T @ solved / features.shape[1],
        intercepts=mean + solved.sum(0),
        centre=centre,
        inverse_scale=inverse_scale,
    )


def _linear_kernel(standard: Tensor) -> Tensor:
    products: Tensor = standard @ standard.T
    return products / standard.shape[1] + 1
