"""A learning rate for each layer, from its relative gradient norm (Lee et al. 2023, Auto-RGN)."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.records import LayerScores


def layer_rates(scores: LayerScores, score: str = "gradient_norm") -> dict[int, float]:
    """Return the factor of the learning rate for each of layers 1..L: its score over the highest one.

    Lee et al. 2023 give every tensor a rate in proportion to its relative gradient norm, and compute the norms again in
    every epoch; these are factors per layer, computed once.

    Args:
        scores: measured layer scores.
        score: the score that rates are proportional to; it must not be negative.
    """
    values = scores[score].values[1:]
    for layer, value in enumerate(values, start=1):
        if value is None or value < 0:
            raise OptionError(f"layer score {score} is {value} at layer {layer}: a rate needs a value of 0 or more")
    highest = max(value for value in values if value is not None)
    if not highest:
        raise OptionError(f"layer score {score} is 0 at every layer, so there is no highest one to divide by")
    return {layer: value / highest for layer, value in enumerate(values, start=1) if value is not None}
