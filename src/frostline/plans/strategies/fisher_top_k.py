"""The layers with the most Fisher information, paper 2's surgical choice."""

from __future__ import annotations

from frostline.plans.strategies import chosen, ranked_layers, so_many_layers, strategy, up_to_three
from frostline.records import LayerScores, Plan


@strategy(paper="2", name="fisher-top-k", proposed=up_to_three)
def fisher_top_k(depth: int, scores: LayerScores, *, seed: int, k: int = 3, score: str = "fisher") -> Plan:
    """Tune the k layers with the most Fisher information, wherever they lie."""
    count = chosen(k, depth, "fisher-top-k")
    layers = tuple(sorted(ranked_layers(scores, score)[:count]))
    return Plan(layers=layers, head=depth, because=f"{so_many_layers(count)} with the most Fisher information")
