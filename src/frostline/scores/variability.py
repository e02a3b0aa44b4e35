"""Hidden-state variability: how far texts of one class lie apart, next to how far classes lie apart."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scores import layer_score

# Float32 states that differ by no more than this share of their size are the same state up to rounding.
_ROUNDING = 1e-6


@layer_score(better="low", paper="1, section 3.1")
def variability(states: Tensor, labels: Tensor) -> Tensor:
    """Within-class spread over between-class spread; low means that the layer is specialised in the task.

    With class means m_y, their unweighted mean m, within-class covariance S_w and between-class covariance S_b (every
    class weighing the same in both), it is trace(S_w pinv(S_b)) / classes. S_b has rank below the number of classes, so
    the trace is taken in the span of the centred class means and no width-by-width matrix is formed. It is not changed
    by translation, rotation and isotropic scale. Undefined (NaN) where all texts have the same state, and where the
    class means coincide. (Paper 1, section 3.1.)

    Args:
        states: (layers, texts, width).
        labels: (texts,), integers.
    """
    return torch.stack([_variability(layer.double(), labels) for layer in states])


def _variability(states: Tensor, labels: Tensor) -> Tensor:
    _, label, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    classes, width = len(counts), states.shape[1]
    sums = states.new_zeros(classes, width).index_add_(0, label, states)
    means = sums / counts[:, None]
    centred = means - means.mean(0)
    _, spreads, axes = torch.linalg.svd(centred, full_matrices=False)
    size = states.square().sum(1).mean().sqrt()
    is_axis = (spreads > _ROUNDING * size) & (spreads > _ROUNDING * spreads.max())
    if not bool(is_axis.any()):
        return states.new_tensor(float("nan"))
    spreads, axes = spreads[is_axis], axes[is_axis]
    deviations = (states @ axes.T - (means @ axes.T)[label]).square()
    within = deviations.new_zeros(classes, len(spreads)).index_add_(0, label, deviations) / counts[:, None]
    value: Tensor = (within.sum(0) / spreads.square()).sum() / classes
    return value
