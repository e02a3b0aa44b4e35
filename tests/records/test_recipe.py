"""Recipes: checked when they are made, and the same after JSON."""

from __future__ import annotations

import json

import pytest

from frostline.errors import OptionError
from frostline.plans.learning_rates import paper_rates
from frostline.records import Plan, Recipe


def test_a_recipe_survives_json():
    recipe = Recipe(learning_rate=1e-4, dropout=0.2, evaluate_every=5, head="mean", threads=2)
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0}, "nothing would be learned"),
        ({"learning_rate": -1e-5}, "recipe learning rate -1e-05: must be a number, 0 or more"),
        ({"learning_rate": float("nan")}, "must be a number"),
        ({"learning_rate": float("inf")}, "must be finite"),
        ({"epochs": 0}, "recipe epochs 0: must be a whole number, 1 or more"),
        ({"epochs": 2.5}, "must be a whole number"),
        ({"epochs": True}, "must be a whole number"),
        ({"batch": 0}, "must be a whole number, 1 or more"),
        ({"warmup": 1.0}, "must be below 1"),
        ({"dropout": 1}, "must be below 1"),
        ({"dropout": -0.1}, "0 or more"),
        ({"schedule": "cosine"}, "must be one of linear, constant"),
        ({"head": "cls"}, "must be one of family, mean"),
        ({"cache_dtype": "int8"}, "must be one of float16, float32"),
        ({"patience": 0}, "1 or more"),
        ({"seed": -1}, "0 or more"),
        ({"epochs": None}, "must be a whole number"),
    ],
)
def test_a_recipe_that_cannot_be_is_one_line(options, message):
    with pytest.raises(OptionError) as error:
        Recipe(**options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("plan", "rates"),
    [
        (Plan.full(24), (1e-6, 5e-6, 8e-6, 1e-5, 2e-5)),
        (Plan.span(22, 24, 24), (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)),
        (Plan.span(1, 14, 14), (5e-6, 1e-5, 5e-5, 1e-4)),
        (Plan.span(15, 24, 24), (1e-6, 3e-6, 1e-5, 3e-5)),
        (Plan.span(12, 14, 14), (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)),
        (Plan.span(12, 14, 24), (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)),
        (Plan(layers=(1, 12, 24), head=24), (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)),  # at random: not the whole encoder
        (Plan(layers=(1, 9, 12, 24), head=24), (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)),
        (Plan(layers=tuple(range(1, 25)), head=24, method="houlsby"), (1e-5, 3e-5, 1e-4)),
        (Plan(layers=(23, 24), head=24, method="houlsby"), (3e-5, 1e-4, 3e-4)),
        (Plan(layers=tuple(range(1, 15)), head=14, method="houlsby"), (1e-5, 3e-5, 1e-4)),
    ],
)
def test_learning_rates_are_those_of_paper_1(plan, rates):
    assert paper_rates(plan, 24) == rates


def test_a_number_of_steps_is_part_of_a_recipe_only_where_there_is_one():
    assert "steps" not in Recipe().to_json()
    assert Recipe.from_json(Recipe(steps=10).to_json()) == Recipe(steps=10)
    assert (Recipe(epochs=3).passes(40), Recipe(steps=60).passes(40)) == (3, 1.5)
    with pytest.raises(OptionError, match="recipe steps 0: must be a whole number, 1 or more"):
        Recipe(steps=0)
