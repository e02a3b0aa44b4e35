"""The plans of a race by depth and goal, and heads alone where there are few rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from tests.search.race_tools import made_up_proposal

from frostline.records import Plan
from frostline.records.difference import Difference
from frostline.search import prior
from frostline.search.prior import expected_difference, favourite, heads_for_few_rows, promising, usual_plans

FULL = made_up_proposal(Plan.full(6), "full", joins_late=True, price=100)
HEADS = [made_up_proposal(Plan(layers=(), head=at), "head only", price=at / 10) for at in range(1, 7)]
SPANS = ((3, 4, 6), (4, 6, 6), (3, 4, 4), (2, 3, 3), (6, 6, 6))
TUNED = [made_up_proposal(Plan.span(*span), "made up", price=10) for span in SPANS]


def task(train, validation, kind="classification"):
    return SimpleNamespace(labelled=[0] * (train + validation), kind=kind)


def names(proposals):
    return {str(proposal.plan) for proposal in proposals}


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(6, ["(3, 4, 6)", "(4, 6, 6)", "(3, 4, 4)"]), (12, ["(6, 7, 12)", "(7, 12, 12)", "(5, 8, 8)"])],
)
def test_the_usual_plans_are_the_middle_the_upper_half_and_one_without_a_third_of_the_layers(depth, expected):
    assert [str(plan) for plan in usual_plans(depth)] == expected


def test_a_search_for_a_small_model_also_drops_half_of_the_layers():
    assert [str(plan) for plan in usual_plans(6, goal="smallest")][-1] == "(2, 3, 3)"


def test_a_race_has_the_usual_plans_and_heads_of_the_upper_half():
    chosen = names(promising([*HEADS, *TUNED, FULL], 6, "cheapest"))
    assert chosen == {"(3, 4, 6)", "(4, 6, 6)", "(3, 4, 4)", *(f"head only at {at}" for at in (3, 4, 5, 6))}


def test_the_best_plan_is_looked_for_among_all_but_those_that_join_late():
    assert len(promising([*HEADS, *TUNED, FULL], 6, "best")) == len(HEADS) + len(TUNED)


@pytest.mark.parametrize(
    ("rows", "goal", "expected"),
    [
        (task(21, 10), "cheapest", 6),
        (task(22, 10), "cheapest", 0),
        (task(10, 2), "best", 0),
        (task(10, 2, "multiple choice"), "cheapest", 0),
    ],
    ids=["few", "enough", "all asked for", "heads are not solved"],
)
def test_few_rows_leave_only_heads(rows, goal, expected):
    assert len(heads_for_few_rows([*HEADS, *TUNED], rows, goal)) == expected


def test_the_middle_layers_are_the_favourite_where_they_take_part():
    assert favourite([*HEADS, *TUNED], 6) == str(TUNED[0].plan.identity())
    assert favourite([*HEADS, *TUNED[1:]], 6) is None


@pytest.mark.parametrize("is_early", [False, True])
@pytest.mark.parametrize(("value", "half"), [(-2.0, 1.0), (0.5, 3.0), (6.0, 2.0), (40.0, 0.1)])
def test_what_is_expected_is_the_mean_of_the_prior_times_the_likelihood(value, half, is_early):
    shown = Difference(value=value, low=value - half, high=value + half)
    noise = np.hypot(half / stats.norm.ppf(0.975), prior._EARLY * is_early)
    differences = np.linspace(-60, 60, 240_001)
    weights = stats.norm.pdf(differences, prior._WORTH, prior._SPREAD) * stats.norm.pdf(value, differences, noise)
    expected = np.average(differences, weights=weights)
    assert expected_difference(shown, is_early=is_early) == pytest.approx(expected, rel=1e-3)


def test_a_difference_without_any_doubt_is_believed():
    assert expected_difference(Difference(value=3.0, low=3.0, high=3.0)) == 3.0


def test_in_units_of_the_metric_the_prior_has_its_points_in_these_units():
    in_points = expected_difference(Difference(value=2.0, low=-1.0, high=5.0))
    in_units = expected_difference(Difference(value=0.02, low=-0.01, high=0.05), point=0.01)
    assert in_units == pytest.approx(in_points / 100)
