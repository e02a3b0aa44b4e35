"""Which gradients to square so that their sum is the expectation over the model's own predictions.

Gradients of log p(label) are those of the logits, weighted. The expected square over labels is a quadratic form in the
logits' gradients with the matrix diag(p) - pp', which has rank classes - 1. With any root of it, the squares of its
columns add up to the expectation over all labels exactly, with one gradient fewer than classes, and with a single one
for two classes.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from frostline.errors import OptionError, did_you_mean
from frostline.tasks.task import Kind

Label = Literal["expected", "true", "sampled", "logit"]
LABELS: tuple[Label, ...] = ("expected", "true", "sampled", "logit")

_TINY = 1e-300  # keeps 0/0 at 0


def answer_weights(
    logits: Tensor, *, kind: Kind, label: Label, labels: Tensor, example: Tensor, draws: Tensor
) -> Tensor:
    """Return (directions, texts, outputs): weights of the logits' gradients; each direction is to be squared.

    Args:
        logits: (texts, outputs), float64; one output for regression and multiple choice.
        kind: classification, regression (a Gaussian of unit variance around the output) or multiple choice (a softmax
            over the outputs of an example's texts).
        label: expected over the labels, true, or sampled; or the logits themselves, weighted by probabilities.
        labels: (texts,), class numbers from 0, values, or 1 at the right choice.
        example: (texts,), the example from 0 of each text, ascending.
        draws: (examples,), uniform in 0..1, for sampled labels.
    """
    if label not in LABELS:
        raise OptionError(f"label {label!r}{did_you_mean(label, LABELS)}: must be one of {', '.join(LABELS)}")
    if kind == "regression":
        return _of_gaussian(logits, label, labels, draws)
    if kind == "classification":
        return _of_softmax(logits, label, labels, draws)
    choice = torch.arange(len(example)) - torch.searchsorted(example, example)
    shape = (len(draws), int(choice.max()) + 1)
    by_example = logits.new_full(shape, -torch.inf).index_put((example, choice), logits[:, 0])
    right = torch.zeros(shape).index_put((example, choice), labels.to(torch.get_default_dtype()))
    return _of_softmax(by_example, label, right.argmax(1), draws)[:, example, choice, None]


def _of_gaussian(outputs: Tensor, label: Label, labels: Tensor, draws: Tensor) -> Tensor:
    """The gradient of log N(y; f, 1) is (y - f) times that of f, and the expected square of y - f is 1."""
    if label in ("expected", "logit"):
        return torch.ones_like(outputs)[None]
    if label == "true":
        return (labels[:, None] - outputs)[None]
    noise: Tensor = torch.special.ndtri(draws)
    return noise[None, :, None]


def _of_softmax(logits: Tensor, label: Label, labels: Tensor, draws: Tensor) -> Tensor:
    """Return (directions, examples, classes) from (examples, classes)."""
    probabilities = logits.softmax(1)
    if label == "expected":
        return multinomial_root(probabilities).permute(2, 0, 1)
    if label == "logit":
        return torch.diag_embed(probabilities.sqrt()).permute(1, 0, 2)
    if label == "sampled":
        labels = (draws[:, None] > probabilities.cumsum(1)[:, :-1]).sum(1)
    return (F.one_hot(labels, logits.shape[1]) - probabilities)[None]


def multinomial_root(probabilities: Tensor) -> Tensor:
    """Return (..., classes, classes - 1): a matrix B with BB' = diag(p) - pp', in closed form.

    The Cholesky factor of the multinomial covariance (Tanabe and Sagae 1992). With q_j = p_j + p_{j+1} + ..., column j
    has sqrt(p_j q_{j+1} / q_j) on the diagonal and -p_i sqrt(p_j / (q_j q_{j+1})) below it.
    """
    p = probabilities
    tails = p.flip(-1).cumsum(-1).flip(-1).clamp(min=_TINY)
    share = (p / tails)[..., :-1].sqrt()
    after = tails[..., 1:].sqrt()
    below = -p[..., :, None] * (share / after)[..., None, :]
    on_diagonal = F.pad(torch.diag_embed(share * after), (0, 0, 0, 1))
    return below.tril(-1) + on_diagonal
