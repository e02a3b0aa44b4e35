"""Linear classifiers and linear regressions, fitted to the optimum, fast enough for every layer.

The second derivative of the logistic loss is bounded by a multiple of X'X for all weights (Böhning), and equals it at
weight zero. One Cholesky factor per layer is therefore a good preconditioner throughout, and L-BFGS that starts from it
needs a dozen matrix-vector products where plain L-BFGS needs hundreds. With many classes the bound is loose, because
each class is decided by few rows: there Newton's method is used, to the same optimum (`newton`).

To reach the same objective, scikit-learn takes 10 times as long on the embedded encoder's states (7 layers, 4,000 x
384, two classes; its newton-cholesky solver 2.6 times) and 1.5 times on random ones (4,000 x 768, five classes;
newton-cholesky 20 times). With its default tolerance it takes 1.5 and 0.25 times as long, and stops 0.07 and 3 above
the minimum (`make bench-probe`, one thread).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from frostline.scoring.probes.logistic_loss import Loss, dot, rounding_error, step_length, without_mean
from frostline.scoring.probes.newton import minimise_by_newton

# A state's entry that varies by no more than this share of its size, or of the largest entry's spread, is rounding.
_ROUNDING = 1e-6
_BLOCK = 64  # rows
_MEMORY = 5  # past moves that L-BFGS uses; more help little with a good preconditioner
_MOST_STEPS = 500
_PATIENCE = 20  # steps without progress, at the limit of the precision
_MANY_CLASSES = 10  # with more, Newton's method is faster
_MOVED = 1.5  # the mean curvature is factored again when it has changed by this factor

_Move = tuple[Tensor, Tensor, Tensor]  # change of the weights, change of the gradient, one over their product


@dataclass(frozen=True, kw_only=True)
class LinearFit:
    """A linear map from states to logits, or to values; it standardises the states by what it was fitted on.

    Args:
        weights: (width, outputs), for standardised states; two classes have one output, the logit of the second.
        intercepts: (outputs,).
        centre: (width,), the mean of the rows it was fitted on.
        inverse_scale: (width,), one over their deviation; 0 for constant entries, which are left out.
        is_converged: whether the optimum was reached within the tolerance.
    """

    weights: Tensor
    intercepts: Tensor
    centre: Tensor
    inverse_scale: Tensor
    is_converged: bool = True

    def __call__(self, states: Tensor) -> Tensor:
        """Return (rows, outputs) for states (rows, width)."""
        standard = (states.to(self.centre.dtype) - self.centre) * self.inverse_scale
        return standard @ self.weights + self.intercepts

    def logits(self, states: Tensor) -> Tensor:
        """Return (rows, classes): one logit per class, also for two classes."""
        logits = self(states)
        return torch.cat([torch.zeros_like(logits), logits], dim=1) if logits.shape[1] == 1 else logits


def fit_logistic(
    states: Tensor, classes: Tensor, *, penalty: float = 1.0, tolerance: float = 3e-6, scaled: bool = True
) -> LinearFit:
    """Fit multinomial logistic regression: minimise summed cross-entropy + penalty / 2 * squared weights.

    On states standardised by their own mean and deviation, entries that hardly vary (a millionth of their size, or of
    the entry that varies most) left out, and with intercepts that are not penalised: scikit-learn's
    `LogisticRegression(C=1 / penalty)` after its `StandardScaler`, which also means one output for two classes. The
    optimum is unique (of intercepts that could move together, the ones with mean zero).

    Args:
        states: (rows, width); computed in their precision, at least float32.
        classes: (rows,), numbers from 0, each of them present.
        penalty: penalty on the squared weights.
        tolerance: approximate mean distance of the logits from those of the optimum.
        scaled: whether to divide states by their deviation; otherwise they are only centred.
    """
    design, centre, inverse_scale = _standardise(states, scaled=scaled)
    target = torch.nn.functional.one_hot(classes).T.to(design.dtype).contiguous()
    loss = Loss(design, target[1:] if len(target) == 2 else target, penalty=penalty)
    minimise = minimise_by_newton if len(target) > _MANY_CLASSES else _minimise
    weights, is_converged = minimise(loss, tolerance=tolerance)
    return LinearFit(
        weights=weights[:, :-1].T,
        intercepts=weights[:, -1],
        centre=centre,
        inverse_scale=inverse_scale,
        is_converged=is_converged,
    )


def fit_ridge(states: Tensor, values: Tensor, *, penalty: float = 1.0, scaled: bool = True) -> LinearFit:
    """Fit ridge regression: minimise summed squared errors + penalty * squared weights, in closed form.

    On standardised states, the intercept not penalised: scikit-learn's `Ridge(alpha=penalty)` after `StandardScaler`.
    In float64, because X'X loses twice as many digits.

    Args:
        states: (rows, width).
        values: (rows,), numbers to predict.
        penalty: penalty on the squared weights.
        scaled: whether to divide states by their deviation; otherwise they are only centred.
    """
    design, centre, inverse_scale = _standardise(states.double(), scaled=scaled)
    ridge = design.new_full((design.shape[1],), penalty)
    ridge[-1] = 0.0
    factor = torch.linalg.cholesky(design.T @ design + ridge.diag())
    weights = torch.cholesky_solve(design.T @ values.double()[:, None], factor)
    return LinearFit(weights=weights[:-1], intercepts=weights[-1], centre=centre, inverse_scale=inverse_scale)


def _standardise(states: Tensor, *, scaled: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return states with mean 0, if `scaled` also deviation 1, and a column of ones; the mean; one over the scale.

    In two passes, because a deviation from raw squares would lose digits to a large mean. The rounding error of the
    mean goes into the intercept.
    """
    states = states if states.dtype == torch.float64 else states.float()
    rows, width = states.shape
    design = states.new_ones(rows, width + 1)
    inner = design[:, :-1]
    centre = states.mean(0)
    torch.sub(states, centre, out=inner)
    # In blocks: memory for all squares at once would have to be allocated again for every layer.
    blocks = [inner[start : start + _BLOCK] for start in range(0, rows, _BLOCK)]
    scale = (torch.stack([block.square().sum(0) for block in blocks]).sum(0) / rows).sqrt()
    is_constant = scale <= _ROUNDING * torch.maximum(centre.abs(), scale.max())
    inverse_scale = torch.where(is_constant, 0.0, 1 / scale if scaled else torch.ones_like(scale))
    inner *= inverse_scale
    return design, centre, inverse_scale


