"""CCA: how well linear views of the states and of the labels correlate on texts that they were not fitted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from frostline.errors import MeasureError
from frostline.scoring.score_inputs import Evidence, divide
from frostline.scoring.scores import layer_score
from frostline.scoring.scores.label_similarity import label_columns
from frostline.scoring.uncertainty import Estimate, from_independent
from frostline.states.cka import undefined_where_constant

_FOLDS = 10
_REPEATS = 3
_STATE_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # relative to the mean variance of the states
_LABEL_RIDGES = (1e-6, 1e-3, 1e-1)


@layer_score(fitted=True, better="high", paper="1, section 4.3", balanced=True)
def cca(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Correlation of states and labels along learnt directions, on unseen texts; high means specialised.

    Canonical correlations between states and one-hot labels with ridge terms on both covariances. Of ten folds, eight
    fit the directions, one picks the ridge terms, one scores; all ten in turn, three repeats. The score is the mean of
    all but the last of the min(width, classes) correlations: the last one is noise, since one-hot labels add up to 1.
    """
    states, labels = evidence.states[evidence.pooling], evidence.labels
    targets = label_columns(labels, has_classes=True)
    smallest = int(torch.unique(labels, return_counts=True)[1].min())
    if smallest < _FOLDS:
        raise MeasureError(f"cca needs at least {_FOLDS} texts of every class, but one has {smallest}")
    repeats = []
    for repeat in range(_REPEATS):
        folds = divide(labels, evidence.groups, _FOLDS, seed=evidence.seed + repeat)
        repeats.append(torch.stack([fold_correlations(layer.double(), targets, folds) for layer in states], dim=1))
    by_fold = undefined_where_constant(torch.stack(repeats).mean(0), states)
    estimate = from_independent(by_fold, method="folds")
    return estimate if uncertainty else Estimate(values=estimate.values)


def fold_correlations(states: Tensor, targets: Tensor, folds: Tensor) -> Tensor:
    """(folds,): for each fold the mean correlation there, with the next fold picking ridge terms and the rest fitting.

    Args:
        states: (texts, width), float64.
        targets: (texts, classes).
        folds: (texts,), from 0.
    """
    x, y = states - states.mean(0), targets - targets.mean(0)
    if not bool(x.any()):
        return states.new_full((_FOLDS,), float("nan"))
    rows = [folds == fold for fold in range(_FOLDS)]
    moments = [_Moments.of(x[chosen], y[chosen]) for chosen in rows]
    out = []
    for fold in range(_FOLDS):
        after = (fold + 1) % _FOLDS
        fit = _Moments.total([moments[other] for other in range(_FOLDS) if other not in (fold, after)])
        maps = max(_fitted_maps(fit), key=lambda pair: float(_mean_correlation(x[rows[after]], y[rows[after]], *pair)))
        out.append(_mean_correlation(x[rows[fold]], y[rows[fold]], *maps))
    return torch.stack(out)


@dataclass(frozen=True)
class _Moments:
    """Sums over texts, so that what is fitted on eight folds is put together from the folds."""

    count: int
    sums: tuple[Tensor, Tensor]
    products: tuple[Tensor, Tensor, Tensor]  # x'x, x'y, y'y

    @classmethod
    def of(cls, x: Tensor, y: Tensor) -> _Moments:
        return cls(len(x), (x.sum(0), y.sum(0)), (x.T @ x, x.T @ y, y.T @ y))

    @classmethod
    def total(cls, parts: list[_Moments]) -> _Moments:
        return cls(
            sum(part.count for part in parts),
            (sum_of(part.sums[0] for part in parts), sum_of(part.sums[1] for part in parts)),
            (
                sum_of(part.products[0] for part in parts),
                sum_of(part.products[1] for part in parts),
                sum_of(part.products[2] for part in parts),
            ),
        )

    def covariances(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of states, of states with labels, of labels."""
        x, y = (total / self.count for total in self.sums)
        xx, xy, yy = self.products
        return (
            xx / self.count - torch.outer(x, x),
            xy / self.count - torch.outer(x, y),
            yy / self.count - torch.outer(y, y),
        )


def sum_of(tensors: Iterable[Tensor]) -> Tensor:
    """The sum of some tensors, at least one."""
    return torch.stack(list(tensors)).sum(0)


def _fitted_maps(fit: _Moments) -> Iterator[tuple[Tensor, Tensor]]:
    """Directions in states and labels, (width, J) and (classes, J), for every pair of ridge terms.

    With A = inverse(S_xx + ridge) S_xy, label directions v solve (S_yx A) v = correlation^2 (S_yy + ridge) v, and A v
    are the matching directions in the states: nothing larger than classes by classes is decomposed.
    """
    xx, xy, yy = fit.covariances()
    level = xx.diag().mean()
    keep = min(xy.shape)
    identity = torch.eye(len(xx), dtype=xx.dtype)
    for state_ridge in _STATE_RIDGES:
        factor = torch.linalg.cholesky(xx + state_ridge * level * identity)
        solved = torch.cholesky_solve(xy, factor)
        for label_ridge in _LABEL_RIDGES:
            values, axes = torch.linalg.eigh(yy)
            whiten = axes * (values.clamp(min=0) + label_ridge).rsqrt()
            _, found = torch.linalg.eigh(whiten.T @ (xy.T @ solved) @ whiten)
            to_labels = whiten @ found.flip(1)[:, :keep]
            yield solved @ to_labels, to_labels


def _mean_correlation(x: Tensor, y: Tensor, to_states: Tensor, to_labels: Tensor) -> Tensor:
    """The mean over directions, without the last, of the correlation between the two views."""
    one, two = x @ to_states[:, :-1], y @ to_labels[:, :-1]
    one, two = one - one.mean(0), two - two.mean(0)
    size = (one.square().sum(0) * two.square().sum(0)).sqrt()
    return torch.where(size > 0, (one * two).sum(0) / size, 0.0).mean()
