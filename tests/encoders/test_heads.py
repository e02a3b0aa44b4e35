"""Heads equal those of the stock classes, for classification, regression and multiple choice, for every family."""

from __future__ import annotations

import pytest
import torch
import transformers
from tests.tiny import ALL_CONFIGS, CONFIGS, DEPTH, padded_inputs, random_tokens, tiny_encoder

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import FamilyHead, HeadKind, MeanHead, family_head, make_head, make_mean_head
from frostline.encoders.surgery import truncate
from frostline.errors import EncoderError
from frostline.kernels.batch_layout import Reads


def stock_model(encoder: Encoder, head: FamilyHead):
    """The stock class with the encoder's and the head's weights, loaded under their own names."""
    config = type(encoder.config).from_dict(encoder.config.to_dict())
    config.num_labels = head.stock.config.num_labels
    stock = type(head.stock)(config)
    prefix = stock.base_model_prefix
    weights = {f"{prefix}.{name}": value for name, value in encoder.model.state_dict().items()}
    weights |= head.stock.state_dict()
    missing, unexpected = stock.load_state_dict(weights, strict=False)
    assert not missing
    assert all(name.startswith(f"{prefix}.pooler.") for name in unexpected)  # a pooler that this class does without
    return stock.eval()


def top_states(encoder: Encoder, tokens, layer: int):
    layout = encoder.layout(tokens)
    states = encoder.run(encoder.embed(tokens, layout), layout, 1, layer)
    return layout.pad(states), layout.padded.mask


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("labels", [1, 3])
def test_logits_equal_the_stock_classifier(name, labels):
    encoder, tokens = tiny_encoder(name), random_tokens()
    kind: HeadKind = "regression" if labels == 1 else "classification"
    head = make_head(encoder, labels=labels, kind=kind, seed=3).eval()
    with torch.inference_mode():
        ours = head(*top_states(encoder, tokens, DEPTH))
        theirs = stock_model(encoder, head)(**padded_inputs(encoder, tokens)).logits
    assert ours.shape == (len(tokens), labels)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_a_head_below_the_top_equals_the_stock_classifier_of_the_truncated_encoder(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    head = make_head(encoder, labels=3, layer=2, seed=3).eval()
    with torch.inference_mode():
        ours = head(*top_states(encoder, tokens, 2))
        theirs = stock_model(truncate(encoder, 2), head)(**padded_inputs(encoder, tokens)).logits
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [name for name in ALL_CONFIGS if not name.startswith("deberta") or "v2" in name])
def test_multiple_choice_logits_equal_the_stock_class(name):
    encoder, tokens = tiny_encoder(name), random_tokens((5, 9, 7, 9, 4, 6))
    head = make_head(encoder, labels=1, kind="multiple choice", seed=3).eval()
    with torch.inference_mode():
        states, mask = top_states(encoder, tokens, DEPTH)
        ours = head(states.unflatten(0, (3, 2)), mask.unflatten(0, (3, 2)))
        inputs = {key: value.unflatten(0, (3, 2)) for key, value in padded_inputs(encoder, tokens).items()}
        theirs = stock_model(encoder, head)(**inputs).logits
    assert ours.shape == (3, 2)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [name for name in ALL_CONFIGS if name != "modernbert mean pooling"])
