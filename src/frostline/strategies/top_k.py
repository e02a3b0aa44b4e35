"""The last layers, whatever the task: the simple baseline."""

from __future__ import annotations

from frostline.records import LayerScores, Plan
from frostline.strategies import chosen, strategy


@strategy(paper="1 and 2, baseline", name="top-k")
def top_k(depth: int, scores: LayerScores | None, *, seed: int, k: int = 3) -> Plan:
    """Tune the last k layers."""
    count = chosen(k, depth, "top-k")
    return Plan.span(depth - count + 1, depth, depth, because=f"the last {count} of {depth} layers")
