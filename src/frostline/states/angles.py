"""Angles between the states of layers: how far a span of layers turns a text's state.

Gromov et al. 2025 drop the span of n layers whose input and output have the least angular distance. They read the last
token of a causal model; most heads of encoders read the first one, so pass its states. A `Plan` drops layers only above
its head; `frostline.encoders.surgery.skip` drops a span anywhere.
"""

from __future__ import annotations

from math import pi

import torch
import torch.nn.functional as F
from torch import Tensor

from frostline.errors import OptionError


def cosines(states: Tensor, others: Tensor) -> Tensor:
    """Return (...): the cosine between vectors along the last axis, in double precision; 0 for a zero vector."""
    return F.cosine_similarity(states.double(), others.double(), dim=-1).clamp(-1, 1)


def angular_distances(states: Tensor, others: Tensor) -> Tensor:
    """Return (...): the angle between vectors along the last axis as a share of pi, 0 for parallel ones."""
    return cosines(states, others).arccos() / pi


def span_distances(states: Tensor) -> Tensor:
    """Return (layers, layers): the mean angular distance between states i and j over texts.

    Entry (i, j) with i < j is that of the span of layers i + 1..j, between its input and its output.

    Args:
        states: (layers 0..L, texts, width), of the first token.
    """
    distances = torch.zeros(len(states), len(states), dtype=torch.float64)
    for number, state in enumerate(states):
        for above in range(number + 1, len(states)):
            distances[number, above] = distances[above, number] = angular_distances(state, states[above]).mean()
    return distances


def closest_span(distances: Tensor, layers: int) -> tuple[int, int]:
    """Return the first and the last layer of the span with the least distance; of equal ones, the lowest.

    Args:
        distances: result of `span_distances`.
        layers: length of the span.
    """
    depth = len(distances) - 1
    if not 1 <= layers < depth:
        raise OptionError(f"{layers} layers to drop: must be 1..{depth - 1}, since the encoder has layers 1..{depth}")
    below = int(distances.diagonal(layers).argmin())
    return below + 1, below + layers
