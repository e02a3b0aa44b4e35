"""The linear probe as in Tamkin et al. 2020."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from frostline.errors import OptionError
from frostline.scoring.probes.holdout import (
    INNER_PARTS,
    estimate_metric,
    finite_states,
    hold_out,
    make_predictions,
    part_rows,
)
from frostline.scoring.probes.trained import LinearProbes, losses, make_targets, train_probes
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, from_trials


@layer_score(
    fitted=True,
    better="high",
    paper="Tamkin et al. 2020, section 3",
    needs="labels",
    is_probe=True,
    name="probe.linear.paper",
    pooling="all",
)
def probe_linear_paper(
    evidence: Evidence,
    *,
    uncertainty: bool = True,
    trials: int = 8,
    epochs: int = 40,
    patience: int = 3,
    learning_rate: float = 1e-3,
    batch: int = 32,
    intervals: Literal["rows", "trials"] = "rows",
) -> Estimate:
    """Held-out task metric of a linear softmax probe on the mean of all tokens, trained as in Tamkin et al. 2020.

    Adam, early stopping, at most 40 epochs, the mean of 8 trials. Every trial draws its own held-out fifth, its own
    tenth of the other rows for early stopping on the loss, its own initial weights and order of rows. The paper trains
    on the whole dataset with rate 2e-5 and batches of 8; a sample needs a larger rate. States are not standardised. The
    uncertainty comes from resampling rows and trials.

    Args:
        evidence: states of pooling 'all', labels and groups.
        uncertainty: compute an interval.
        trials: number of trials.
        epochs: largest number of epochs.
        patience: epochs without improvement before a layer stops.
        learning_rate: rate of Adam.
        batch: rows per step.
        intervals: 'rows' to resample rows and trials, or 'trials' for Student's t over trials, as in the paper.
    """
    if intervals not in ("rows", "trials"):
        raise OptionError(f"intervals {intervals!r}: must be 'rows' or 'trials'")
    states = finite_states(evidence, "all").float()
    trained = []
    for seed in range(evidence.seed, evidence.seed + trials):
        training, held = hold_out(evidence, seed=seed)
        fit, check = part_rows(evidence, training, INNER_PARTS, seed=seed)
        targets = make_targets(evidence, training)
        outputs = train_probes(
            LinearProbes(len(states), states.shape[2], targets.outputs, seed=seed),
            states,
            targets.values,
            fit=fit,
            check=check,
            held=held,
            judge=partial(_minus_loss, targets.values[check]),
            learning_rate=learning_rate,
            epochs=epochs,
            batch=batch,
            seed=seed,
            patience=patience,
        )
        trained.append(make_predictions(evidence, held, targets.decode(outputs), targets.classes))
    if intervals == "trials":
        return from_trials(torch.stack([trial.values() for trial in trained]), uncertainty=uncertainty)
    return estimate_metric(trained, seed=evidence.seed, uncertainty=uncertainty)


def _minus_loss(targets: Tensor, outputs: Tensor) -> Tensor:
    return -losses(outputs, targets).double()
