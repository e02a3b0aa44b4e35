"""LogME: the probability of the labels under the best linear model on the states, with its weights integrated out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.scores.label_similarity import label_columns
from frostline.scoring.uncertainty import Estimate, jackknife
from frostline.states.cka import undefined_where_constant

_ITERATIONS = 500
_TOLERANCE = 1e-7  # of the ratio; the evidence is flat at its maximum, so that its own error is the square of that
_SMALLEST = 1e-12


@layer_score(fitted=True, better="high", paper="You et al. 2021", needs="labels")
def logme(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Log evidence per text of a linear model with integrated weights; high means that states explain the labels.

    Every class (as 0 or 1), or the value to predict, is regressed on the states by Bayesian linear regression whose two
    precisions maximise the evidence; the score is the mean over classes. Undefined where all texts have the same state.
    """
    states = evidence.states[evidence.pooling]
    targets = label_columns(evidence.labels, has_classes=evidence.has_classes)

    def score(rows: Tensor | slice) -> Tensor:
        values = torch.stack([log_evidence(layer[rows].double(), targets[rows]) for layer in states])
        return undefined_where_constant(values, states)

    return jackknife(score, evidence.jackknife_blocks(uncertainty=uncertainty))


def log_evidence(states: Tensor, targets: Tensor) -> Tensor:
    """Return the largest log evidence per text, averaged over targets.

    Args:
        states: (texts, width), float64.
        targets: (texts, targets).
    """
    count, width = states.shape
    squares, axes = torch.linalg.eigh(states.T @ states)
    squares = squares.clamp(min=0)
    is_axis = squares > squares.max() * width * torch.finfo(torch.float64).eps
    squares, axes = squares[is_axis], axes[:, is_axis]
    along = ((states @ axes).T @ targets).square() / squares[:, None]  # squared projections on singular vectors
    outside = (targets.square().sum(0) - along.sum(0)).clamp(min=0)
    prior, noise = _maximise(squares, along, outside, count)
    weights, residual = _fit(squares, along, outside, prior / noise)
    unused = width - len(squares)  # directions in which no text varies
    determinant = (prior + noise * squares[:, None]).log().sum(0) + unused * prior.log()
    evidence = (
        width * prior.log()
        + count * noise.log()
        - determinant
        - noise * residual
        - prior * weights
        - count * math.log(2 * math.pi)
    )
    return torch.mean(evidence / (2 * count))


def _maximise(squares: Tensor, along: Tensor, outside: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the precisions of prior and noise that maximise each target's evidence, by fixed-point iteration."""
    prior, noise = torch.ones_like(outside), torch.ones_like(outside)
    for _ in range(_ITERATIONS):
        ratio = prior / noise
        used = (squares[:, None] / (squares[:, None] + ratio)).sum(0)
        weights, residual = _fit(squares, along, outside, ratio)
        prior = used / weights.clamp(min=_SMALLEST)
        noise = (count - used) / residual.clamp(min=_SMALLEST)
        if bool(((prior / noise - ratio).abs() <= _TOLERANCE * ratio).all()):
            break
    return prior, noise


def _fit(squares: Tensor, along: Tensor, outside: Tensor, ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared norm of the mean weights, and the squared residual, for each target."""
    weights = (squares[:, None] * along / (squares[:, None] + ratio).square()).sum(0)
    residual = (along / (1 + squares[:, None] / ratio).square()).sum(0) + outside
    return weights, residual
