"""How long trials will take: by what they compute, as often as they do it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.trials.test_executors import materials, trial  # noqa: F401 (a fixture)

from frostline.costs.timing import Speed
from frostline.encoders.loading import load_encoder
from frostline.records import Plan
from frostline.trials import time_estimate as expected
from frostline.trials.time_estimate import expected_seconds, in_words


@pytest.fixture
def seconds(materials, monkeypatch):  # noqa: F811
    """The expected seconds of trials on a machine whose speed is made up, so that two answers can be compared."""
    (path,) = materials.encoders.values()
    encoder = load_encoder(path)
    speeds: list[Speed] = []

    def once(*given):
        speeds[:] = speeds or [measured(*given)]
        return speeds[0]

    measured = expected.calibrate
    monkeypatch.setattr(expected, "calibrate", once)

    def found(*specs):
        return expected_seconds(specs, {encoder.revision: encoder}, materials.tasks, tunings={"twice": 2})

    return found


def test_trials_add_up_and_those_that_tune_twice_count_twice(seconds, materials):  # noqa: F811
    one, other = trial(materials, plan=Plan.full(2)), trial(materials, plan=Plan.span(2, 2, 2))
    first, second, both = seconds(one), seconds(other), seconds(one, other)
    assert both == pytest.approx([a + b for a, b in zip(first, second, strict=True)])
    assert seconds(replace(one, kind="twice")) == pytest.approx([2 * value for value in first])
    low, middle, high = first
    assert 0 < low < middle < high


def test_more_epochs_more_rows_and_more_layers_take_longer(seconds, materials):  # noqa: F811
    usual = trial(materials, plan=Plan.full(2))
    longer = replace(usual, recipe=replace(usual.recipe, epochs=10))
    assert seconds(longer)[1] > 3 * seconds(usual)[1]
    assert seconds(replace(usual, train_rows=10))[1] < seconds(usual)[1]
    assert seconds(trial(materials, plan=Plan.span(2, 2, 2)))[1] < seconds(usual)[1]


def test_several_at_a_time_take_a_part_of_it_and_units_suit_the_length():
    assert in_words(8, 10, 20) == "about 10 s (8 s to 20 s)"
    assert in_words(8, 10, 20, workers=2) == "about 5 s (4 s to 10 s)"
    assert in_words(600, 1200, 7200) == "about 20 min (10 min to 2.0 h)"
