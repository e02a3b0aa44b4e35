"""Cosines of the first token's states: how much of its direction a layer keeps, without any labels."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, jackknife
from frostline.states.angles import cosines


@layer_score(fitted=True, better="high", paper="after PRiSM (Biswas et al. 2026)", needs="nothing", pooling="first")
def first_token_cosine(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Cosine between a layer's input and output at the first token; high means that it keeps the direction.

    The mean over texts. PRiSM tunes the layers with the highest scores, by cosines of first-token states before tuning;
    we know its abstract only, and not its formula, so that neither this formula nor its direction is certain to be
    PRiSM's. Undefined for layer 0, which has no input. Where a family has a final norm, the last output is after it.
    """
    states = evidence.states["first"]
    neighbours = torch.stack([cosines(state, above) for state, above in pairwise(states)])
    return _mean_over_texts(evidence, torch.cat([_undefined(neighbours), neighbours]), uncertainty=uncertainty)


@layer_score(
    fitted=True,
    name="first_token_cosine.all",
    better="high",
    paper="after PRiSM (Biswas et al. 2026)",
    needs="nothing",
    pooling="first",
)
def first_token_cosine_all(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Mean cosine between a layer's first-token output and those of all other layers; high means typical of them.

    The mean over texts and over the outputs of the other layers 1..L. The abstract of PRiSM speaks of similarity across
    layers, which may mean this rather than the cosine of neighbours. Undefined for layer 0, and if there is one layer.
    """
    states = evidence.states["first"]
    outputs = torch.nn.functional.normalize(states[1:].double(), dim=-1)
    others = (outputs.sum(0) - outputs) / (len(outputs) - 1)
    means = (outputs * others).sum(-1)
    return _mean_over_texts(evidence, torch.cat([_undefined(means), means]), uncertainty=uncertainty)


def _undefined(values: Tensor) -> Tensor:
    """Return (1, texts): the values of layer 0."""
    return torch.full_like(values[:1], torch.nan)


def _mean_over_texts(evidence: Evidence, values: Tensor, *, uncertainty: bool) -> Estimate:
    """Return the mean of (layers, texts) over texts."""
    blocks = evidence.jackknife_blocks(uncertainty=uncertainty)
    return jackknife(lambda rows: values[:, rows].mean(1), blocks)
