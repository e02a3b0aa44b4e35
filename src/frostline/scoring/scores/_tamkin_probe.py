"""What the two linear probes of Tamkin et al. 2020 share: their options, and how they are trained and judged."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from typing import Any, Literal

import torch
from torch import Tensor

from frostline.errors import OptionError
from frostline.records import Recipe
from frostline.scoring.probes.holdout import estimate_metric, finite_states, make_predictions, probe_rows
from frostline.scoring.probes.trained import LinearProbes, losses, make_targets, train_probes
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.uncertainty import Estimate, from_trials


@dataclass(frozen=True, kw_only=True)
class TamkinRecipe:
    """How a linear probe is trained and judged.

    Args:
        trials: number of trials.
        epochs: largest number of epochs.
        patience: epochs without improvement before a layer stops.
        learning_rate: rate of Adam.
        batch: rows per step.
        intervals: 'rows' to resample rows and trials, or 'trials' for Student's t over trials, as in the paper.
    """

    trials: int = 8
    epochs: int = 40
    patience: int = 3
    learning_rate: float = 1e-3
    batch: int = 32
    intervals: Literal["rows", "trials"] = "rows"

    def __post_init__(self) -> None:
        if self.intervals not in ("rows", "trials"):
            raise OptionError(f"intervals {self.intervals!r}: must be 'rows' or 'trials'")


def options_of_recipe(function: Callable[[Evidence, TamkinRecipe, bool], Estimate]) -> Callable[..., Estimate]:
    """Return a score whose options are the fields of the recipe."""

    @wraps(function)
    def estimate(evidence: Evidence, *, uncertainty: bool = True, **options: Any) -> Estimate:
        return function(evidence, TamkinRecipe(**options), uncertainty)

    named = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        inspect.Parameter("evidence", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        named("uncertainty", default=True),
        *(named(field.name, default=field.default) for field in fields(TamkinRecipe)),
    ]
    estimate.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return estimate


def estimate_probe(evidence: Evidence, asked: TamkinRecipe, uncertainty: bool) -> Estimate:
    """Return the held-out task metric of a linear softmax probe on states of pooling 'all', the mean over trials."""
    states = finite_states(evidence, "all")
    recipe = Recipe(schedule="constant", warmup=0, epochs=asked.epochs, batch=asked.batch, patience=asked.patience)
    trained = []
    for seed in range(evidence.seed, evidence.seed + asked.trials):
        rows = probe_rows(evidence, seed=seed)
        targets = make_targets(rows.training)
        outputs = train_probes(
            LinearProbes(len(states), states.shape[2], targets.outputs, seed=seed),
            "all",
            targets,
            rows,
            replace(recipe, seed=seed),
            judge=partial(_minus_loss, targets.encode(rows.check.labels)),
            learning_rate=asked.learning_rate,
        )
        trained.append(make_predictions(rows.held, targets.decode(outputs), targets.classes))
    if asked.intervals == "trials":
        return from_trials(torch.stack([trial.values() for trial in trained]), uncertainty=uncertainty)
    return estimate_metric(trained, seed=evidence.seed, uncertainty=uncertainty)


def _minus_loss(targets: Tensor, outputs: Tensor) -> Tensor:
    known = targets.is_floating_point() | (targets >= 0)  # a class that the training rows do not have has no output
    return -losses(outputs[:, known], targets[known]).double()
