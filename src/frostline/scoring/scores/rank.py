"""Numerical rank: the effective number of directions in the states of one class."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scoring.scores import layer_score
from frostline.states.cka import undefined_where_constant
from frostline.states.moments import ClassMoments


def _from_moments(moments: ClassMoments) -> Tensor:
    raw = moments.moved(-moments.references)  # about the origin: the states are not centred
    squares = torch.linalg.eigvalsh(raw.seconds).clamp(min=0)
    return moments.undefined_where_constant((squares.sqrt().sum(-1).square() / squares.sum(-1)).mean(-1))


@layer_score(better="low", paper="Xie et al. 2022, section 4.3 (Zhou et al.)", from_moments=_from_moments)
def rank(states: Tensor, labels: Tensor) -> Tensor:
    """Numerical rank of each class's states, averaged; low means that texts of a class look alike.

    For the matrix of a class's states (not centred), the squared sum of singular values over the sum of their squares.
    It sees only what happens within classes, which is why it predicts less well than variability. Undefined where all
    texts have the same state.
    """
    return undefined_where_constant(torch.stack([_rank(layer.double(), labels) for layer in states]), states)


def _rank(states: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([_numerical_rank(states[labels == label]) for label in torch.unique(labels)]).mean()


def _numerical_rank(states: Tensor) -> Tensor:
    product = states.T @ states if len(states) > states.shape[1] else states @ states.T
    squares = torch.linalg.eigvalsh(product).clamp(min=0)
    value: Tensor = squares.sqrt().sum().square() / squares.sum()
    return value
