"""Fisher information: how strongly the model's predictions depend on the parameters of each layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.tokens import Tokens
from frostline.errors import OptionError, did_you_mean
from frostline.scoring.fisher.label_weights import Label
from frostline.scoring.fisher.sample import FisherSample
from frostline.scoring.fisher.squared_gradients import LayerSquares
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, jackknife_deviations

Norm = Literal["frobenius", "trace", "mean"]
NORMS: tuple[Norm, ...] = ("frobenius", "trace", "mean")

EXAMPLES = 100  # as in Lodha et al. 2023
HEADS = 3
BLOCKS = 10
MOST_EXACT = 5  # classes whose expectation is exact; an exact one takes as many backward passes as classes, less one
_PIECE = 1 << 13  # parameters per sum in double precision, so that they stay in the processor's cache


@layer_score(fitted=True, better="high", paper="Lodha et al. 2023, equation 1", needs="labels")
def fisher(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Size of the Fisher diagonal; high means that predictions depend strongly on the layer, so tune it.

    The diagonal is the mean over examples of the squared gradients of log p(label | text), over all labels, weighted by
    the model's own probabilities. The score is the root of the sum of its squares over the layer's parameters. (Lodha
    et al. 2023, equation 1.) It grows with the number of parameters; `fisher.mean` does not. The head is a fresh one at
    the last layer, and the score depends on it: it is averaged over several. With more than five classes one label per
    text and head is drawn from the model's own predictions instead.

    See `estimate_fisher` for the options and for the uncertainty.
    """
    return estimate_fisher(evidence, uncertainty=uncertainty)


