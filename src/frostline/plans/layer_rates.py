"""A learning rate for each layer, from its relative gradient norm (Lee et al. 2023, Auto-RGN)."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.records import LayerScores


def layer_rates(scores: LayerScores, score: str = "gradient_norm") -> tuple[float, ...]:
    """Return the factor of the learning rate for each of layers 1..L: its score over the highest one.

    Lee et al. 2023 give every tensor a rate in proportion to its relative gradient norm, and compute the norms again in
    every epoch; these are factors per layer, computed once.

    Args:
        scores: measured layer scores.
        score: the score that rates are proportional to; it must be above 0 at every layer.
    """
    values = [float("nan") if value is None else value for value in scores[score].values[1:]]
    for layer, value in enumerate(values, start=1):
        if not value > 0:
            raise OptionError(f"layer score {score} is {value:g} at layer {layer}: a learning rate needs one above 0")
    return tuple(float(f"{value / max(values):.4g}") for value in values)
