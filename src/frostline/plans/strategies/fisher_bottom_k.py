"""The layers with the least Fisher information: the control of Lodha et al. 2023."""

from __future__ import annotations

from frostline.plans.strategies import as_control, check_layer_count, count_layers, ranked_layers, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="Lodha et al. 2023, control", name="fisher-bottom-k", proposed=as_control)
def fisher_bottom_k(depth: int, scores: LayerScores, *, seed: int, k: int = 1, score: str = "fisher") -> Plan:
    """Tune the k layers with the least Fisher information."""
    count = check_layer_count(k, depth, "fisher-bottom-k")
    layers = tuple(sorted(ranked_layers(scores, score)[-count:]))
    return Plan(layers=layers, head=depth, because=f"{count_layers(count)} with the least Fisher information")
