"""The linear probe as in Tamkin et al. 2020."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from frostline.errors import OptionError
from frostline.records import Recipe
from frostline.scoring.probes.holdout import estimate_metric, finite_states, make_predictions, probe_rows
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
    tenth of the other rows for early stopping on the loss, its own initial weights and order of rows; where probes are
    judged on another split, all trials share it. The paper trains on the whole dataset with rate 2e-5 and batches of 8;
    a sample needs a larger rate. States are not standardised. The uncertainty comes from resampling rows and trials.

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
    states = finite_states(evidence, "all")
    recipe = Recipe(schedule="constant", warmup=0, epochs=epochs, batch=batch, patience=patience)
    trained = []
    for seed in range(evidence.seed, evidence.seed + trials):
        rows = probe_rows(evidence, seed=seed)
        targets = make_targets(rows.training)
        outputs = train_probes(
            LinearProbes(len(states), states.shape[2], targets.outputs, seed=seed),
            "all",
            targets,
            rows,
            replace(recipe, seed=seed),
            judge=partial(_minus_loss, targets.encode(rows.check.labels)),
            learning_rate=learning_rate,
        )
        trained.append(make_predictions(rows.held, targets.decode(outputs), targets.classes))
    if intervals == "trials":
        return from_trials(torch.stack([trial.values() for trial in trained]), uncertainty=uncertainty)
    return estimate_metric(trained, seed=evidence.seed, uncertainty=uncertainty)


def _minus_loss(targets: Tensor, outputs: Tensor) -> Tensor:
    known = targets.is_floating_point() | (targets >= 0)  # a class that the training rows do not have has no output
    return -losses(outputs[:, known], targets[known]).double()
