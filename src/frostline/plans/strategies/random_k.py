"""Layers by lot: the control for every way of choosing."""

from __future__ import annotations

import numpy as np

from frostline.plans.strategies import as_control, chosen, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="2, our control", name="random-k", proposed=as_control)
def random_k(depth: int, scores: LayerScores | None, *, seed: int, k: int = 3) -> Plan:
    """Tune k layers drawn at random."""
    count = chosen(k, depth, "random-k")
    drawn = np.random.default_rng([seed, depth, count]).choice(depth, size=count, replace=False) + 1
    return Plan(layers=tuple(sorted(drawn.tolist())), head=depth, because=f"{count} layers by lot, seed {seed}")
