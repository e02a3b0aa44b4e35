"""Hidden-state variability: the spread of texts within classes, relative to the spread between classes."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from frostline.scoring.score_inputs import Evidence, divide
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, jackknife
from frostline.states.cka import undefined_where_constant
from frostline.states.moments import ClassMoments

_NAN = float("nan")
_SMALLEST = 1e-7  # class means whose distance is a smaller share of the spread of all texts are equal


def _from_moments(moments: ClassMoments, *, by_size: bool) -> Tensor:
    """Return the variability of each layer from sums: S_w from the class's second moments about its own mean."""
    centred = moments.centred()
    counts = centred.counts.double()
    means = centred.sums / counts[:, None]
    within = centred.seconds / counts[:, None, None] - means[..., :, None] * means[..., None, :]
    spreads = (torch.einsum("lcdd->l", centred.seconds) / centred.count).sqrt()
    centre = torch.zeros_like(means[:, 0]) if by_size else means.mean(1)
    weights = counts / counts.sum() if by_size else torch.full_like(counts, 1 / len(counts))
    spread = torch.einsum("c,lcde->lde", weights, within)
    if int(centred.counts.max()) < 2:
        return torch.full_like(spreads, _NAN)
    values = [_trace_ratio(means[layer] - centre[layer], spreads[layer], spread[layer]) for layer in range(len(means))]
    return moments.undefined_where_constant(torch.stack(values))


def _trace_ratio(centred_means: Tensor, total: Tensor, spread: Tensor) -> Tensor:
    """Return trace(S_w pinv(S_b)) / classes in the span of the centred class means, (classes, width)."""
    spreads, axes = _axes(centred_means, total)
    if not len(spreads):
        return spread.new_tensor(_NAN)
    return torch.sum((axes @ spread @ axes.T).diag() / spreads.square())


@layer_score(better="low", paper="Xie et al. 2022, section 3.1", from_moments=partial(_from_moments, by_size=False))
def variability(states: Tensor, labels: Tensor) -> Tensor:
    """Within-class spread over between-class spread; low means that the layer is specialised in the task.

    With class means m_y, their unweighted mean m, within-class covariance S_w and between-class covariance S_b (every
    class weighing the same in both), it is trace(S_w pinv(S_b)) / classes. S_b has rank below the number of classes, so
    the trace is taken in the span of the centred class means and no width-by-width matrix is formed. It is not changed
    by translation, rotation and isotropic scale. Undefined (NaN) where all texts have the same state, where the class
    means coincide, and where no class has two texts.

    Args:
        states: (layers, texts, width).
        labels: (texts,), integers.
    """
    return undefined_where_constant(_ratios(states, labels, by_size=False), states)


@layer_score(
    better="low",
    paper="Xie et al. 2022, figure 8 (neural collapse, Papyan et al. 2020)",
    name="variability.collapse",
    from_moments=partial(_from_moments, by_size=True),
)
def variability_collapse(states: Tensor, labels: Tensor) -> Tensor:
    """Variability with classes weighted by their size within, as in neural collapse; the same on balanced classes.

    Class means are centred on the mean of all texts, and the within-class covariance is that of all texts; the
    between-class covariance keeps equal weights.
    """
    return undefined_where_constant(_ratios(states, labels, by_size=True), states)


