"""Newton's method for linear classifiers of many classes.

With many classes, a class is decided by the few rows that are near it, and the mean curvature over all rows says little
about its own. The Newton equations are therefore solved by conjugate gradients, on the principal axes of the states,
where the diagonal of the curvature, which is known for each class, is a good preconditioner. To the same optimum this
takes half the time of L-BFGS with 77 classes (800 x 384).
"""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scoring.probes.logistic_loss import Loss, dot, rounding_error, step_length, without_mean

_MOST_STEPS = 100
_MOST_PRODUCTS = 200  # in one step
_PATIENCE = 3  # steps without progress, at the limit of the precision
_LOOSEST = 0.25  # the first step's equations are solved to this share of the gradient


def minimise_by_newton(loss: Loss, *, tolerance: float) -> tuple[Tensor, bool]:
    """Return the weights of the least loss, (outputs, width + 1), and whether the tolerance was reached.

    The stopping rule is the Newton decrement, as in `logistic_solver`.
    """
    turned, axes, floor = _on_principal_axes(loss)
    weights = turned.start()
    logits = weights[:, -1:].expand(turned.target.shape)
    enough = len(turned.design) * tolerance**2
    is_converged, first, least, since = False, 0.0, float("inf"), 0
    for _ in range(_MOST_STEPS):
        step = _Step(turned, weights, logits, floor)
        first = first or step.size
        step.solve(share=min(_LOOSEST, (step.size / first) ** 0.5) if first else 0.0, enough=enough)
        is_converged = step.decrement <= enough
        since = 0 if step.decrement < least else since + 1
        least = min(least, step.decrement)
        if is_converged or since == _PATIENCE:
            break
        length = step_length(turned, weights, logits, step.direction, step.towards, slope=-step.decrement)
        weights = weights + length * step.direction
        logits = logits + length * step.towards
    return torch.cat([weights[:, :-1] @ axes.T, weights[:, -1:]], dim=1), is_converged


def _on_principal_axes(loss: Loss) -> tuple[Loss, Tensor, float]:
    """Return the loss in weights on the principal axes of the states, the axes, and the rounding error of X'X."""
    inner = loss.design[:, :-1]
    gram = inner.T @ inner
    axes = torch.linalg.eigh(gram).eigenvectors
    design = torch.cat([inner @ axes, loss.design[:, -1:]], dim=1)
    return Loss(design, loss.target, penalty=loss.shrinkage), axes, rounding_error(gram)


class _Step:
    """One step of Newton's method: the curvature times the direction is minus the gradient."""

    def __init__(self, loss: Loss, weights: Tensor, logits: Tensor, floor: float) -> None:
        self._loss = loss
        self._probabilities = loss.probabilities(logits)
        self._gradient = loss.gradient(weights, self._probabilities)
        spread = self._probabilities * (1 - self._probabilities)
        self._diagonal = spread @ loss.design.square() + loss.penalty + floor
        self.size = float(dot(self._gradient, self._precondition(self._gradient)))
        self.direction = torch.zeros_like(weights)
        self.towards = torch.zeros_like(self._probabilities)  # the change of the logits
        self.decrement = 0.0

    def solve(self, *, share: float, enough: float) -> None:
        """Find the direction by conjugate gradients, until the error is this share of the gradient, or is small enough.

        Args:
            share: share of the gradient, in the metric of the preconditioner.
            enough: decrement at which the minimum is reached.
        """
        left = -self._gradient
        search = self._precondition(left)
        error = self.size
        for _ in range(_MOST_PRODUCTS):
            if error <= max(share**2 * self.size, 0.01 * enough):
                break
            change, product = self._curvature(search)
            along = float(dot(search, product))
            if not along > 0:  # at the limit of the precision
                break
            length = error / along
            self.direction = self.direction + length * search
            self.towards = self.towards + length * change
            left = left - length * product
            better = self._precondition(left)
            before, error = error, float(dot(left, better))
            search = better + error / before * search
        self.decrement = -float(dot(self._gradient, self.direction))

    def _precondition(self, gradient: Tensor) -> Tensor:
        return without_mean(gradient / self._diagonal)

    def _curvature(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the change of the logits along these weights, and the second derivative times the weights."""
        change = weights @ self._loss.design.T
        moved = self._probabilities * change
        slopes = moved - self._probabilities * moved.sum(0)
        return change, slopes @ self._loss.design + self._loss.penalty * weights
