"""A head alone, solved instead of trained: its last linear layer is fitted to the optimum, the rest of it stays as is.

This takes about a second where training takes thousands of steps. The penalty on squared weights is chosen by
cross-validation within the rows, so that a head can be solved again on more rows without others to choose on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from frostline.errors import OptionError
from frostline.progress import Progress, Step, silent
from frostline.records import Recipe
from frostline.scoring.probes.logistic_solver import LinearFit, fit_logistic, fit_ridge
from frostline.training.dataset import Examples
from frostline.training.freeze_audit import Audit, AuditReport
from frostline.training.loop import Trained, judge, loss_of
from frostline.training.model import Tunable

PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # on the squared weights, for standardised features
LEFT_OUT = "left_out_loss"  # name in the record: the mean loss on training rows that a fold left out
_FOLDS = 3
_MOST_ROWS = 5_000  # for choosing the penalty
_NEVER = -30.0  # the logit of a class that no row has


def solve(
    tunable: Tunable,
    rows: Examples,
    validation: Examples | None,
    recipe: Recipe,
    *,
    metrics: tuple[str, ...],
    progress: Progress = silent,
) -> Trained:
    """Fit the last linear layer of a head alone, in place.

    Args:
        tunable: the model, of which no layer is tuned; changed in place.
        rows: the training rows.
        validation: rows to judge it on, if there are any.
        recipe: seed of the folds.
        metrics: names of task metrics.
        progress: progress callback.
    """
    kind = tunable.head.kind
    if tunable.plan.layers or kind == "multiple choice":
        raise OptionError(f"schedule 'solved': solves heads alone, of classes and values, not plan {tunable.plan}")
    progress(Step(stage="training", detail="solving the head", done=0, total=1))
    started = time.perf_counter()
    features = features_of(tunable, rows)
    penalty, left_out = best_penalty(features, rows.labels, tunable, seed=recipe.seed)
    last = last_linear(tunable)
    report = _fill(tunable, last, *_solved(features, rows.labels, last.out_features, kind, penalty))
    outputs = None if validation is None else validation.outputs(tunable)
    record: dict[str, float] = {
        "step": 1,
        "epoch": 1.0,
        "loss": _loss(features, rows.labels, last, kind),
        "learning_rate": 0.0,
        "penalty": penalty,
        LEFT_OUT: left_out,
    }
    if validation is not None and outputs is not None:
        values = judge(outputs, validation.labels, metrics, kind)
        values["loss"] = loss_of(outputs, validation.labels, kind).item()
        record |= {f"validation_{name}": value for name, value in values.items()}
    record["seconds"] = round(time.perf_counter() - started, 3)
    progress(Step(stage="training", detail="solving the head", done=1, total=1))
    return Trained(history=(record,), best=record, audit=report, seconds=time.perf_counter() - started, outputs=outputs)


def last_linear(tunable: Tunable) -> nn.Linear:
    """Return the layer of the head that makes its outputs."""
    return [module for module in tunable.head.modules() if isinstance(module, nn.Linear)][-1]


def features_of(tunable: Tunable, rows: Examples) -> Tensor:
    """Return the inputs of the head's last layer, (rows, width)."""
    with _without(tunable.head, last_linear(tunable)):
        return rows.outputs(tunable)


@contextlib.contextmanager
def _without(module: nn.Module, part: nn.Module) -> Iterator[None]:
    """Let a part of a module pass its input through within the block."""
    path = next(name for name, each in module.named_modules() if each is part)
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, nn.Identity())
    try:
        yield
    finally:
        setattr(module.get_submodule(parent), name, part)


def best_penalty(features: Tensor, labels: Tensor, tunable: Tunable, *, seed: int) -> tuple[float, float]:
    """Return the penalty with the lowest mean loss on rows that were left out, and that loss; each row is so once."""
    kind, outputs = tunable.head.kind, last_linear(tunable).out_features
    order = np.random.default_rng(seed).permutation(len(features))[:_MOST_ROWS]
    folds = [torch.as_tensor(fold) for fold in np.array_split(order, _FOLDS)]
    if min(map(len, folds)) == 0:
        return PENALTIES[-1], 0.0
    losses = []
    for penalty in PENALTIES:
        total = 0.0
        for fold in folds:
            rest = torch.as_tensor(np.setdiff1d(order, fold.numpy()))
            weights, bias = _solved(features[rest], labels[rest], outputs, kind, penalty)
            guesses = torch.nn.functional.linear(features[fold].double(), weights, bias)
            total += len(fold) * loss_of(guesses, labels[fold], kind).item()
        losses.append(total / len(order))
    return PENALTIES[int(np.argmin(losses))], min(losses)


def _solved(features: Tensor, labels: Tensor, outputs: int, kind: str, penalty: float) -> tuple[Tensor, Tensor]:
    """Return the weights (outputs, width) and the biases of the least loss, for features as they are."""
    if kind == "regression":
        return _plain(fit_ridge(features, labels, penalty=penalty))
    classes, codes = torch.unique(labels, return_inverse=True)
    weights = features.new_zeros((outputs, features.shape[1]), dtype=torch.float64)
    bias = weights.new_full((outputs,), _NEVER)
    if len(classes) == 1:
        bias[classes] = 0.0
        return weights, bias
    fitted, intercepts = _plain(fit_logistic(features.double(), codes, penalty=penalty))
    fitted_classes = classes if len(fitted) == len(classes) else classes[1:]  # two classes have one output
    bias[classes] = 0.0
    weights[fitted_classes], bias[fitted_classes] = fitted, intercepts
    return weights, bias


def _plain(fit: LinearFit) -> tuple[Tensor, Tensor]:
    """Return weights and biases for features that are not standardised."""
    weights = fit.weights.double() * fit.inverse_scale.double()[:, None]
    return weights.T, fit.intercepts.double() - fit.centre.double() @ weights


def _fill(tunable: Tunable, last: nn.Linear, weights: Tensor, bias: Tensor) -> AuditReport:
    """Put the solution into the head, and check that nothing else has changed."""
    others = [value for value in tunable.trainable().values() if all(value is not own for own in last.parameters())]
    for value in others:
        value.requires_grad_(False)
    audit = Audit(tunable)
    with torch.no_grad():
        last.weight.copy_(weights)
        last.bias.copy_(bias)
    report = audit.at_end(None, updates=1)
    for value in others:
        value.requires_grad_(True)
    return report


def _loss(features: Tensor, labels: Tensor, last: nn.Linear, kind: str) -> float:
    with torch.no_grad():
        return loss_of(last(features.to(last.weight.device)).cpu(), labels, kind).item()
