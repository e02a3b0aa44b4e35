"""Layer numbers in words."""

from __future__ import annotations

import pytest

from frostline.records.layer_ranges import format_ranges, name_layers


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([3], "layer 3"),
        ([1, 2], "layers 1 and 2"),
        ([2, 4], "layers 2 and 4"),
        ([1, 2, 3], "layers 1 to 3"),
        ([2, 4, 5, 6], "layers 2 and 4 to 6"),
        ([1, 2, 4, 5, 6, 9], "layers 1, 2, 4 to 6 and 9"),
    ],
)
def test_three_neighbours_or_more_are_a_range(layers, words):
    assert name_layers(layers) == words


def test_the_word_before_the_last_part_can_be_another():
    assert format_ranges([1, 5, 6], last="or") == "1, 5 or 6"
