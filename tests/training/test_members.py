"""Soups: their weights are the mean of members trained one by one, and an interrupted one continues."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import transformers
from tests.tiny import save_tiny
from tests.training.tuning_tools import train_tiny

import frostline
from frostline.errors import OptionError
from frostline.records import Plan, Recipe
from frostline.training.averaging import Average
from frostline.training.checkpoints import Checkpoints
from frostline.training.loop import TrainingRun, weights_of
from frostline.training.members import seed_of

SOUP = (0.5, 1.0, 2.0)
RECIPE = Recipe(
    schedule="averaged", steps=50, batch=8, learning_rate=1e-3, head_rate=2e-3, cache_dtype="float32", soup=SOUP
)
PLANS = {
    "middle layers": Plan.span(2, 3, 4),
    "all layers": Plan.full(4),
    "LoRA": replace(Plan.span(2, 4, 4), method="lora"),
    "head alone": Plan(layers=(), head=3),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


def trained(plan, recipe=RECIPE, **more):
    return train_tiny(recipe, plan=plan, **more)


@pytest.mark.parametrize("name", PLANS)
def test_a_soup_is_the_mean_of_members_trained_one_by_one(name):
    members = []
    for number, factor in enumerate(SOUP):
        rate, seed = factor * RECIPE.learning_rate, seed_of(RECIPE.seed, number)
        single = replace(RECIPE, soup=None, learning_rate=rate, seed=seed)
        members.append(weights_of(trained(PLANS[name], single, validation=False)[0]))
    soup, _ = trained(PLANS[name], validation=False)
    for tensor, value in weights_of(soup).items():
        mean = torch.stack([member[tensor] for member in members]).mean(0)
        assert torch.allclose(value, mean, atol=1e-6), tensor
        assert any(not torch.equal(member[tensor], members[0][tensor]) for member in members[1:]), tensor


def test_a_soup_of_one_is_the_model_itself():
    soup, _ = trained(PLANS["middle layers"], replace(RECIPE, soup=(2.0,)))
    alone, _ = trained(PLANS["middle layers"], replace(RECIPE, soup=None, learning_rate=2e-3))
    for tensor, value in weights_of(alone).items():
        assert torch.equal(value, weights_of(soup)[tensor]), tensor


def test_members_have_orders_of_their_own_and_the_first_that_of_the_seed():
    assert seed_of(7, 0) == 7
    assert len({seed_of(7, number) for number in range(5)} | {seed_of(8, 1)}) == 6


def test_the_average_of_members_is_the_mean_of_their_averages():
    values = torch.randn(20, 3, 4, generator=torch.Generator().manual_seed(0))
    together = Average({"weight": torch.zeros(4)})
    alone = [Average({"weight": torch.zeros(4)}) for _ in range(3)]
    for step, of_step in enumerate(values):
        together.add(step, [{"weight": own} for own in of_step])
        for average, own in zip(alone, of_step, strict=True):
            average.add(step, [{"weight": own}])
    mean = torch.stack([average.weights["weight"] for average in alone]).mean(0)
    assert torch.allclose(together.weights["weight"], mean, atol=1e-6)


def test_an_interrupted_soup_continues_as_if_nothing_had_happened(tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def kept(*, resume):
        return Checkpoints(tmp_path / "kept", run="one", resume=resume, at_evaluations=True)

    recipe, plan, update = replace(RECIPE, steps=80), PLANS["all layers"], TrainingRun._update

    def stop_at_60(run, member, number):
        if number == 60 and member is run.members[1]:
            raise Stop
        return update(run, member, number)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "_update", stop_at_60)
        with pytest.raises(Stop):
            trained(plan, recipe, checkpoints=kept(resume=False))
    continued, result = trained(plan, recipe, checkpoints=kept(resume=True))  # from step 40
    alone, expected = trained(plan, recipe)
    for name, value in weights_of(alone).items():
        assert torch.equal(value, weights_of(continued)[name]), name
    losses = [[record["validation_loss"] for record in one.history] for one in (result, expected)]
    assert losses[0] == losses[1]
    assert [record["step"] for record in result.history] == [40, 80]


@pytest.mark.parametrize(
    ("recipe", "word"),
    [
        ({"soup": (1.0, 2.0)}, "linear"),
        ({"soup": (), "schedule": "averaged"}, "no factor"),
        ({"soup": (1.0, 0.0), "schedule": "averaged"}, "0.0"),
        ({"soup": (1.0, float("nan")), "schedule": "averaged"}, "nan"),
    ],
)
def test_a_wrong_soup_is_refused(recipe, word):
    with pytest.raises(OptionError, match=word):
        Recipe(**recipe)


def test_a_soup_is_recorded_and_is_another_trial():
    recipe = Recipe.from_json({**RECIPE.to_json()})
    assert recipe == RECIPE
    assert "3 models at 0.5, 1, 2 times" in recipe.in_words()
    assert replace(recipe, soup=(1.0, 1.0)).in_words().endswith("the mean of the weights of 2 models")
    assert "soup" not in replace(RECIPE, soup=None).to_json()


def test_a_saved_soup_is_one_stock_model(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "".join(f"text {row},{'warm' if row % 2 else 'cold'}\n" for row in range(40)))
    encoder, task = frostline.load_encoder(save_tiny(tmp_path / "tiny")), frostline.load_task(rows)
    recipe = {"soup": (1, 2), "schedule": "averaged", "steps": 45, "batch": 8, "learning_rate": 1e-3}
    tuned = frostline.tune(encoder, task, plan="3,4,4", recipe=recipe, output=tmp_path / "soup")
    single = frostline.tune(encoder, task, plan="3,4,4", recipe={**recipe, "soup": None})
    assert tuned.record.parameters == single.record.parameters
    assert not single.outputs["validation"].equal(tuned.outputs["validation"])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "soup" / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "soup" / "model")
    given = tokenizer(list(task.validation.texts), padding=True, return_tensors="pt")
    with torch.no_grad():
        assert torch.allclose(model(**given).logits, tuned.outputs["validation"], atol=1e-4)
