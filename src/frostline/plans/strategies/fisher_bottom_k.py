"""The layers with the least Fisher information: the control of paper 2."""

from __future__ import annotations

from frostline.plans.strategies import as_control, chosen, ranked_layers, so_many_layers, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="2, control", name="fisher-bottom-k", proposed=as_control)
def fisher_bottom_k(depth: int, scores: LayerScores, *, seed: int, k: int = 1, score: str = "fisher") -> Plan:
    """Tune the k layers with the least Fisher information."""
    count = chosen(k, depth, "fisher-bottom-k")
    layers = tuple(sorted(ranked_layers(scores, score)[-count:]))
    return Plan(layers=layers, head=depth, because=f"{so_many_layers(count)} with the least Fisher information")
