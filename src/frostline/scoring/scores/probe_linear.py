"""The everyday probe: an exact linear fit on every layer."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scoring.probes.holdout import Part, estimate_metric, finite_states, make_predictions, probe_rows
from frostline.scoring.probes.logistic_solver import fit_logistic, fit_ridge
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate


@layer_score(
    fitted=True,
    better="high",
    paper="Tamkin et al. 2020, made exact",
    needs="labels",
    is_probe=True,
    name="probe.linear",
)
def probe_linear(evidence: Evidence, *, uncertainty: bool = True, penalty: float = 1.0) -> Estimate:
    """Held-out task metric of a linear classifier on the layer's states; high means that they separate the classes.

    Multinomial logistic regression on standardised states, to the optimum of scikit-learn's `LogisticRegression(C=1)`;
    ridge regression (`Ridge(alpha=1)`) for values to predict. Fitted on four fifths of the rows and evaluated on the
    others, the same rows for every layer; the uncertainty is that of the held-out rows. A metric that is an error has a
    minus sign. Held-out rows of a class that is not among the fitted rows count as errors; a layer with constant states
    predicts the most frequent class.

    Args:
        evidence: states, labels and groups.
        uncertainty: resample the held-out predictions.
        penalty: penalty on the squared weights.
    """
    layers = len(finite_states(evidence, evidence.pooling))
    rows = probe_rows(evidence)
    fit, held = rows.training, rows.held
    classes, codes = torch.unique(fit.labels, return_inverse=True) if evidence.has_classes else (None, None)
    outputs = [_fit_and_apply(fit, held, codes, layer, penalty) for layer in range(layers)]
    held_out = make_predictions(held, torch.stack(outputs), classes)
    return estimate_metric([held_out], seed=evidence.seed, uncertainty=uncertainty)


def _fit_and_apply(fit: Part, held: Part, codes: Tensor | None, layer: int, penalty: float) -> Tensor:
    pooling = fit.evidence.pooling
    states, others = (part.evidence.states[pooling][layer][part.rows] for part in (fit, held))
    if codes is None:
        return fit_ridge(states, fit.labels, penalty=penalty)(others)
    return fit_logistic(states, codes, penalty=penalty).logits(others)