def test_the_first_token_is_all_that_a_family_head_reads(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    head = make_head(encoder, labels=3, seed=3).eval()
    assert head.reads is Reads.FIRST
    with torch.inference_mode():
        states, mask = top_states(encoder, tokens, DEPTH)
        torch.testing.assert_close(head(states[:, :1]), head(states, mask), atol=1e-6, rtol=0)


def test_mean_pooling_reads_every_token():
    assert make_head(tiny_encoder("modernbert mean pooling"), labels=3).reads is Reads.ALL


def test_deberta_has_no_multiple_choice_class():
    with pytest.raises(EncoderError, match="DeBERTa has no multiple-choice class"):
        make_head(tiny_encoder("deberta"), labels=1, kind="multiple choice")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_fresh_head_is_drawn_from_the_seed_alone(name):
    torch.manual_seed(99)
    encoder = tiny_encoder(name)
    first = make_head(encoder, labels=3, layer=2, seed=5).state_dict()
    torch.manual_seed(7)
    state_before = torch.get_rng_state()
    again = make_head(encoder, labels=3, layer=2, seed=5).state_dict()
    other = make_head(encoder, labels=3, layer=2, seed=6).state_dict()
    assert torch.equal(state_before, torch.get_rng_state())
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    assert all(value.isfinite().all() for value in first.values())


@pytest.mark.parametrize("name", CONFIGS)
def test_fresh_weights_have_the_spread_that_the_stock_class_gives(name):
    wide = type(CONFIGS[name]).from_dict(CONFIGS[name].to_dict())
    wide.hidden_size = 256
    if name.startswith("deberta"):
        wide.pooler_hidden_size = 256
    torch.manual_seed(0)
    stock = transformers.AutoModelForSequenceClassification.from_config(wide).state_dict()
    ours = family_head(wide, labels=2).stock.state_dict()
    for key, value in ours.items():
        torch.testing.assert_close(value.std(correction=0), stock[key].std(correction=0), rtol=0.2, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_the_pooler_is_pretrained_at_the_top_and_fresh_below(name):
    encoder = tiny_encoder(name)
    prefix = encoder.model.base_model_prefix
    pretrained = encoder.parts().pooler
    top = make_head(encoder, labels=2).stock.state_dict()
    below = make_head(encoder, labels=2, layer=2).stock.state_dict()
    assert pretrained
    for key, value in pretrained.items():
        assert torch.equal(top[f"{prefix}.{key}"], value)
        assert not torch.equal(below[f"{prefix}.{key}"], value)


def test_the_pooler_is_fresh_everywhere_when_the_checkpoint_had_none():
    encoder = Encoder(tiny_encoder("bert").model, has_pretrained_pooler=False)
    top = make_head(encoder, labels=2).stock.state_dict()
    assert not torch.equal(top["bert.pooler.dense.weight"], encoder.model.pooler.dense.weight)


@pytest.mark.parametrize("layer", [2, DEPTH])
def test_the_final_norm_of_a_head_is_always_the_pretrained_one(layer):
    encoder = tiny_encoder("modernbert")
    head = make_head(encoder, labels=2, layer=layer).stock.state_dict()
    assert torch.equal(head["model.final_norm.weight"], encoder.model.final_norm.weight)


def test_the_classifier_of_another_task_is_never_taken_over(tmp_path):
    torch.manual_seed(0)
    tuned = transformers.AutoModelForSequenceClassification.from_config(CONFIGS["roberta"])
    tuned.save_pretrained(tmp_path)
    head = make_head(Encoder(tuned.roberta, folder=tmp_path), labels=2).stock.state_dict()
    theirs = tuned.state_dict()
    assert head["classifier.out_proj.weight"].shape == theirs["classifier.out_proj.weight"].shape
    assert not torch.equal(head["classifier.out_proj.weight"], theirs["classifier.out_proj.weight"])


def test_a_head_owns_its_weights():
    encoder = tiny_encoder("bert")
    before = encoder.model.pooler.dense.weight.clone()
    with torch.no_grad():
        make_head(encoder, labels=2).stock.bert.pooler.dense.weight.zero_()
    assert torch.equal(encoder.model.pooler.dense.weight, before)


def test_pretrained_head_layers_outside_the_base_model_are_used_at_the_top(tmp_path):
    torch.manual_seed(0)
    masked = transformers.AutoModelForMaskedLM.from_config(CONFIGS["modernbert"])
    masked.save_pretrained(tmp_path)
    encoder = Encoder(masked.model, folder=tmp_path)
    top = make_head(encoder, labels=2).stock.state_dict()
    below = make_head(encoder, labels=2, layer=2).stock.state_dict()
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).state_dict()
    assert torch.equal(top["head.dense.weight"], masked.head.dense.weight)
    assert torch.equal(top["head.dense.weight"], theirs["head.dense.weight"])
    assert not torch.equal(below["head.dense.weight"], masked.head.dense.weight)


def test_the_mean_head_is_a_linear_layer_on_the_mean_of_real_tokens():
    torch.manual_seed(0)
    head = MeanHead(8, outputs=3, dropout=0.1).eval()
    states = torch.randn(2, 4, 8)
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]).bool()
    with torch.inference_mode():
        logits = head(states, mask)
        for row, length in enumerate((3, 2)):
            expected = head.classifier(states[row, :length].mean(0))
            torch.testing.assert_close(logits[row], expected)


@pytest.mark.parametrize(
    ("name", "rate"), [("bert", 0.1), ("distilbert", 0.2), ("mpnet", 0.1), ("deberta-v2", 0.1), ("modernbert", 0.0)]
)
def test_the_mean_head_has_the_dropout_that_the_family_gives_its_classifier(name, rate):
    assert make_mean_head(tiny_encoder(name), labels=2).dropout.p == rate


def test_the_mean_head_gives_one_logit_per_choice():
    head = MeanHead(8, outputs=1, dropout=0.0).eval()
    states = torch.randn(5, 3, 4, 8)
    assert head(states, torch.ones(5, 3, 4)).shape == (5, 3)


def test_the_mean_head_reads_through_the_final_norm():
    norm = torch.nn.LayerNorm(8)
    head = MeanHead(8, outputs=2, dropout=0.0, final_norm=norm).eval()
    states = torch.randn(2, 4, 8)
    with torch.inference_mode():
        torch.testing.assert_close(head(states), head.classifier(norm(states).mean(1)))
