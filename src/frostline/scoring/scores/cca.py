"""CCA: the correlation of linear projections of states and labels, on texts that they were not fitted on."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from frostline.errors import MeasureError, OptionError
from frostline.scoring.score_inputs import Evidence, divide
from frostline.scoring.scores import layer_score
from frostline.scoring.scores.label_similarity import label_columns
from frostline.scoring.uncertainty import Estimate, from_folds
from frostline.states.cka import undefined_where_constant

_FOLDS = 10
_STATE_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # relative to the mean variance of the states
_LABEL_RIDGES = (1e-6, 1e-3, 1e-1)


@layer_score(fitted=True, better="high", paper="Xie et al. 2022, section 4.3", balanced=True)
def cca(evidence: Evidence, *, uncertainty: bool = True, samples: int = 1, repeats: int = 3) -> Estimate:
    """Correlation of states and labels along learned directions, on unseen texts; high means specialised.

    Canonical correlations between states and one-hot labels with ridge terms on both covariances. Of ten folds, eight
    fit the directions, one selects the ridge terms, one scores; all ten in turn, three times. The score is the mean of
    all but the last of the min(width, classes) correlations: the last one is noise, since one-hot labels sum to 1. Xie
    et al. 2022 do this on two samples and do not state their size.

    Args:
        evidence: states, labels and groups.
        uncertainty: compute intervals from the folds.
        samples: number of disjoint class-balanced samples into which the texts are divided.
        repeats: number of divisions of a sample into folds.
    """
    if min(samples, repeats) < 1:
        raise OptionError(f"cca: samples {samples} and repeats {repeats} must be 1 or more")
    numbers = torch.arange(len(evidence))
    part = numbers * 0
    if samples > 1:
        part = divide(evidence.labels, evidence.groups, samples, seed=evidence.seed)
    by_sample = [_folds_of(evidence, numbers[part == sample], repeats) for sample in range(samples)]
    states = evidence.states[evidence.pooling]
    return from_folds(undefined_where_constant(torch.cat(by_sample), states), uncertainty=uncertainty)


def _folds_of(evidence: Evidence, rows: Tensor, repeats: int) -> Tensor:
    """Return (folds, layers): the correlations of some of the texts, the mean over repeats."""
    labels = evidence.labels[rows]
    targets = label_columns(labels, has_classes=True)
    of_each = torch.unique(labels, return_counts=True)[1]
    smallest = int(of_each.min()) if len(of_each) == len(torch.unique(evidence.labels)) else 0
    if smallest < _FOLDS:
        where = "" if len(rows) == len(evidence) else " in every sample"
        raise MeasureError(f"cca needs at least {_FOLDS} texts of every class{where}, but one has {smallest}")
    repeated = []
    for repeat in range(repeats):
        folds = divide(labels, evidence.groups[rows], _FOLDS, seed=evidence.seed + repeat)
        layers = (states[rows].double() for states in evidence.states[evidence.pooling])
        repeated.append(torch.stack([fold_correlations(layer, targets, folds) for layer in layers], dim=1))
    return torch.stack(repeated).mean(0)


def fold_correlations(states: Tensor, targets: Tensor, folds: Tensor) -> Tensor:
    """Return (folds,): each fold's mean correlation; the next fold selects ridge terms, the others fit.

    Args:
        states: (texts, width), float64.
        targets: (texts, classes).
        folds: (texts,), from 0.
    """
    x, y = states - states.mean(0), targets - targets.mean(0)
    if not bool(x.any()):
        return states.new_full((_FOLDS,), float("nan"))
    rows = [folds == fold for fold in range(_FOLDS)]
    moments = [_moments(x[chosen], y[chosen]) for chosen in rows]
    out = []
    for fold in range(_FOLDS):
        after = (fold + 1) % _FOLDS
        fit = [moments[other] for other in range(_FOLDS) if other not in (fold, after)]
        maps = max(
            _fitted_maps(*_covariances(fit)),
            key=lambda pair: float(_mean_correlation(x[rows[after]], y[rows[after]], *pair)),
        )
        out.append(_mean_correlation(x[rows[fold]], y[rows[fold]], *maps))
    return torch.stack(out)


def _moments(x: Tensor, y: Tensor) -> list[Tensor]:
    """Return sums over texts, so that those of eight folds are added up from the folds."""
    return [x.new_tensor(len(x)), x.sum(0), y.sum(0), x.T @ x, x.T @ y, y.T @ y]


def _covariances(folds: list[list[Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the covariances of states, of states with labels, and of labels, from the moments of several folds."""
    count, x, y, xx, xy, yy = (torch.stack(sums).sum(0) for sums in zip(*folds, strict=True))
    x, y = x / count, y / count
    return xx / count - torch.outer(x, x), xy / count - torch.outer(x, y), yy / count - torch.outer(y, y)


def _fitted_maps(xx: Tensor, xy: Tensor, yy: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield directions in states and labels, (width, J) and (classes, J), for every pair of ridge terms.

    With A = inverse(S_xx + ridge) S_xy, label directions v solve (S_yx A) v = correlation^2 (S_yy + ridge) v, and A v
    are the matching directions in the states: nothing larger than classes by classes is decomposed.
    """
    level = xx.diag().mean()
    identity = torch.eye(len(xx), dtype=xx.dtype)
    for state_ridge in _STATE_RIDGES:
        factor = torch.linalg.cholesky(xx + state_ridge * level * identity)
        solved = torch.cholesky_solve(xy, factor)
        for label_ridge in _LABEL_RIDGES:
            values, axes = torch.linalg.eigh(yy)
            whiten = axes * (values.clamp(min=0) + label_ridge).rsqrt()
            _, vectors = torch.linalg.eigh(whiten.T @ (xy.T @ solved) @ whiten)
            to_labels = whiten @ vectors.flip(1)[:, : min(xy.shape)]
            yield solved @ to_labels, to_labels


def _mean_correlation(x: Tensor, y: Tensor, to_states: Tensor, to_labels: Tensor) -> Tensor:
    """Return the mean over directions, without the last, of the correlation between the two projections."""
    x, y = x @ to_states[:, :-1], y @ to_labels[:, :-1]
    x, y = x - x.mean(0), y - y.mean(0)
    size = (x.square().sum(0) * y.square().sum(0)).sqrt()
    return torch.where(size > 0, (x * y).sum(0) / size, 0.0).mean()
