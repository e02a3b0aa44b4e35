"""Angles between states, and the span of layers that turns them least."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from frostline.errors import OptionError
from frostline.states.angles import angular_distances, closest_span, cosines, span_distances


def turned(*degrees: float) -> torch.Tensor:
    """(layers, 1 text, 2): unit vectors at these angles, of different lengths."""
    radians = torch.tensor(degrees).double() * math.pi / 180
    return (torch.stack([radians.cos(), radians.sin()], -1) * torch.arange(1, len(degrees) + 1)[:, None])[:, None]


def test_angles_are_shares_of_a_half_turn_whatever_the_lengths():
    states = turned(0, 90, 180, 45)
    found = [float(angular_distances(states[0, 0], state[0])) for state in states]
    assert found == pytest.approx([0, 0.5, 1, 0.25])
    assert float(cosines(states[0, 0], torch.zeros(2))) == 0


def test_distances_are_those_of_a_loop_over_spans_and_texts():
    states = torch.randn(5, 7, 4, generator=torch.Generator().manual_seed(0))
    found = span_distances(states)
    for low in range(5):
        for high in range(5):
            pairs = zip(states[low].numpy().astype(float), states[high].numpy().astype(float), strict=True)
            cosine = [a @ b / math.sqrt(a @ a) / math.sqrt(b @ b) for a, b in pairs]
            expected = np.mean(np.arccos(np.clip(cosine, -1, 1))) / math.pi
            assert float(found[low, high]) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("layers", "span"), [(1, (3, 3)), (2, (2, 3)), (3, (2, 4)), (4, (1, 4))])
def test_the_closest_span_may_lie_anywhere(layers, span):
    distances = span_distances(turned(0, 60, 70, 72, 90, 150))
    assert closest_span(distances, layers) == span


def test_of_equal_spans_the_lowest_is_taken():
    assert closest_span(torch.zeros(5, 5), 2) == (1, 2)


@pytest.mark.parametrize("layers", [0, 4, 5])
def test_a_span_must_leave_a_layer(layers):
    with pytest.raises(OptionError, match=f"{layers} layers to drop: must be 1..3"):
        closest_span(torch.zeros(5, 5), layers)
