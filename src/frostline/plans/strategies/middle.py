"""The middle layer instead of the best one: a baseline that is hard to beat where data are scarce."""

from __future__ import annotations

from frostline.plans.strategies import Value, check_layer_count, strategy
from frostline.records import LayerScores, Plan


def _two(depth: int) -> list[dict[str, Value]]:
    """Propose two layers, if the encoder has more."""
    return [{"layers": 2}] if depth > 2 else []


@strategy(paper="Xie et al. 2022, baseline", name="middle", proposed=_two, baseline="the middle layers")
def middle(depth: int, scores: LayerScores | None, *, seed: int, layers: int = 3, keep_top: bool = True) -> Plan:
    """Tune the middle layer and the ones just below it, whatever the scores say."""
    centre = depth // 2 + 1 if depth > 1 else 1  # 13 of 24, as in the paper
    bottom = max(1, centre - check_layer_count(layers, depth, "middle") + 1)
    head = depth if keep_top else centre
    return Plan.whole_or_span(bottom, centre, head, depth=depth, because=f"layer {centre} is the middle one")