class _BinaryCurvature:
    """The second derivative with every row's p (1 - p) replaced by their mean, as a Cholesky factor.

    It is factored again when the mean has changed much: rows of well-separated classes hardly count.
    """

    def __init__(self, loss: Loss) -> None:
        self._gram = loss.design.T @ loss.design
        self._penalty = loss.penalty + rounding_error(self._gram)
        self._mean = float("nan")
        self._factor = self._gram

    def inverse(self, probabilities: Tensor, gradient: Tensor) -> Tensor:
        """Return the inverse curvature at these probabilities times a gradient."""
        mean = float((probabilities * (1 - probabilities)).mean())
        if not 1 / _MOVED < mean / self._mean < _MOVED:
            self._mean = mean
            self._factor = torch.linalg.cholesky(mean * self._gram + self._penalty.diag())
        # Two triangular solves: cholesky_solve starts threads for a single column, which cost more than the column.
        half = torch.linalg.solve_triangular(self._factor, gradient.T, upper=False)
        solved: Tensor = torch.linalg.solve_triangular(self._factor.mT, half, upper=True)
        return solved.T


class _ClassCurvature:
    """The second derivative with every row's diag(p) - p p' replaced by their mean.

    It is a Kronecker product of that and X'X: the eigenvectors of X'X, computed once, and of a matrix of classes by
    classes invert it exactly. Centred states are orthogonal to the intercepts, whose part is inverted by itself.
    """

    def __init__(self, loss: Loss) -> None:
        inner = loss.design[:, :-1]
        gram = inner.T @ inner
        spreads, self._axes = torch.linalg.eigh(gram)
        self._spreads = spreads.clamp(min=0)
        self._penalty = loss.shrinkage + rounding_error(gram)
        self._rows = len(inner)

    def inverse(self, probabilities: Tensor, gradient: Tensor) -> Tensor:
        """Return the inverse curvature at these probabilities times a gradient."""
        mean = probabilities.mean(1).diag() - probabilities @ probabilities.T / self._rows
        sizes, directions = torch.linalg.eigh(mean)
        sizes = sizes.clamp(min=0)[:, None]
        turned = directions.T @ gradient
        weights = (turned[:, :-1] @ self._axes) / (sizes * self._spreads + self._penalty) @ self._axes.T
        intercepts = turned[:, -1:] / (sizes * self._rows + self._penalty)
        return without_mean(directions @ torch.cat([weights, intercepts], dim=1))


def _minimise(loss: Loss, *, tolerance: float) -> tuple[Tensor, bool]:
    """Return the weights of the least loss, (outputs, width + 1), and whether the tolerance was reached.

    L-BFGS on top of the mean curvature. The stopping rule is the Newton decrement, twice the distance to the least
    loss, which per row is the weighted square of the logits' error.
    """
    curvature = _BinaryCurvature(loss) if loss.is_binary else _ClassCurvature(loss)
    weights = loss.start()
    logits = weights[:, -1:].expand(loss.target.shape)
    probabilities = loss.probabilities(logits)
    gradient = loss.gradient(weights, probabilities)
    memory: list[_Move] = []
    enough = len(loss.design) * tolerance**2
    least, since = float("inf"), 0
    for _ in range(_MOST_STEPS):
        direction = _direction(gradient, memory, partial(curvature.inverse, probabilities))
        decrement = -float(dot(gradient, direction))
        if decrement <= enough:
            return weights, True
        since = 0 if decrement < least else since + 1
        least = min(least, decrement)
        if since == _PATIENCE:
            return weights, False
        towards = direction @ loss.design.T
        length = step_length(loss, weights, logits, direction, towards, slope=-decrement)
        move = length * direction
        weights = weights + move
        logits = logits + length * towards
        probabilities = loss.probabilities(logits)
        new = loss.gradient(weights, probabilities)
        change = new - gradient
        product = dot(move, change)
        if product > 0:
            memory = [*memory[1 - _MEMORY :], (move, change, 1 / product)]
        gradient = new
    return weights, False


def _direction(gradient: Tensor, memory: list[_Move], inverse: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the descent direction: minus the inverse curvature, as corrected by past moves, times the gradient."""
    pending, shares = gradient, []
    for move, change, scale in reversed(memory):
        share = scale * dot(move, pending)
        pending = pending - share * change
        shares.append(share)
    pending = inverse(pending)
    for (move, change, scale), share in zip(memory, reversed(shares), strict=True):
        pending = pending + (share - scale * dot(change, pending)) * move
    return -pending
