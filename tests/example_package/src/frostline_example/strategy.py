"""A strategy that follows the package's own layer score."""

from __future__ import annotations

from frostline.plans.strategies import best_layer, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="an example", name="loudest")
def loudest(depth: int, scores: LayerScores, *, seed: int, keep_top: bool = True, score: str = "loudness") -> Plan:
    """Tune the loudest layer alone."""
    best = best_layer(scores, score)
    return Plan.span(best, best, depth if keep_top else best, because=f"layer {best} is the loudest")
