"""Angular distance from a layer to the last one: how much the layers above it turn the first token's state."""

from __future__ import annotations

import torch

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, jackknife
from frostline.states.angles import angular_distances


@layer_score(fitted=True, better="low", paper="Gromov et al. 2025", needs="nothing", pooling="first")
def angular_distance(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Angle between the first token's states at a layer and at the last; low means that the layers above do little.

    The arc cosine as a share of pi, averaged over texts: the distance of Gromov et al. 2025 for the span of layers that
    a head at this layer leaves out. They read the last token of a causal model; here it is the first, which most heads
    of encoders read. Undefined for the last layer, above which there is nothing. `frostline.states.angles` has the
    distances of all spans.
    """
    states = evidence.states["first"]
    distances = torch.stack([angular_distances(state, states[-1]) for state in states])
    distances[-1] = torch.nan
    blocks = evidence.jackknife_blocks(uncertainty=uncertainty)
    return jackknife(lambda rows: distances[:, rows].mean(1), blocks)
