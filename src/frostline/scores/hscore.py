"""H-score: how much of the states' variation the classes explain, per direction."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scores import layer_score
from frostline.similarity import ROUNDING


@layer_score(better="high", paper="Bao et al. 2019, shrunk as in Ibrahim et al. 2021")
def hscore(states: Tensor, labels: Tensor) -> Tensor:
    """Between-class variance over total variance, summed over directions; high means that classes are easy to tell.

    trace(inverse(covariance) class covariance) with the covariance shrunk towards a multiple of the identity by the
    Ledoit-Wolf amount. Undefined where all texts have the same state.
    """
    return torch.stack([_hscore(layer.double(), labels) for layer in states])


def _hscore(states: Tensor, labels: Tensor) -> Tensor:
    count, width = states.shape
    centred = states - states.mean(0)
    squares = centred.square()
    if bool(squares.mean() <= ROUNDING**2 * states.square().mean()):
        return states.new_tensor(float("nan"))
    covariance = centred.T @ centred / count
    level = squares.mean()
    shrinkage = _ledoit_wolf(squares, covariance, level)
    shrunk = (1 - shrinkage) * covariance + shrinkage * level * torch.eye(width, dtype=torch.float64)
    _, label, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = centred.new_zeros(len(counts), width).index_add_(0, label, centred)
    between = sums / counts.double().sqrt()[:, None] / (count - 1) ** 0.5
    return (1 - shrinkage) * (between * torch.linalg.solve(shrunk, between.T).T).sum()


def _ledoit_wolf(squares: Tensor, covariance: Tensor, level: Tensor) -> Tensor:
    """The share of the identity in the shrunk covariance (Ledoit and Wolf 2004)."""
    count, width = squares.shape
    size = covariance.square().sum()
    noise = (squares.sum(1).square().sum() / count - size) / (width * count)
    distance = (size - width * level.square()) / width
    return (noise / distance).clamp(0, 1)
