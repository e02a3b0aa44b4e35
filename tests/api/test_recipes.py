"""One rule for learning rates and epochs, and recipes that reproduce a run's model."""

from __future__ import annotations

import json

import pytest
from tests.search.race_tools import propose_only, save_shallow, skip_slow_parts, write_rows

import frostline
from frostline.errors import OptionError
from frostline.plans.learning_rates import learning_rate_for
from frostline.records import Plan, Recipe

RECIPE = Recipe(epochs=2, batch=16, threads=1, seed=3)
HEAD = Plan(layers=(), head=2)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_shallow(tmp_path_factory.mktemp("models") / "shallow")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("data") / "letters.csv")


@pytest.mark.parametrize("plan", [Plan.span(2, 2, 2), HEAD], ids=str)
def test_the_plan_and_the_recipe_of_a_run_reproduce_its_model_bit_for_bit(encoder, rows, plan, tmp_path, monkeypatch):
    skip_slow_parts(monkeypatch)
    propose_only(monkeypatch, [plan])
    run = frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    again = frostline.tune(
        encoder,
        rows,
        plan=str(tmp_path / "run" / "plan.json"),
        recipe=tmp_path / "run" / "recipe.json",
        output=tmp_path / "again",
    )
    assert again.recipe == run.tuned.recipe
    for name in ("model/model.safetensors", "predictions.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_rows_are_part_of_a_recipe(encoder, rows):
    few = frostline.tune(encoder, rows, plan="2,2,2", recipe=Recipe(epochs=1, threads=1, train_rows=40))
    assert few.recipe.train_rows == 40
    assert Recipe.from_json(few.recipe.to_json()) == few.recipe
    every = frostline.tune(encoder, rows, plan="2,2,2", recipe=Recipe(epochs=1, threads=1))
    assert "train_rows" not in every.recipe.to_json()
    assert not few.outputs["validation"].equal(every.outputs["validation"])


def test_tuning_follows_the_rule_that_runs_follow(encoder, rows):
    for plan in (HEAD, Plan.span(2, 2, 2)):
        tuned = frostline.tune(encoder, rows, plan=plan)
        assert tuned.recipe.learning_rate == learning_rate_for(plan, 32)
        assert tuned.recipe.epochs == (3 if plan.layers else 30)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        ("[1]", "is not a recipe in JSON"),
        ('{"epochz": 3}', "is not a recipe in JSON"),
        ('{"epochs": 0}', "epochs 0: must be a whole number, 1 or more"),
    ],
)
def test_a_file_that_is_no_recipe_is_one_line(encoder, rows, content, says, tmp_path):
    file = tmp_path / "recipe.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(OptionError, match=says) as error:
        frostline.tune(encoder, rows, recipe=file)
    assert "\n" not in str(error.value)


def test_a_run_refuses_rows_in_its_recipe(encoder, rows, tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps({"train_rows": 40}))
    with pytest.raises(OptionError, match="a run trains on all rows"):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=tmp_path / "recipe.json")
