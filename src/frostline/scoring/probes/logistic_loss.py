"""The penalised cross-entropy of linear classifiers, its derivatives, and steps along a line."""

from __future__ import annotations

import torch
from torch import Tensor

_MOST_TRIES = 20
_FLATTER = 0.3  # a step ends where the slope is this share of what it was


class Loss:
    """Penalised cross-entropy and its derivatives, as a function of logits and weights.

    Outputs come first, (outputs, rows) and (outputs, width + 1): products with few outputs are then several times
    faster.
    """

    def __init__(self, design: Tensor, target: Tensor, *, penalty: float) -> None:
        self.design = design
        self.target = target
        self.is_binary = len(target) == 1
        self.shrinkage = penalty
        self.penalty = design.new_full((design.shape[1],), penalty)
        self.penalty[-1] = 0.0

    def start(self) -> Tensor:
        """Return (outputs, width + 1): zero weights, and intercepts that give every class its share of the rows."""
        share = self.target.mean(1)
        weights = self.design.new_zeros(len(share), self.design.shape[1])
        weights[:, -1] = torch.logit(share) if self.is_binary else share.log() - share.log().mean()
        return weights

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return (outputs, rows): probabilities of the second of two classes, or of each."""
        return torch.sigmoid(logits) if self.is_binary else torch.softmax(logits, dim=0)

    def gradient(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        """Return (outputs, width + 1): the gradient at weights with these probabilities."""
        slopes = (probabilities - self.target) @ self.design + self.penalty * weights
        return slopes if self.is_binary else without_mean(slopes)

    def slope(self, logits: Tensor, towards: Tensor) -> float:
        """Return the directional derivative along a line of logits, without the penalty."""
        return float(dot(self.probabilities(logits) - self.target, towards))


def without_mean(weights: Tensor) -> Tensor:
    """Remove the mean over classes, which changes no probability and may only drift."""
    return weights - weights.mean(0)


def rounding_error(gram: Tensor) -> float:
    """Return a bound of the rounding error of the curvature; adding it keeps the curvature positive."""
    return torch.finfo(gram.dtype).eps * float(gram.diagonal().sum())


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of two tensors of the same shape."""
    return torch.dot(a.flatten(), b.flatten())


def step_length(
    loss: Loss, weights: Tensor, logits: Tensor, direction: Tensor, towards: Tensor, *, slope: float
) -> float:
    """Return the step length: where the slope along the direction is a fraction of the slope at the start.

    The logits along the line are known, so that a trial needs no product with the states. The loss is convex: its slope
    only rises, and the point is found by false position between too short and too far.
    """
    shrinking = loss.penalty * direction
    at_zero, per_length = float(dot(shrinking, weights)), float(dot(shrinking, direction))
    near, near_slope, far, far_slope = 0.0, slope, float("inf"), 0.0
    length = 1.0
    for _ in range(_MOST_TRIES):
        here = loss.slope(logits + length * towards, towards) + at_zero + length * per_length
        if abs(here) <= -_FLATTER * slope:
            break
        if here < 0:
            near, near_slope = length, here
        else:
            far, far_slope = length, here
        if far == float("inf"):
            length *= 2
        else:
            guess = near + (far - near) * near_slope / (near_slope - far_slope)
            edge = 0.1 * (far - near)
            length = min(max(guess, near + edge), far - edge)
    return length