@layer_score(fitted=True, better="low", paper="after Xie et al. 2022", name="variability.crossfit")
def variability_crossfit(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Variability without its small-sample bias: means and spread come from different thirds of the texts.

    Noise in the class means increases their distance, so that plain variability is too low when texts are few for the
    width. Products of two independent estimates of the same means have no such bias. Undefined where the noise hides
    the differences between the classes.
    """
    states, labels, groups = evidence.states[evidence.pooling], evidence.labels, evidence.groups

    def score(rows: Tensor | slice) -> Tensor:
        thirds = divide(labels[rows], groups[rows], 3, seed=evidence.seed)
        return torch.stack([crossfitted(layer[rows].double(), labels[rows], thirds) for layer in states])

    return jackknife(score, evidence.jackknife_blocks(uncertainty=uncertainty))


def _ratios(states: Tensor, labels: Tensor, *, by_size: bool) -> Tensor:
    return torch.stack([_ratio(layer.double(), labels, by_size=by_size) for layer in states])


def _ratio(states: Tensor, labels: Tensor, *, by_size: bool) -> Tensor:
    _, label, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    classes = len(counts)
    means = _class_sums(states, label, classes) / counts[:, None]
    centre = states.mean(0) if by_size else means.mean(0)
    total = (states - states.mean(0)).square().sum(1).mean().sqrt()
    spreads, axes = _axes(means - centre, total)
    if not len(spreads) or int(counts.max()) < 2:  # one text has no spread of its own
        return states.new_tensor(_NAN)
    deviations = (states @ axes.T - (means @ axes.T)[label]).square()
    if by_size:
        within = deviations.mean(0) * classes
    else:
        within = (_class_sums(deviations, label, classes) / counts[:, None]).sum(0)
    return torch.sum(within / spreads.square()) / classes


def _axes(centred_means: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """Return spreads and axes of the class means, without axes on which they differ by rounding only."""
    _, spreads, axes = torch.linalg.svd(centred_means, full_matrices=False)
    is_axis = (spreads > _SMALLEST * total) & (spreads > _SMALLEST * spreads.max())
    return spreads[is_axis], axes[is_axis]


def crossfitted(states: Tensor, labels: Tensor, thirds: Tensor) -> Tensor:
    """Return the variability of one layer from a division of the texts into three parts.

    With G = M M' and W = M S_w M' in the space of classes (M the centred class means, one row each), variability is
    trace(pinv(G) W pinv(G)). Both factors of each product come from different parts, averaged over the three rotations
    of the parts.

    Args:
        states: (texts, width), float64.
        labels: (texts,).
        thirds: (texts,), 0, 1 or 2.
    """
    names, label = torch.unique(labels, return_inverse=True)
    classes = len(names)
    if any(int(torch.bincount(label[thirds == part], minlength=classes).min()) < 2 for part in range(3)):
        return states.new_tensor(_NAN)
    parts = [_part(states[thirds == part], label[thirds == part], classes) for part in range(3)]
    gram, spread = states.new_zeros(classes, classes), states.new_zeros(classes, classes)
    for first, second, third in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        means, other_means, within = parts[first][0], parts[second][0], parts[third][1]
        gram += means @ other_means.T / 3
        spread += (within @ means.T).T @ (within @ other_means.T) / 3  # M1 S_w M2' without forming S_w
    # Centred means sum to zero: one axis is empty, and rounding errors on it must not count as another.
    basis = _contrasts(classes)
    gram, spread = (basis.T @ (matrix + matrix.T) @ basis / 2 for matrix in (gram, spread))
    values, axes = torch.linalg.eigh(gram)
    total = (states - states.mean(0)).square().sum(1).mean()
    if bool((values <= _SMALLEST**2 * total).any()):
        return states.new_tensor(_NAN)
    value = torch.sum((axes.T @ spread @ axes).diag() / values.square())
    return value if bool(value > 0) else states.new_tensor(_NAN)


def _contrasts(classes: int) -> Tensor:
    """Return (classes, classes - 1): orthonormal axes of the space that sums to zero over classes."""
    centred = torch.eye(classes, dtype=torch.float64)[:, 1:] - 1 / classes
    basis: Tensor = torch.linalg.qr(centred).Q
    return basis


def _part(states: Tensor, label: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return centred class means, and each text's deviation weighted so that the squares add up to S_w."""
    counts = torch.bincount(label, minlength=classes)
    means = _class_sums(states, label, classes) / counts[:, None]
    weights = (1 / (classes * (counts - 1).double())).sqrt()  # unbiased: the means are estimated from the same texts
    return means - means.mean(0), (states - means[label]) * weights[label][:, None]


def _class_sums(values: Tensor, label: Tensor, classes: int) -> Tensor:
    return values.new_zeros(classes, values.shape[1]).index_add_(0, label, values)
