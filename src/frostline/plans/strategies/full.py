"""Full fine-tuning, the usual baseline."""

from __future__ import annotations

from frostline.plans.strategies import strategy
from frostline.records import LayerScores, Plan


@strategy(paper="all five papers", name="full", baseline="full fine-tuning", joins="last")
def full(depth: int, scores: LayerScores | None, *, seed: int) -> Plan:
    """Tune every layer and the embeddings."""
    return Plan.full(depth)
