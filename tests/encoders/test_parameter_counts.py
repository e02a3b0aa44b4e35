"""Parameter counts come out from configurations alone, to the digit where the papers give digits."""

from __future__ import annotations

import pytest
import torch
import transformers
from tests.tiny import ALL_CONFIGS, DEPTH

from frostline.encoders.encoder import unroll
from frostline.encoders.heads import make_head
from frostline.encoders.parameter_counts import count_parameters
from frostline.errors import OptionError
from frostline.records import Plan

BASE = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
LARGE = {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}


def bert(size):
    return transformers.BertConfig(vocab_size=30522, **size)


def roberta(size):
    return transformers.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, **size)


@pytest.mark.parametrize(
    ("plan", "total", "trainable"),
    [
        (Plan.full(24), 355_362_819, 355_362_819),
        (Plan.span(1, 14, 14), 229_400_579, 177_399_811),
        (Plan.span(15, 24, 24), 355_362_819, 127_014_915),
    ],
    ids=str,
)
def test_paper_1s_counts_for_roberta_large(plan, total, trainable):
    counts = count_parameters(roberta(LARGE), labels=3)
    assert counts.kept(plan) == total
    assert counts.trainable(plan) == trainable


@pytest.mark.parametrize(
    ("config", "embeddings", "layer", "output", "total"),
    [
        (bert(BASE), 24e6, 7e6, 0.6e6, 110e6),
        (roberta(BASE), 39e6, 7e6, 0.6e6, 125e6),
        (bert(LARGE), 32e6, 13e6, 1e6, 335e6),
        (roberta(LARGE), 52e6, 13e6, 1e6, 355e6),
    ],
    ids=["bert-base", "roberta-base", "bert-large", "roberta-large"],
)
def test_paper_5s_table(config, embeddings, layer, output, total):
    counts = count_parameters(config)
    assert float(f"{counts.embeddings:.2g}") == embeddings
    assert {float(f"{count / 1e6:.0f}e6") for count in counts.layers} == {layer}
    assert float(f"{counts.head:.1g}") == output
    # The table prints three digits; the papers' digest asks for two, and 124.6 and 109.5 million round to them.
    assert float(f"{counts.total:.2g}") == float(f"{total:.2g}")
    assert round(counts.total / 1e6) in (total / 1e6, total / 1e6 - 1)


def test_bert_base_to_the_digit():
    assert count_parameters(bert(BASE)).total == 109_482_240


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_counts_equal_those_of_the_stock_classifier(name):
    config = ALL_CONFIGS[name]
    counts = count_parameters(config, labels=3)
    whole = type(config).from_dict({**config.to_dict(), "num_labels": 3})
    stock = transformers.AutoModelForSequenceClassification.from_config(whole)
    assert counts.total == sum(value.numel() for value in stock.parameters())
    assert len(counts.layers) == DEPTH


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_counts_without_weights_equal_counts_of_a_loaded_encoder(name):
    from tests.tiny import tiny_encoder

    encoder = unroll(tiny_encoder(name))
    counts = count_parameters(ALL_CONFIGS[name], labels=3)
    parts = encoder.parts()
    assert counts.embeddings == sum(value.numel() for value in parts.embeddings.values())
    assert list(counts.unrolled) == [sum(value.numel() for value in layer.values()) for layer in parts.layers]
    assert counts.head == sum(value.numel() for value in make_head(encoder, labels=3).parameters())


def test_what_albert_shares_is_counted_once_until_it_is_unrolled():
    counts = count_parameters(ALL_CONFIGS["albert"], labels=2)
    layer = counts.layers[0]
    assert counts.layers == (layer, 0, 0, 0)
    assert counts.unrolled == (layer,) * DEPTH
    assert counts.trainable(Plan.full(DEPTH)) == counts.kept(Plan.full(DEPTH)) == counts.total
    assert counts.trainable(Plan.span(3, 4, 4)) == 2 * layer + counts.head
    assert counts.kept(Plan.span(3, 4, 4)) == counts.embeddings + 4 * layer + counts.head
    assert counts.kept(Plan(layers=(), head=2)) == counts.embeddings + layer + counts.head
    assert count_parameters(ALL_CONFIGS["albert two groups"]).layers[1::2] == (0, 0)


def test_counting_allocates_nothing_and_draws_nothing_from_the_random_state():
    before = torch.get_rng_state()
    huge = transformers.BertConfig(num_hidden_layers=24, hidden_size=16384, num_attention_heads=64)
    assert count_parameters(huge, labels=2).total > 20e9  # 90 GB in float32
    assert torch.equal(before, torch.get_rng_state())


def test_a_plan_deeper_than_the_encoder_is_refused():
    counts = count_parameters(ALL_CONFIGS["bert"])
    for count in (counts.kept, counts.trainable):
        with pytest.raises(OptionError, match=r"plan \(3, 6, 6\): the encoder has layers 1\.\.4"):
            count(Plan.span(3, 6, 6))
