"""The middle block: the layers from 20% to 80% of the depth, a rule that needs no scores."""

from __future__ import annotations

from frostline.plans.strategies import as_control, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="a rule by depth alone", name="middle-block", proposed=as_control)
def middle_block(depth: int, scores: LayerScores | None, *, seed: int) -> Plan:
    """Tune the layers from 20% to 80% of the depth, with the head at the last layer.

    A layer belongs to the block if its middle does: layer i of L lies at (i - 0.5) / L. This makes layers 2 to 5 of 6,
    3 to 10 of 12 and 6 to 19 of 24; an encoder of one or two layers is tuned in full.
    """
    layers = [layer for layer in range(1, depth + 1) if 2 * depth <= 10 * layer - 5 <= 8 * depth]
    because = "these layers lie between 20% and 80% of the depth"
    return Plan.whole_or_span(layers[0], layers[-1], depth, depth=depth, because=because)
