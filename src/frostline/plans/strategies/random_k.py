"""Layers drawn at random: the control for every strategy."""

from __future__ import annotations

import numpy as np

from frostline.plans.strategies import as_control, check_layer_count, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="Lodha et al. 2023, our control", name="random-k", proposed=as_control)
def random_k(depth: int, scores: LayerScores | None, *, seed: int, k: int = 3) -> Plan:
    """Tune k layers drawn at random."""
    count = check_layer_count(k, depth, "random-k")
    drawn = np.random.default_rng([seed, depth, count]).choice(depth, size=count, replace=False) + 1
    return Plan(layers=tuple(sorted(drawn.tolist())), head=depth, because=f"{count} random layers, seed {seed}")
