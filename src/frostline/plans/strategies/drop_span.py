"""Dropping the layers that turn the states least, as in Gromov et al. 2025, at the top of the encoder."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.plans.strategies import as_control, check_layer_count, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="Gromov et al. 2025, spans at the top", name="drop-span", proposed=as_control)
def drop_span(
    depth: int,
    scores: LayerScores,
    *,
    seed: int,
    angle: float = 0.2,
    layers: int = 3,
    score: str = "angular_distance",
) -> Plan:
    """Drop the longest span at the top whose angular distance is at most `angle`, and tune the topmost layers left.

    Gromov et al. 2025 drop the span of n layers with the least angular distance between its input and its output,
    wherever it lies. A plan drops layers only above its head, and there is one such span for each n; so the distance
    decides how many layers are dropped, and not which ones. `frostline.states.angles.closest_span` finds the paper's
    span, and `frostline.encoders.surgery.skip` drops it.
    """
    distances = {layer: value for layer, value in enumerate(scores[score].values[:-1]) if layer and value is not None}
    kept = [layer for layer, distance in distances.items() if distance <= angle]
    if not kept:
        least = f"; the least is {min(distances.values()):.3g}" if distances else ""
        raise OptionError(f"strategy drop-span: no span at the top has an angular distance of at most {angle:g}{least}")
    head = min(kept)
    bottom = max(1, head - check_layer_count(layers, depth, "drop-span") + 1)
    because = (
        f"the last {depth - head} of {depth} layers turn the states by {distances[head]:.3g} of pi and are dropped"
    )
    return Plan.span(bottom, head, head, because=because)
