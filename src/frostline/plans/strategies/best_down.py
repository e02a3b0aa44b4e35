"""Down from the most specialised layer, the first strategy of Xie et al. 2022."""

from __future__ import annotations

from frostline.plans.strategies import Value, best_layer, check_layer_count, strategy
from frostline.records import LayerScores, Plan


def _one_to_all(depth: int) -> list[dict[str, Value]]:
    """Propose one, two, three and all layers."""
    counts = sorted({min(count, depth) for count in (1, 2, 3, depth)})
    return [{"layers": count, "keep_top": keep} for count in counts for keep in (True, False)]


@strategy(paper="Xie et al. 2022, section 3.2", name="best-down", proposed=_one_to_all, fallback="probe.linear")
def best_down(
    depth: int, scores: LayerScores, *, seed: int, layers: int = 3, keep_top: bool = True, score: str = "variability"
) -> Plan:
    """Tune the best layer and the ones just below it, with the layers above it frozen or dropped."""
    best = best_layer(scores, score)
    bottom = max(1, best - check_layer_count(layers, depth, "best-down") + 1)
    above = "" if best == depth else f"; the layers above it are {'kept frozen' if keep_top else 'dropped'}"
    because = f"layer {best} is the best by {score}{above}"
    return Plan.whole_or_span(bottom, best, depth if keep_top else best, depth=depth, because=because)
