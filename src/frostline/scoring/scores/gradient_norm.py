"""Relative gradient norm: how strongly the task's loss pulls at the weights of each layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import FamilyHead, logits_of
from frostline.errors import MeasureError, OptionError
from frostline.kernels.batch_layout import Layout
from frostline.scoring.fisher.sample import fresh_head
from frostline.scoring.gradient_sums import LabelledBlocks, Outputs, relative_gradient_norms
from frostline.scoring.probes.logistic_solver import fit_logistic, fit_ridge
from frostline.scoring.score_inputs import Evidence, numbered
from frostline.scoring.scores import layer_score
from frostline.scoring.scores.fisher import HEADS, with_uncertainty
from frostline.scoring.uncertainty import Estimate

EXAMPLES = 1_000
BLOCKS = 5  # each holds a gradient of all layers, so that five take about the memory of full fine-tuning


@layer_score(fitted=True, better="high", paper="Lee et al. 2023", needs="labels", pooling="all")
def gradient_norm(
    evidence: Evidence,
    *,
    uncertainty: bool = True,
    head: Literal["fitted", "fresh"] = "fitted",
    penalty: float = 1.0,
    examples: int = EXAMPLES,
) -> Estimate:
    """Norm of the loss's gradient over that of the weights; high means that the task pulls at the layer.

    For each tensor of the layer, the norm of the gradient of the mean loss of the rows, divided by the norm of the
    weights; the score is the mean over tensors, norms and biases included. Lee et al. 2023 (surgical fine-tuning,
    Auto-RGN) average this ratio over a few batches, whose gradients are noisier, and leave out batch norms.

    Their models come with a trained head. Here it is a linear probe on the mean of all tokens at the last layer. Rows
    are halved by group, and the loss of each half is that of the probe fitted on the other half, because a probe
    leaves little to learn on the rows that it was fitted on. The uncertainty is that of the rows, for given heads.

    Args:
        evidence: evidence with encoder and tokens.
        uncertainty: also compute the uncertainty.
        head: 'fitted', or 'fresh' for the mean over freshly initialised heads of the family, as in the Fisher score.
        penalty: penalty on the squared weights of fitted heads.
        examples: largest number of rows, or questions, that are drawn from the evidence.
    """
    if evidence.encoder is None or evidence.tokens is None:
        raise MeasureError("gradient_norm needs the encoder and the tokens of the texts, not only their states")
    if head not in ("fitted", "fresh"):
        raise OptionError(f"head {head!r}: must be 'fitted' or 'fresh'")
    if examples < 2:
        raise OptionError(f"examples {examples}: at least 2 are needed")
    encoder, evidence = evidence.encoder, evidence.take(_drawn(evidence, examples))
    labels, outputs = _labels(evidence)
    if head == "fitted":
        heads = [_fitted_head(encoder, evidence, labels, outputs, penalty=penalty)]
    else:
        seeds = range(evidence.seed * HEADS, (evidence.seed + 1) * HEADS)
        heads = [_applied(fresh_head(encoder, evidence.kind, outputs, seed=seed)) for seed in seeds]
    rows = _in_blocks(evidence, labels)
    norms = [relative_gradient_norms(encoder, rows, one, by_block=uncertainty) for one in heads]
    scores = torch.stack(norms)  # (heads, 1 + blocks, layers 1..L)
    scores = torch.cat([torch.full_like(scores[:, :, :1], torch.nan), scores], dim=2)
    values = scores[:, 0].mean(0)
    if not uncertainty:
        return Estimate(values=values)
    return with_uncertainty(values, by_head=scores[:, 0], without_block=scores[:, 1:].mean(0))


def _numbers(evidence: Evidence) -> Tensor:
    """Return (rows,): the number from 0 of each row's example, which is the row or, with choices, its question."""
    is_choice = evidence.kind == "multiple choice"
    return torch.unique(evidence.groups, return_inverse=True)[1] if is_choice else torch.arange(len(evidence))


def _drawn(evidence: Evidence, examples: int) -> Tensor:
    """Return the numbers of the rows of at most this many examples, drawn at random."""
    number = _numbers(evidence)
    order = torch.randperm(int(number.max()) + 1, generator=torch.Generator().manual_seed(evidence.seed))
    return torch.isin(number, order[:examples]).nonzero()[:, 0]


def _in_blocks(evidence: Evidence, labels: Tensor) -> LabelledBlocks:
    assert evidence.tokens is not None  # noqa: S101 (checked by the score)
    return LabelledBlocks(
        tokens=evidence.tokens,
        kind=evidence.kind,
        labels=labels,
        example=_numbers(evidence),
        block=evidence.blocks(BLOCKS),
    )


def _labels(evidence: Evidence) -> tuple[Tensor, int]:
    """Return (rows,), class numbers from 0 where there are classes; and the number of outputs of a head."""
    if evidence.kind != "classification":
        return evidence.labels, 1
    classes, codes = numbered(evidence.labels)
    if len(classes) < 2:
        raise MeasureError("gradient_norm needs rows of at least two classes, and all rows are of one")
    return codes, len(classes)


def _applied(head: FamilyHead) -> Outputs:
    return lambda states, layout, rows: logits_of(head, states, layout)


def _fitted_head(encoder: Encoder, evidence: Evidence, labels: Tensor, outputs: int, *, penalty: float) -> Outputs:
    """Return a head that applies to each half of the rows the probe that was fitted on the other half."""
    half, pooled = evidence.blocks(2), evidence.states["all"][-1]
    others = [half != number for number in (0, 1)]
    fit = _fit_values if evidence.kind == "regression" else _fit_choices if outputs == 1 else _fit_classes
    probes = [fit(pooled[rows], labels[rows], outputs, penalty) for rows in others]

    def apply(states: Tensor, layout: Layout, rows: Tensor) -> Tensor:
        means = layout.mean(encoder.finish(states), skip_first=False).cpu()
        return torch.stack([probe(means) for probe in probes])[half[rows], torch.arange(len(rows))]

    return apply


def _fit_values(states: Tensor, values: Tensor, outputs: int, penalty: float) -> Callable[[Tensor], Tensor]:
    return fit_ridge(states, values, penalty=penalty)


def _fit_choices(states: Tensor, is_right: Tensor, outputs: int, penalty: float) -> Callable[[Tensor], Tensor]:
    """Return the function from pooled states to the logit of being right."""
    return fit_logistic(states, is_right, penalty=penalty)


def _fit_classes(states: Tensor, classes: Tensor, outputs: int, penalty: float) -> Callable[[Tensor], Tensor]:
    """Return the function from pooled states to logits, minus infinity for classes that these rows do not have."""
    present, dense = torch.unique(classes, return_inverse=True)
    if len(present) < 2:
        raise MeasureError("gradient_norm fits a head on each half of the rows, and one half has a single class")
    fit = fit_logistic(states, dense, penalty=penalty)

    def logits(pooled: Tensor) -> Tensor:
        known = fit.logits(pooled)
        return known.new_full((len(known), outputs), -torch.inf).index_copy(1, present, known)

    return logits
