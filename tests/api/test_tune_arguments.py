"""What `frostline.tune` takes for plan, method, scores and recipe, and refuses before anything is read."""

from __future__ import annotations

import pytest
from tests.tiny import save_tiny

import frostline
from frostline.errors import OptionError
from frostline.files import output_folder
from frostline.files.provenance import folder_info


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return frostline.load_encoder(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    path.write_text("text,label\n" + "".join(f"text {row},{'warm' if row % 2 else 'cold'}\n" for row in range(40)))
    return frostline.load_task(path)


def test_a_method_in_words_replaces_that_of_the_plan(encoder, task):
    tuned = frostline.tune(encoder, task, plan="4,4,4", method="lora:rank=2", recipe={"epochs": 1, "batch": 8})
    assert (tuned.plan.method, tuned.plan.options) == ("lora", {"rank": 2})
    assert tuned.plan.layers == (4,)


def test_fields_of_a_recipe_are_enough_and_the_others_suit_the_plan(encoder, task):
    tuned = frostline.tune(encoder, task, plan="layers=none,head=2", recipe={"batch": 16, "seed": 3, "threads": 1})
    assert (tuned.recipe.batch, tuned.recipe.seed) == (16, 3)
    assert tuned.recipe.epochs == 30  # only the head trains
    assert frostline.tune(encoder, task, plan="4,4,4", recipe={"batch": 16}).recipe.epochs == 3


def test_scores_may_be_the_folder_of_a_measurement(encoder, task, tmp_path):
    scores = frostline.measure(encoder, task, scores=["variability"])
    output_folder.write(tmp_path / "saved", folder_info("measurement", seed=0), {"scores.json": scores.to_json()})
    given = {"plan": "best-down:layers=1", "recipe": {"epochs": 1}}
    from_folder = frostline.tune(encoder, task, scores=tmp_path / "saved", **given)
    assert from_folder.plan == frostline.tune(encoder, task, scores=scores, **given).plan
    assert from_folder.plan.layers == (scores["variability"].best,)


def test_layers_may_learn_in_proportion_to_a_score(encoder, task):
    given = {"plan": "2,4,4", "recipe": {"batch": 8, "learning_rate": 1e-3, "seed": 2, "threads": 1}}
    tuned = frostline.tune(encoder, task, layer_rates="gradient_norm", **given)
    norms = frostline.measure(encoder, task, scores=["gradient_norm"], seed=2)["gradient_norm"].values[1:]
    assert tuned.recipe.layer_rates == pytest.approx([norm / max(norms) for norm in norms], rel=1e-3)
    plain = frostline.tune(encoder, task, **given)
    assert plain.recipe.layer_rates is None
    assert not plain.outputs["validation"].equal(tuned.outputs["validation"])
    again = frostline.tune(encoder, task, plan="2,4,4", recipe=tuned.recipe)
    assert again.outputs["validation"].equal(tuned.outputs["validation"])


def test_rates_of_layers_that_an_encoder_does_not_have_are_one_line(encoder, task, tmp_path):
    with pytest.raises(OptionError, match=r"^layer rates: 2 for .*, which has 4 layers$"):
        frostline.tune(encoder, task, recipe={"layer_rates": (1.0, 0.5)})
    with pytest.raises(OptionError, match=r"^recipe layer rates: 0 at layer 2: must be a number above 0$"):
        frostline.tune(encoder, task, recipe={"layer_rates": (1.0, 0, 1.0, 1.0)})
    shared = frostline.load_encoder(save_tiny(tmp_path, "albert"))
    with pytest.raises(OptionError, match="have the same weights, so one rate is for all"):
        frostline.tune(shared, task, recipe={"layer_rates": (1.0,) * shared.depth})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layer_rates": "gradient"}, "gradient"),
        ({"method": "lorra"}, "unknown method 'lorra'"),
        ({"plan": "best-dwn"}, "did you mean best-down"),
        ({"recipe": {"epochs": 0}}, "epochs 0: must be"),
        ({"resume": True}, "^`resume=True`: give the folder with `output`$"),
        ({"overwrite": True}, "^`overwrite=True`: give the folder with `output`$"),
        (
            {"scores": "nowhere"},
            "^`scores=nowhere`: No such file or directory; give the folder of",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_encoder_and_data_are_read(given, message):
    with pytest.raises(OptionError, match=message):
        frostline.tune("no/such/encoder", "missing.csv", **given)
