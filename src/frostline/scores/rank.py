"""Numerical rank: how many directions the texts of one class need."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scores import layer_score
from frostline.similarity import undefined_where_constant


@layer_score(better="low", paper="1, section 4.3 (Zhou et al.)")
def rank(states: Tensor, labels: Tensor) -> Tensor:
    """Numerical rank of each class's states, averaged; low means that texts of a class look alike.

    For the matrix of a class's states (not centred), the squared sum of singular values over the sum of their squares.
    It sees only what happens within classes, which is why it predicts less well than variability. Undefined where all
    texts have the same state.
    """
    values = torch.stack([_rank(layer.double(), labels) for layer in states])
    return undefined_where_constant(values, states)


def _rank(states: Tensor, labels: Tensor) -> Tensor:
    ranks = [_numerical_rank(states[labels == label]) for label in torch.unique(labels)]
    return torch.stack(ranks).mean()


def _numerical_rank(states: Tensor) -> Tensor:
    product = states.T @ states if len(states) > states.shape[1] else states @ states.T
    squares = torch.linalg.eigvalsh(product).clamp(min=0)
    return squares.sqrt().sum().square() / squares.sum()
