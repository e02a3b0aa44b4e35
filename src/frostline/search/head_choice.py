"""The head of all plans of a search: the family's own on the first token, or on the mean of all tokens.

Which tokens tell the classes apart depends on how an encoder was trained. So linear probes of both decide, on rows that
they were not fitted on, at the layer of the upper half where each is best.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.average_head import can_average
from frostline.encoders.encoder import Encoder
from frostline.kernels.batch_layout import Ints
from frostline.scoring.probes.logistic_solver import fit_logistic, fit_ridge
from frostline.states.pooled import Pooling, SeenTexts
from frostline.tasks import Task

SearchedHead = Literal["family", "average"]
POOLINGS: tuple[Pooling, ...] = ("mean", "first")
_FOLDS = 3
_PENALTY = 0.1  # for each row; the best of four powers of ten on two development sets of 1,000 rows
_MOST_ROWS = 2_000


def choose_head(encoder: Encoder, task: Task, seen: SeenTexts, *, seed: int = 0) -> SearchedHead:
    """Return the head whose probe has the lower error: squared errors of values, wrong classes otherwise.

    Args:
        encoder: the encoder.
        task: the task.
        seen: pooled states of training texts.
        seed: seed of the folds.
    """
    if task.kind == "multiple choice" or not can_average(encoder):
        return "family"
    some = np.sort(np.random.default_rng(seed).permutation(len(seen.texts))[:_MOST_ROWS])
    labels = torch.tensor([task.train.labels[number] for number in seen.texts[some]])
    if len(labels) < 2 * _FOLDS:
        return "average"
    errors = {
        pooling: min(
            _error(states[torch.as_tensor(some)], labels, seed=seed)
            for states in seen.states[pooling][encoder.depth // 2 :]
        )
        for pooling in POOLINGS
    }
    return "average" if errors["mean"] <= errors["first"] else "family"


def _error(states: Tensor, labels: Tensor, *, seed: int) -> float:
    """Return the error of a probe on rows that were left out, each row once."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return sum(_error_on(states, labels, fold, np.setdiff1d(order, fold)) for fold in np.array_split(order, _FOLDS))


def _error_on(states: Tensor, labels: Tensor, fold: Ints, rest: Ints) -> float:
    held, fitted = torch.as_tensor(fold), torch.as_tensor(rest)
    penalty = _PENALTY * len(fitted)
    if labels.is_floating_point():
        guesses = fit_ridge(states[fitted], labels[fitted], penalty=penalty)(states[held])[:, 0]
        return float((guesses - labels[held]).square().sum())
    classes, codes = torch.unique(labels[fitted], return_inverse=True)
    if len(classes) == 1:
        return float((labels[held] != classes[0]).sum())
    outputs = fit_logistic(states[fitted], codes, penalty=penalty, tolerance=1e-3).logits(states[held])
    return float((classes[outputs.argmax(1)] != labels[held]).sum())
