"""Down from the most specialised layer, paper 1's first strategy."""

from __future__ import annotations

from frostline.records import LayerScores, Plan
from frostline.strategies import best_layer, chosen, strategy


@strategy(paper="1, section 3.2", name="best-down")
def best_down(
    depth: int, scores: LayerScores, *, seed: int, layers: int = 3, keep_top: bool = True, score: str = "variability"
) -> Plan:
    """Tune the best layer and the ones just below it, with the layers above it frozen or dropped."""
    best = best_layer(scores, score)
    bottom = max(1, best - chosen(layers, depth, "best-down") + 1)
    rest = "kept frozen" if keep_top else "dropped"
    because = f"layer {best} is the best by {score}; what lies above it is {rest}"
    return Plan.span(bottom, best, depth if keep_top else best, because=because)
