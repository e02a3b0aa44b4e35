"""Recipes from flags and files."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from frostline.cli._shared.recipes import RecipeOptions, TrialRecipeOptions
from frostline.errors import OptionError
from frostline.records import Recipe


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(Recipe(epochs=7, batch=5, dropout=0.2).to_json()))
    return path


def test_only_flags_that_are_given_are_fields():
    assert RecipeOptions().given(threads=None) == {}
    assert RecipeOptions(warmup=0.0, seed=0).given(threads=2) == {"warmup": 0.0, "seed": 0, "threads": 2}


@pytest.mark.parametrize("group", [TrialRecipeOptions, RecipeOptions])
def test_flags_override_the_fields_of_a_file(group, file):
    made = Recipe(**group(recipe_file=file, batch=9).given(threads=1))
    assert (made.epochs, made.batch, made.dropout, made.threads) == (7, 9, 0.2, 1)


@pytest.mark.parametrize("group", [TrialRecipeOptions, RecipeOptions])
def test_every_flag_is_a_field_of_the_recipe(group):
    named = {field.name for field in fields(group)} - {"recipe_file"}
    assert named <= {field.name for field in fields(Recipe)}


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(OptionError, match="No such file"):
        RecipeOptions(recipe_file=tmp_path / "none.json").given(threads=None)
