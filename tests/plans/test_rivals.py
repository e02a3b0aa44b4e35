"""Rival rules for choosing layers: the middle block, spans to drop, rates per layer, forward selection."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from tests.plans.test_parsing import measured

from frostline.errors import OptionError
from frostline.plans.forward_selection import select_forward
from frostline.plans.layer_rates import layer_rates
from frostline.plans.strategies import STRATEGIES
from frostline.records import LayerScore
from frostline.search.proposals import needed_scores


def with_score(name, values, better="low"):
    scores = measured(values)
    return replace(scores, scores={name: LayerScore(name=name, better=better, values=tuple(values))})


# Strategies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "plan"),
    [(1, "(1, 1, 1)"), (2, "(1, 2, 2)"), (3, "(2, 2, 3)"), (4, "(2, 3, 4)"), (5, "(2, 4, 5)"), (6, "(2, 5, 6)"),
     (12, "(3, 10, 12)"), (22, "(5, 18, 22)"), (24, "(6, 19, 24)")],
)  # fmt: skip
def test_the_middle_block_has_the_layers_whose_middle_lies_between_a_fifth_and_four_fifths(depth, plan):
    assert str(STRATEGIES["middle-block"].plan(depth)) == plan


@pytest.mark.parametrize("depth", range(1, 49))
def test_the_middle_block_is_symmetric_and_about_three_fifths(depth):
    layers = STRATEGIES["middle-block"].plan(depth).layers
    middles = [(layer - 0.5) / depth for layer in range(1, depth + 1)]
    assert [layer for layer in range(1, depth + 1) if 0.2 - 1e-9 <= middles[layer - 1] <= 0.8 + 1e-9] == list(layers)
    assert layers[0] - 1 == depth - layers[-1]


DISTANCES = (0.6, 0.5, 0.4, 0.24, 0.2, 0.1, None)


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({}, "(2, 4, 4)"),
        ({"angle": 0.3, "layers": 2}, "(2, 3, 3)"),
        ({"angle": "0.15"}, "(3, 5, 5)"),
        ({"angle": 1}, "(1, 1, 1)"),
    ],
)
def test_the_longest_span_within_the_angle_is_dropped(options, plan):
    made = STRATEGIES["drop-span"].plan(6, with_score("angular_distance", DISTANCES), options)
    assert str(made) == plan
    assert f"{DISTANCES[made.head]:.3g} of pi" in made.because


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"angle": 0.05}, "no span at the top has an angular distance of at most 0.05; the least is 0.1"),
        ({"angle": -0.5}, "angle -0.5 must be 0 or more"),
        ({"layers": 7}, "7 layers to tune"),
        ({"angle": "wide"}, "must be a number"),
    ],
)
def test_a_span_that_cannot_be_dropped_is_one_line(options, message):
    with pytest.raises(OptionError, match=message):
        STRATEGIES["drop-span"].plan(6, with_score("angular_distance", DISTANCES), options)


def test_no_span_of_a_single_layer_can_be_dropped():
    with pytest.raises(OptionError, match="no span at the top"):
        STRATEGIES["drop-span"].plan(1, with_score("angular_distance", (0.1, None)))


@pytest.mark.parametrize("depth", [2, 6, 12])
def test_rivals_are_not_proposed_and_their_scores_not_measured_by_default(depth):
    assert not STRATEGIES["drop-span"].proposed(depth) and not STRATEGIES["middle-block"].proposed(depth)
    assert "angular_distance" not in needed_scores(depth)


# Rates ---------------------------------------------------------------------------------------------------------------


def test_rates_are_proportional_to_the_score_with_the_highest_at_one():
    rates = layer_rates(with_score("gradient_norm", (None, 0.02, 0.08, 0.04), better="high"))
    assert rates == pytest.approx((0.25, 1.0, 0.5))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((None, 1.0, None), "is nan at layer 2"),
        ((None, -1.0, 2.0), "is -1 at layer 1"),
        ((None, 2.0, 0.0), "is 0 at layer 2: a learning rate needs one above 0"),
    ],
)
def test_rates_need_values_above_0_at_every_layer(values, message):
    with pytest.raises(OptionError, match=message):
        layer_rates(with_score("gradient_norm", values, better="high"))


# Forward selection ---------------------------------------------------------------------------------------------------

WORTH = {1: 1.0, 2: 5.0, 3: 4.0, 4: 4.0, 5: -1.0}


def worth(layers):
    """Layers 2 and 3 do the same, so that together they are worth no more than the better one."""
    return sum(WORTH[layer] for layer in layers if layer != 3 or 2 not in layers)


def greedy(layers, judge, most):
    """The definition: of all sets with one layer more, the best; of equal ones, the first."""
    chosen, path = (), []
    for size in range(1, most + 1):
        larger = [made for made in combinations(sorted(layers), size) if set(chosen) <= set(made)]
        chosen = max(larger, key=judge)
        path.append(chosen)
    return path


def test_selection_adds_the_layer_that_helps_most_and_stops_when_none_does():
    steps = select_forward(range(1, 6), worth)
    assert [step.layers for step in steps] == [(2,), (2, 4), (1, 2, 4)]
    assert [step.value for step in steps] == [5.0, 9.0, 10.0]
    assert steps[1].tried == {(1, 2): 6.0, (2, 3): 5.0, (2, 4): 9.0, (2, 5): 4.0}


def test_selection_equals_a_search_through_all_larger_sets():
    steps = select_forward(range(1, 6), worth, least_gain=-float("inf"))
    assert [step.layers for step in steps] == greedy(range(1, 6), worth, 5)


@pytest.mark.parametrize(
    ("options", "layers"), [({"most": 1}, (2,)), ({"most": 9}, (1, 2, 4)), ({"least_gain": 1.0}, (2, 4))]
)
def test_selection_can_be_bounded(options, layers):
    assert select_forward(range(1, 6), worth, **options)[-1].layers == layers


def test_each_set_is_judged_once_and_in_ascending_order():
    asked = []
    select_forward([3, 1, 2], lambda layers: asked.append(layers) or 0.1 * len(layers))
    assert asked == [(1,), (2,), (3,), (1, 2), (1, 3), (1, 2, 3)]


def test_nothing_cannot_be_selected():
    with pytest.raises(OptionError, match="no layers to choose from"):
        select_forward([], worth)