@layer_score(fitted=True, name="fisher.trace", better="high", paper="Lodha et al. 2023, equation 1", needs="labels")
def fisher_trace(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Sum of the Fisher diagonal over the layer's parameters, instead of its Frobenius norm."""
    return estimate_fisher(evidence, norm="trace", uncertainty=uncertainty)


@layer_score(fitted=True, name="fisher.mean", better="high", paper="Lodha et al. 2023, equation 1", needs="labels")
def fisher_mean(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Mean of the Fisher diagonal over the layer's parameters, whatever their number."""
    return estimate_fisher(evidence, norm="mean", uncertainty=uncertainty)


@layer_score(fitted=True, name="fisher.true", better="high", paper="Lodha et al. 2023, equation 1", needs="labels")
def fisher_true(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Size of the Fisher diagonal with each text's true label instead of the model's own."""
    return estimate_fisher(evidence, label="true", uncertainty=uncertainty)


@layer_score(fitted=True, name="fisher.sampled", better="high", paper="Lodha et al. 2023, equation 1", needs="labels")
def fisher_sampled(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Size of the Fisher diagonal with one label per text drawn from the model's own predictions."""
    return estimate_fisher(evidence, label="sampled", uncertainty=uncertainty)


@layer_score(
    fitted=True, name="fisher.released", better="high", paper="Lodha et al. 2023, released script", needs="labels"
)
def fisher_released(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Size of the Fisher diagonal as in the script of Lodha et al. 2023: one text, logits, padding read as text.

    Three differences from `fisher`: a single example instead of about 100; squared gradients of the labels' logits
    instead of their log-probabilities, weighted by the labels' probabilities; and no attention mask, so that every
    layer attends to the padding that follows the text, up to the longest of 100 texts.
    """
    if evidence.encoder is not None and evidence.tokens is not None:
        tokens = _pad_as_text(evidence.tokens, evidence.encoder.config.pad_token_id or 0)
        evidence = replace(evidence, tokens=tokens)
    return estimate_fisher(evidence, label="logit", examples=1, uncertainty=uncertainty)


def estimate_fisher(
    evidence: Evidence,
    *,
    label: Label = "expected",
    norm: Norm = "frobenius",
    examples: int = EXAMPLES,
    heads: int = HEADS,
    uncertainty: bool = True,
) -> Estimate:
    """Return the Fisher score of layers 1..L, NaN for layer 0, as the mean over heads.

    The uncertainty is the sum of two parts. Examples: the norm is not linear in the diagonal, so that a score on a
    tenth of the examples is larger than the score on all of them; hence a jackknife, which leaves out one block of
    examples after the other. Heads: the variance of the mean over heads. Few heads make wide intervals: the degrees of
    freedom (Satterthwaite's) are then close to the number of heads less one. A head shifts all layers together, which
    comparisons between layers take into account.

    With many classes, the expectation over all labels is replaced by a label drawn for each text and head, which keeps
    the diagonal unbiased at the cost of two classes. Each block and each head has draws of its own, so that both parts
    of the uncertainty contain what sampling leaves: 2 to 5% of the score for 100 texts where we compared, on encoders
    whose intervals reach 5 to 50%. The trace and the mean are unbiased. The Frobenius norm of noisy squares is too
    large: by about 1% for 100 texts, and by more for fewer.

    Args:
        evidence: evidence with encoder and tokens.
        label: 'expected' over all labels (of up to five classes, else as 'sampled'), the 'true' one, one 'sampled' from
            the model's prediction, or the 'logit' of each instead of its log-probability, weighted by its probability.
            The prediction is a softmax over classes or over the choices of a question, in regression a Gaussian of unit
            variance.
        norm: 'frobenius', 'trace', or 'mean' over the layer's parameters.
        examples: largest number of rows, or questions, that are drawn from the evidence.
        heads: number of freshly initialised heads.
        uncertainty: also compute the uncertainty.
    """
    if norm not in NORMS:
        raise OptionError(f"norm {norm!r}{did_you_mean(norm, NORMS)}: must be one of {', '.join(NORMS)}")
    moments = _all_moments(evidence, label, examples, heads, BLOCKS if uncertainty else 1)
    scores = torch.stack([layer.scores(norm) for layer in moments])  # (layers 1..L, heads, 1 + blocks)
    scores = torch.cat([torch.full_like(scores[:1], torch.nan), scores])
    values = scores[:, :, 0].mean(1)
    if not uncertainty:
        return Estimate(values=values)
    return with_uncertainty(values, by_head=scores[:, :, 0].T, without_block=scores[:, :, 1:].mean(1).T)


def _pad_as_text(tokens: Tokens, pad: int) -> Tokens:
    """Return the texts with padding as if it were text: as long as the longest of the first 100, or cut there."""
    length = int(tokens.lengths[:EXAMPLES].max())
    ids = np.full((len(tokens), length), pad, dtype=np.int64)
    types = np.zeros_like(ids)
    for row, start in enumerate(tokens.starts):
        kept = min(length, int(tokens.lengths[row]))
        ids[row, :kept] = tokens.ids[start : start + kept]
        types[row, :kept] = tokens.types[start : start + kept]
    lengths = np.full(len(tokens), length, dtype=np.int64)
    return Tokens(ids=ids.reshape(-1), types=types.reshape(-1), lengths=lengths, truncated=tokens.truncated)


# From squares to scores --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Moments:
    """Sums for all norms of one layer's diagonal, on all examples and without each block of them.

    Args:
        sizes: (blocks,), number of examples.
        parameters: number of the layer's parameters.
        trace: (heads, blocks), the sum over parameters of each block's squares.
        products: (heads, blocks, blocks), the inner products over parameters of two blocks' squares.
    """

    sizes: Tensor
    parameters: int
    trace: Tensor
    products: Tensor

    def scores(self, norm: Norm) -> Tensor:
        """Return (heads, 1 + blocks): the norm of the diagonal on all examples, then without each block in turn."""
        if norm == "frobenius":
            with_all = self.products.sum(2)
            whole = with_all.sum(1, keepdim=True)
            without = whole - 2 * with_all + self.products.diagonal(dim1=1, dim2=2)
            sums = torch.cat([whole, without], 1).clamp(min=0).sqrt()
        else:
            whole = self.trace.sum(1, keepdim=True)
            sums = torch.cat([whole, whole - self.trace], 1) / (self.parameters if norm == "mean" else 1)
        return sums / torch.cat([self.sizes.sum()[None], self.sizes.sum() - self.sizes])


def _moments(squares: LayerSquares, sizes: Tensor) -> _Moments:
    """Return the moments in double precision: fourth powers exceed the range of single precision."""
    heads, blocks, parameters = squares.sums.shape
    trace = torch.zeros(heads, blocks, dtype=torch.float64, device=squares.sums.device)
    products = torch.zeros(heads, blocks, blocks, dtype=torch.float64, device=squares.sums.device)
    for piece in torch.split(squares.sums, _PIECE, dim=2):
        block = piece.double()
        trace += block.sum(2)
        products += block @ block.mT
    return _Moments(sizes=sizes, parameters=parameters, trace=trace.cpu(), products=products.cpu())


def _all_moments(evidence: Evidence, label: Label, examples: int, heads: int, blocks: int) -> list[_Moments]:
    """Return the moments of layers 1..L, computed once for all norms of one diagonal."""
    if label == "expected" and evidence.kind == "classification" and len(torch.unique(evidence.labels)) > MOST_EXACT:
        label = "sampled"

    def compute() -> list[_Moments]:
        sample = FisherSample(evidence, label=label, examples=examples, heads=heads, blocks=blocks)
        sizes = sample.sizes()
        return [_moments(squares, sizes) for squares in sample.squares()][::-1]

    return evidence.remember(("fisher", label, examples, heads, blocks), compute)


def with_uncertainty(values: Tensor, *, by_head: Tensor, without_block: Tensor) -> Estimate:
    """Return the estimate from scores by head, (heads, layers), and scores without each block, (blocks, layers)."""
    parts = []
    if len(without_block) > 1:
        parts.append(jackknife_deviations(without_block))
    if len(by_head) > 1:
        scale = (len(by_head) * (len(by_head) - 1)) ** -0.5
        parts.append((by_head - by_head.mean(0)) * scale)
    if not parts:
        return Estimate(values=values)
    variances = [float(part[:, 1:].square().sum()) for part in parts]
    spread = sum(variance**2 / (len(part) - 1) for variance, part in zip(variances, parts, strict=True))
    freedom = sum(variances) ** 2 / spread if spread else float("inf")
    return Estimate(values=values, deviations=torch.cat(parts), freedom=freedom, method="blocks")
