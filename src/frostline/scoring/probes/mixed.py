"""A probe that reads all layers at once: their weighted mean, as in ELMo (Peters et al. 2018), or all side by side.

States of each layer are standardised by the rows that the probe is fitted on, so that a mix of one layer is the linear
probe of that layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from frostline.errors import OptionError
from frostline.scoring.probes.holdout import Part, estimate_metric, finite_states, make_predictions, probe_rows
from frostline.scoring.probes.logistic_solver import LinearFit, fit_logistic, fit_ridge
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.uncertainty import Estimate

_ROUNDING = 1e-6  # as in the linear probe: an entry that varies less is constant
_MOST_STEPS = 50  # of the weights of layers


@dataclass(frozen=True, kw_only=True)
class MixedProbe:
    """The result of a probe on a mix of layers.

    Args:
        estimate: its held-out metric, as the only value; an error has a minus sign.
        layers: the layers that it reads, 0..L.
        shares: the weight of each of them, adding up to 1; None if they are side by side.
    """

    estimate: Estimate
    layers: tuple[int, ...]
    shares: tuple[float, ...] | None


def fit_mixed_probe(
    evidence: Evidence,
    *,
    mix: Literal["weighted", "concatenated"] = "weighted",
    layers: Sequence[int] | None = None,
    penalty: float = 1.0,
    uncertainty: bool = True,
) -> MixedProbe:
    """Return the held-out metric of a linear classifier, or of ridge regression, on a mix of frozen layers.

    Fitted and judged on the same rows as `probe.linear`. The objective is that of `probe.linear`: summed cross-entropy
    plus half the penalty times the squared weights, or summed squared errors plus the penalty. With 'weighted' the
    shares of layers are a softmax, starting from equal ones, and minimise the same objective; for each choice of shares
    the classifier is solved exactly.

    Args:
        evidence: states, labels and groups.
        mix: 'weighted' mean of the layers' states, or the states 'concatenated'.
        layers: layers to mix, 0..L; all by default.
        penalty: penalty on the squared weights.
        uncertainty: resample the held-out predictions.
    """
    if mix not in ("weighted", "concatenated"):
        raise OptionError(f"mix {mix!r}: must be 'weighted' or 'concatenated'")
    depth = len(finite_states(evidence, evidence.pooling)) - 1
    chosen = tuple(range(depth + 1) if layers is None else layers)
    if not chosen or not all(0 <= layer <= depth for layer in chosen):
        raise OptionError(f"layers {list(chosen)}: must be some of 0..{depth}")
    rows = probe_rows(evidence)
    classes, codes = torch.unique(rows.training.labels, return_inverse=True) if evidence.has_classes else (None, None)
    training, held = _standardised(rows.training, rows.held, chosen)
    fit = _Fit(targets=rows.training.labels.double() if codes is None else codes, penalty=penalty)
    if mix == "concatenated":
        shares = None
        outputs = _outputs_side_by_side(training, held, fit)
    else:
        shares = _best_shares(training, fit)
        outputs = fit.solve(_mixed(training, shares))(_mixed(held, shares))
    predictions = make_predictions(rows.held, outputs[None], classes)
    return MixedProbe(
        estimate=estimate_metric([predictions], seed=evidence.seed, uncertainty=uncertainty),
        layers=chosen,
        shares=None if shares is None else tuple(shares.tolist()),
    )


def _standardised(training: Part, held: Part, layers: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return (layers, rows, width) of both parts in float64, standardised by the training rows; constants become 0."""
    states, others = (
        torch.stack([part.evidence.states[part.evidence.pooling][layer][part.rows].double() for layer in layers])
        for part in (training, held)
    )
    centre, scale = states.mean(1, keepdim=True), states.std(1, correction=0, keepdim=True)
    is_constant = scale <= _ROUNDING * torch.maximum(centre.abs(), scale.amax(2, keepdim=True))
    inverse = torch.where(is_constant, 0.0, 1 / scale)
    return (states - centre) * inverse, (others - centre) * inverse


def _mixed(states: Tensor, shares: Tensor) -> Tensor:
    """Return (rows, width): the weighted mean of (layers, rows, width)."""
    return torch.einsum("lrw,l->rw", states, shares)


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """The objective of a probe.

    Args:
        targets: (rows,), class numbers from 0, or values in float64.
        penalty: penalty on the squared weights.
    """

    targets: Tensor
    penalty: float

    def solve(self, states: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the fitted function from states to (rows, outputs), one output per class or a value."""
        fit = self.linear(states)
        return fit if self.targets.is_floating_point() else fit.logits

    def linear(self, states: Tensor) -> LinearFit:
        """Return the fit to states that are used as they are, apart from their mean."""
        if self.targets.is_floating_point():
            return fit_ridge(states, self.targets, penalty=self.penalty, scaled=False)
        return fit_logistic(states, self.targets, penalty=self.penalty, tolerance=1e-7, scaled=False)

    def value_and_slopes(self, states: Tensor, shares: Tensor) -> tuple[float, Tensor]:
        """Return the least objective for these shares, and its derivatives with respect to them.

        At the optimum of the weights, only the direct effect of shares on the outputs counts (the envelope theorem).
        """
        fit = self.linear(_mixed(states, shares))
        outputs = fit(_mixed(states, shares))
        if self.targets.is_floating_point():
            errors = outputs - self.targets[:, None]
            loss, slopes = errors.square().sum(), 2 * errors
            shrinkage = self.penalty * fit.weights.square().sum()
        else:
            logits = torch.cat([torch.zeros_like(outputs), outputs], 1) if outputs.shape[1] == 1 else outputs
            loss = F.cross_entropy(logits, self.targets, reduction="sum")
            slopes = (logits.softmax(1) - F.one_hot(self.targets, logits.shape[1]))[:, -outputs.shape[1] :]
            shrinkage = self.penalty / 2 * fit.weights.square().sum()
        by_layer = torch.einsum("lrw,ro,wo->l", states, slopes, fit.weights)
        return float(loss + shrinkage), by_layer


def _best_shares(states: Tensor, fit: _Fit) -> Tensor:
    """Return (layers,): the shares that minimise the objective, from equal ones on."""
    from scipy.optimize import minimize

    def objective(logits: np.ndarray) -> tuple[float, np.ndarray]:
        shares = torch.from_numpy(logits).softmax(0)
        value, slopes = fit.value_and_slopes(states, shares)
        return value, (shares * (slopes - shares @ slopes)).numpy()

    if len(states) == 1:
        return torch.ones(1, dtype=torch.float64)
    solution = minimize(objective, np.zeros(len(states)), jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS})
    return torch.from_numpy(solution.x).softmax(0)


def _outputs_side_by_side(training: Tensor, held: Tensor, fit: _Fit) -> Tensor:
    """Return (rows, outputs) of the held-out rows, from the fit to all layers side by side.

    With fewer rows than entries the weights lie in the span of the rows, so that the fit in an orthonormal basis of it
    is the same one and much cheaper.
    """
    wide, others = (states.transpose(0, 1).flatten(1) for states in (training, held))
    if wide.shape[1] > len(wide):
        squares, left = torch.linalg.eigh(wide @ wide.T)
        kept = squares > torch.finfo(squares.dtype).eps * len(wide) * squares[-1]
        basis = wide.T @ (left[:, kept] / squares[kept].sqrt())
        wide, others = wide @ basis, others @ basis
    return fit.solve(wide)(others)
