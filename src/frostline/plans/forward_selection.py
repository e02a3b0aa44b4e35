"""Greedy forward selection of layers: from the best single layer on, the layer that helps most is added."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from frostline.errors import OptionError

Layers = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """One step of a forward selection.

    Args:
        layers: the chosen layers, ascending.
        value: their value.
        tried: the values of all sets of layers that were compared in this step.
    """

    layers: Layers
    value: float
    tried: dict[Layers, float]


def select_forward(
    layers: Collection[int],
    judge: Callable[[Layers], float],
    *,
    most: int | None = None,
    least_gain: float = 0.0,
) -> tuple[Selection, ...]:
    """Return the steps of a greedy forward selection, from one layer to the last set that was an improvement.

    Each set is judged once. Of equal ones, the one with the lowest new layer is chosen.

    Args:
        layers: the layers to choose from.
        judge: function from layers, ascending, to a value of which more is better, such as a validation score.
        most: largest number of layers; by default all.
        least_gain: stop where the best further layer does not gain more than this; minus infinity goes on to the end.
    """
    if not layers:
        raise OptionError("no layers to choose from")
    steps: list[Selection] = []
    for _ in range(len(set(layers)) if most is None else min(most, len(set(layers)))):
        chosen = steps[-1].layers if steps else ()
        further = sorted(set(layers) - set(chosen))
        tried = {made: judge(made) for made in (tuple(sorted((*chosen, layer))) for layer in further)}
        best = max(tried, key=lambda made: tried[made])
        if steps and not tried[best] - steps[-1].value > least_gain:
            break
        steps.append(Selection(layers=best, value=tried[best], tried=tried))
    return tuple(steps)
