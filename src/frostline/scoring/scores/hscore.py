"""H-score: the share of the states' variance that the classes explain, per direction."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scoring.scores import layer_score
from frostline.states.cka import undefined_where_constant
from frostline.states.moments import ClassMoments


def _from_moments(moments: ClassMoments) -> Tensor:
    centred = moments.centred()
    count = centred.count
    covariances = centred.seconds.sum(1) / count
    values = []
    for layer, covariance in enumerate(covariances):
        level = covariance.diag().mean()
        shrinkage = _ledoit_wolf(centred.fourths[layer] / count, covariance, level, count)
        values.append(_trace(covariance, level, shrinkage, centred.sums[layer], centred.counts))
    return moments.undefined_where_constant(torch.stack(values))


@layer_score(better="high", paper="Bao et al. 2019, shrunk as in Ibrahim et al. 2021", from_moments=_from_moments)
def hscore(states: Tensor, labels: Tensor) -> Tensor:
    """Between-class variance over total variance, summed over directions; high means that classes are easy to separate.

    trace(inverse(covariance) class covariance) with the covariance shrunk towards a multiple of the identity by the
    Ledoit-Wolf amount. Undefined where all texts have the same state.
    """
    return undefined_where_constant(torch.stack([_hscore(layer.double(), labels) for layer in states]), states)


def _hscore(states: Tensor, labels: Tensor) -> Tensor:
    count, width = states.shape
    centred = states - states.mean(0)
    lengths = centred.square().sum(1)
    if not bool(lengths.any()):
        return states.new_tensor(float("nan"))
    covariance = centred.T @ centred / count
    level = covariance.diag().mean()
    shrinkage = _ledoit_wolf(lengths.square().mean(), covariance, level, count)
    _, label, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = centred.new_zeros(len(counts), width).index_add_(0, label, centred)
    return _trace(covariance, level, shrinkage, sums, counts)


def _trace(covariance: Tensor, level: Tensor, shrinkage: Tensor, sums: Tensor, counts: Tensor) -> Tensor:
    """Return trace(inverse(shrunk covariance) class covariance), from each class's sum of centred states."""
    shrunk = (1 - shrinkage) * covariance + shrinkage * level * torch.eye(len(covariance), dtype=torch.float64)
    between = sums / (counts.double()[:, None] * (int(counts.sum()) - 1)).sqrt()
    return torch.sum(between * torch.linalg.solve(shrunk, between.T).T) * (1 - shrinkage)


def _ledoit_wolf(fourth: Tensor, covariance: Tensor, level: Tensor, count: int) -> Tensor:
    """Return the share of the identity in the shrunk covariance (Ledoit and Wolf 2004); fourth is the mean of |x|^4."""
    width = len(covariance)
    size = covariance.square().sum()
    noise = (fourth - size) / (width * count)
    distance = (size - width * level.square()) / width
    return (noise / distance).clamp(0, 1)
