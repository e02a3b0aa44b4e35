"""What scripts did otherwise than the papers say."""

from __future__ import annotations

import json

import pytest
import torch
from scipy.stats import truncnorm
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly
from tests.tiny import tiny_encoder, tiny_tokenizer
from transformers import BertConfig, BertModel

from frostline.encoders.loading import quiet_transformers
from frostline.encoders.surgery import reinitialise
from frostline.errors import OptionError
from frostline.records import LayerScores, Plan
from frostline.studies._released import freeze_by_prefix


@pytest.mark.parametrize(
    ("tuned", "kept"),
    [
        (range(8, 13), [8, 9, 10]),  # layer 2 is `layer.1`, and 11 and 12 are `layer.10` and `layer.11`
        ([2, 11, 12], [2, 11, 12]),
        ([11, 12], []),
        ([1, 3, 5], [1, 3, 5]),
        (range(1, 13), range(1, 13)),
    ],
)
def test_freezing_by_the_beginning_of_names_freezes_the_tens_with_the_one(tuned, kept):
    plan = Plan(layers=tuple(tuned), head=12)
    assert freeze_by_prefix(plan).layers == tuple(kept)


def test_an_encoder_of_24_layers_loses_all_the_tens_and_twenties():
    plan = freeze_by_prefix(Plan(layers=tuple(range(4, 25)), head=24))
    assert plan.layers == tuple(range(4, 11))  # `layer.1` and `layer.2` take 10..19 and 20..23 with them


@pytest.mark.parametrize("name", ["freeze", "surgical"])
def test_studies_freeze_by_the_beginning_of_names_where_that_is_asked(name, tmp_path):
    """With 12 layers, the two tens: layers 11 and 12, which are `layer.10` and `layer.11`."""
    model = BertModel(BertConfig(vocab_size=120, hidden_size=8, num_hidden_layers=12, num_attention_heads=2,
                                 intermediate_size=8, max_position_embeddings=64))  # fmt: skip
    with quiet_transformers():
        model.save_pretrained(tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    tuned = {}
    for asked in (False, True):
        found = run_quickly(name, tmp_path, executor=MadeUp, seeds=1, output=tmp_path / f"{asked}",
                            options={"frozen_as_released": asked})  # fmt: skip
        tuned[asked] = {(point["arm"], point["seed"]): point.spec.plan.layers for point in found.points}
    arm = {"freeze": ("6 frozen", 0), "surgical": ("last-1", 0)}[name]
    assert tuned[False][arm] == {"freeze": (7, 8, 9, 10, 11, 12), "surgical": (12,)}[name]
    assert tuned[True][arm] == {"freeze": (7, 8, 9, 10), "surgical": ()}[name]
    assert tuned[False]["full", 0] == tuned[True]["full", 0] == tuple(range(1, 13))


def test_new_layers_are_drawn_as_the_script_drew_them_where_that_is_asked(tmp_path):
    """A deviation of 0.00046 in place of one of 0.02 cut at two deviations, and biases as pretrained."""
    encoder = tiny_encoder("bert")
    text, script = (reinitialise(encoder, [2], seed=0, as_released=flag).parts().layers[1] for flag in (False, True))
    pretrained = encoder.parts().layers[1]
    name = next(one for one in pretrained if one.endswith("intermediate.dense.weight")).removesuffix(".weight")
    assert text[f"{name}.weight"].std().item() == pytest.approx(truncnorm(-2, 2, scale=0.02).std(), rel=0.05)
    assert script[f"{name}.weight"].std().item() == pytest.approx(truncnorm(-0.04, 0.04, scale=0.02).std(), rel=0.05)
    assert truncnorm(-0.04, 0.04, scale=0.02).std() == pytest.approx(0.00046, abs=5e-6)
    assert script[f"{name}.weight"].abs().max().item() <= 0.0008
    assert torch.equal(script[f"{name}.bias"], pretrained[f"{name}.bias"])
    assert not torch.equal(text[f"{name}.bias"], pretrained[f"{name}.bias"])
    found = run_quickly("reinitialise", tmp_path, executor=MadeUp, options={"as_released": True}, seeds=1)
    surgeries = [point.spec.surgery for point in found.points if point.spec.surgery]
    assert surgeries
    assert all(surgery["as_released"] is True for surgery in surgeries)


def test_surgical_ranks_by_any_score(tmp_path):
    found = run_quickly("surgical", tmp_path, layers=2, options={"score": "fisher.released"}, rows=60)
    assert {"full", "top-1", "bottom-1", "last-1"} <= {point["arm"] for point in found.points}
    assert found.failed == ()


def test_robustness_takes_the_states_that_are_asked_for(tmp_path):
    data = write_rows(tmp_path / "letters.csv", 120)
    # A character without a word has an id below 3: the script leaves it out, and the paper does not.
    data.write_text(data.read_text(encoding="utf-8").replace("a", "a é"), encoding="utf-8")
    found = run_quickly("robustness", tmp_path, layers=2, options={"states": "released", "sizes": "40,20"}, seeds=1)
    assert {row["states"] for row in found.tables[0].records()} == {"released"}
    usual = run_quickly("robustness", tmp_path, options={"states": "mean", "sizes": "40,20"}, seeds=1,
                        output=tmp_path / "usual")  # fmt: skip
    assert found.points[0].result.values != usual.points[0].result.values
    with pytest.raises(OptionError, match="option states 'reelased' must be one of mean, first, all, released"):
        run_quickly("robustness", tmp_path, layers=2, options={"states": "reelased"}, output=tmp_path / "other")


def test_permute_draws_new_weights_as_it_is_asked_to(tmp_path):
    for asked in ({}, {"as_released": True}, {"keep_norms": True}):
        found = run_quickly("permute", tmp_path, executor=MadeUp, options=asked, seeds=1, output=tmp_path / str(asked))
        (surgery,) = {str(point.spec.surgery) for point in found.points if point["arm"] == "all new"}
        assert surgery == str({"reinitialise": [1, 2, 3, 4], **asked})


def test_strategies_looks_at_the_states_that_are_asked_for(tmp_path):
    quick = {"executor": MadeUp, "seeds": 1, "layers": 3}
    for states in ("mean", "first"):
        found = run_quickly("strategies", tmp_path, options={"states": states}, output=tmp_path / states, **quick)
        (place,) = (found.folder / "scores").glob("*.json")
        assert LayerScores.from_json(json.loads(place.read_text())).pooling == states
