"""Change: how much a layer changes its input, without any labels."""

from __future__ import annotations

import torch

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, from_jackknife
from frostline.states.cka import cka_between_neighbours


@layer_score(fitted=True, better="high", paper="CKA of a layer's input and output", needs="nothing")
def change(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """One minus the similarity (unbiased linear CKA) of a layer's input and output; low means that it does little.

    A layer that hardly changes its input can often be dropped. Undefined for layer 0, which has no input, and where all
    texts have the same state.
    """
    blocks = evidence.jackknife_blocks(uncertainty=uncertainty)
    between = cka_between_neighbours(evidence.states[evidence.pooling], evidence.own_hsic(blocks), blocks)
    return from_jackknife(torch.cat([torch.full_like(between[:, :1], float("nan")), 1 - between], dim=1))
