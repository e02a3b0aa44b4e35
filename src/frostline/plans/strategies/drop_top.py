"""A shorter encoder: the upper layers dropped, as in Phang et al. 2021, and the top of the others tuned."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.plans.strategies import Value, check_layer_count, strategy
from frostline.records import LayerScores, Plan


def _third_and_half(depth: int) -> list[dict[str, Value]]:
    """Propose to drop a third or half of the layers, and to tune the upper half of the others."""
    counts = sorted({depth // 3, depth // 2})
    return [{"n": count, "layers": (depth - count + 1) // 2} for count in counts if count]


@strategy(paper="Phang et al. 2021", name="drop-top", proposed=_third_and_half)
def drop_top(depth: int, scores: LayerScores | None, *, seed: int, n: int = 1, layers: int = 3) -> Plan:
    """Drop the last n layers, and tune the topmost of the others."""
    if n >= depth:
        raise OptionError(f"strategy drop-top: {n} layers to drop, but the encoder has layers 1..{depth}")
    head = depth - n
    bottom = max(1, head - check_layer_count(layers, depth, "drop-top") + 1)
    because = f"the last {n} of {depth} layers are dropped: a smaller and faster model"
    return Plan.whole_or_span(bottom, head, head, depth=depth, because=because)
