"""Full fine-tuning, the usual baseline."""

from __future__ import annotations

from frostline.records import LayerScores, Plan
from frostline.strategies import strategy


@strategy(paper="all", name="full")
def full(depth: int, scores: LayerScores | None, *, seed: int) -> Plan:
    """Tune every layer and the embeddings."""
    return Plan.full(depth)
