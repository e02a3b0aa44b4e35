"""Up from the most specialised layer, the second strategy of Xie et al. 2022."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.plans.strategies import best_layer, strategy
from frostline.records import LayerScores, Plan


@strategy(paper="Xie et al. 2022, section 3.2", name="best-up", fallback="probe.linear")
def best_up(
    depth: int, scores: LayerScores, *, seed: int, top: int = 0, keep_top: bool = True, score: str = "variability"
) -> Plan:
    """Tune the layers above the best one, up to the last or to a lower top, with those above frozen or dropped."""
    best = best_layer(scores, score)
    end = top or depth
    if end > depth:
        raise OptionError(f"strategy best-up: top {top}, but the encoder has layers 1..{depth}")
    if end <= best:
        raise OptionError(f"strategy best-up: layer {best} is the best by {score}, with none between it and {end}")
    because = f"layer {best} is the best by {score}; the layers up to it are specialised already"
    return Plan.span(best + 1, end, depth if keep_top else end, because=because)
