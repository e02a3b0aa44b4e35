"""The probe of the released script: what it reads is what the stock model's classifier reads."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from scipy import stats
from tests.scoring.scores.test_contract import make_evidence
from tests.tiny import padded_inputs, random_tokens, tiny_encoder
from transformers import AlbertForSequenceClassification, BertForSequenceClassification

from frostline.errors import MeasureError, OptionError
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.scores._tamkin_probe import TamkinRecipe
from frostline.scoring.scores.probe_paper import probe_linear_paper
from frostline.scoring.scores.probe_pooler import probe_pooler, read_through_pooler
from frostline.states.pooled import pooled_states

OPTIONS = {"trials": 3, "epochs": 5, "learning_rate": 1e-2}


def cut_stock(encoder, layers):
    """The stock classifier on the encoder's weights, cut at a layer as the script did it."""
    kind = {"bert": BertForSequenceClassification, "albert": AlbertForSequenceClassification}[encoder.family.name]
    config = type(encoder.config).from_dict({**encoder.config.to_dict(), "num_hidden_layers": layers})
    stock = kind(config).eval()
    stock.base_model.load_state_dict(encoder.model.state_dict(), strict=False)
    return stock


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_it_reads_what_the_classifier_of_the_stock_model_cut_at_the_layer_reads(name):
    encoder = tiny_encoder(name)
    tokens = random_tokens((5, 3, 8, 4))
    evidence = replace(make_evidence().take(torch.arange(4)), states=pooled_states(encoder, tokens, poolings=["first"]))
    read = read_through_pooler(replace(evidence, encoder=encoder), encoder).states["all"]
    for layer in range(1, encoder.depth + 1):
        seen = []
        stock = cut_stock(encoder, layer)
        stock.classifier.register_forward_pre_hook(lambda module, given, into=seen: into.append(given[0]))
        with torch.no_grad():
            stock(**padded_inputs(encoder, tokens))
        torch.testing.assert_close(read[layer], seen[0], atol=2e-6, rtol=1e-5)


def test_it_is_the_linear_probe_on_the_poolers_outputs():
    evidence = make_evidence()
    pooler, states = evidence.encoder.model.pooler, evidence.states["first"]
    with torch.no_grad():
        pooled = torch.stack([torch.tanh(layer @ pooler.dense.weight.T + pooler.dense.bias) for layer in states])
    expected = probe_linear_paper(replace(evidence, states={"all": pooled}), **OPTIONS)
    torch.testing.assert_close(probe_pooler(evidence, **OPTIONS).values, expected.values, atol=1e-9, rtol=0)
    plain = probe_linear_paper(replace(evidence, states={"all": states}), **OPTIONS)
    assert not torch.equal(expected.values, plain.values)


def test_an_encoder_without_a_pretrained_pooler_is_refused():
    evidence = make_evidence()
    evidence.encoder.has_pretrained_pooler = False
    with pytest.raises(MeasureError, match="needs an encoder with a pretrained pooler"):
        probe_pooler(evidence, **OPTIONS)
    with pytest.raises(MeasureError, match="needs an encoder with a pretrained pooler"):
        probe_pooler(replace(evidence, encoder=None), **OPTIONS)


def test_intervals_over_trials_are_those_of_students_t():
    evidence = make_evidence()
    alone = torch.stack([
        probe_linear_paper(replace(evidence, seed=seed), trials=1, epochs=5, learning_rate=1e-2).values
        for seed in range(3)
    ])  # fmt: skip
    found = probe_linear_paper(evidence, intervals="trials", **OPTIONS)
    low, high = found.interval()
    reach = stats.t.ppf(0.975, 2) * alone.std(0) / 3**0.5
    torch.testing.assert_close(found.values, alone.mean(0))
    torch.testing.assert_close(low, alone.mean(0) - reach)
    torch.testing.assert_close(high, alone.mean(0) + reach)
    assert found.method == "trials"
    one = probe_linear_paper(evidence, trials=1, epochs=2, intervals="trials")
    assert one.interval() is None  # one trial has no interval


def test_an_unknown_kind_of_interval_is_refused():
    with pytest.raises(OptionError, match="intervals 'seeds': must be 'rows' or 'trials'"):
        probe_linear_paper(make_evidence(), intervals="seeds")


def test_both_probes_of_the_paper_have_the_options_of_one_recipe():
    recipe = {field.name: field.default for field in fields(TamkinRecipe)}
    assert LAYER_SCORES["probe.linear.paper"].defaults == LAYER_SCORES["probe.pooler"].defaults == recipe
