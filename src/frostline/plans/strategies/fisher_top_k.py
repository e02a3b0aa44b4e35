"""The layers with the most Fisher information, the surgical choice of Lodha et al. 2023."""

from __future__ import annotations

from frostline.plans.strategies import check_layer_count, count_layers, ranked_layers, strategy, up_to_three
from frostline.records import LayerScores, Plan


@strategy(paper="Lodha et al. 2023", name="fisher-top-k", proposed=up_to_three)
def fisher_top_k(depth: int, scores: LayerScores, *, seed: int, k: int = 3, score: str = "fisher") -> Plan:
    """Tune the k layers with the most Fisher information, wherever they are."""
    count = check_layer_count(k, depth, "fisher-top-k")
    layers = tuple(sorted(ranked_layers(scores, score)[:count]))
    return Plan(layers=layers, head=depth, because=f"{count_layers(count)} with the most Fisher information")
