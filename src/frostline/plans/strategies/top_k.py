"""The last layers, whatever the task: a simple baseline."""

from __future__ import annotations

from frostline.plans.strategies import check_layer_count, strategy, up_to_three
from frostline.records import LayerScores, Plan


@strategy(
    paper="Xie et al. 2022 and Lodha et al. 2023, baseline",
    name="top-k",
    proposed=up_to_three,
    baseline="the last layers",
)
def top_k(depth: int, scores: LayerScores | None, *, seed: int, k: int = 3) -> Plan:
    """Tune the last k layers."""
    count = check_layer_count(k, depth, "top-k")
    return Plan.whole_or_span(
        depth - count + 1, depth, depth, depth=depth, because=f"the last {count} of {depth} layers"
    )
