"""Surgery changes exactly what it says, in a new encoder, and stock classes still compute the same."""

from __future__ import annotations

import pytest
import torch
import transformers
from tests.tiny import ALL_CONFIGS, DEPTH, padded_inputs, random_tokens, tiny_encoder

from frostline.encoders.encoder import unroll
from frostline.encoders.surgery import permute, reinitialise, skip, truncate
from frostline.errors import OptionError


def raw_states(encoder, tokens):
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        states = [encoder.embed(tokens, layout)]
        return states + list(encoder.run_each(states[0], layout, 1, encoder.depth))


def snapshot(encoder):
    return {name: value.clone() for name, value in encoder.model.state_dict().items()}


def run_in_order(encoder, tokens, numbers):
    """The independent computation: single layers of the untouched encoder, one after the other."""
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        states = encoder.embed(tokens, layout)
        for number in numbers:
            states = encoder.run(states, layout, number, number)
    return states


OPERATIONS = {
    "reinitialise": lambda encoder: reinitialise(encoder, [2, 3], seed=1),
    "permute": lambda encoder: permute(encoder, [3, 1, 4, 2]),
    "skip": lambda encoder: skip(encoder, 2, 3),
    "truncate": lambda encoder: truncate(encoder, 2),
}


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_original_stays_untouched(name, operation):
    encoder, tokens = tiny_encoder(name), random_tokens()
    weights, config, states = snapshot(encoder), encoder.config.to_dict(), raw_states(encoder, tokens)[-1]
    changed = OPERATIONS[operation](encoder)
    with torch.no_grad():
        for value in changed.model.parameters():
            value.add_(1.0)
    assert encoder.config.to_dict() == config
    assert encoder.order == tuple(range(1, DEPTH + 1))
    assert all(torch.equal(value, weights[key]) for key, value in encoder.model.state_dict().items())
    assert torch.equal(raw_states(encoder, tokens)[-1], states)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_encoder_knows_that_it_was_changed(operation):
    encoder = tiny_encoder("bert")
    assert OPERATIONS[operation](encoder).is_changed
    assert not encoder.is_changed


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_reinitialising_changes_every_tensor_of_the_chosen_layers_and_no_other(name):
    encoder = unroll(tiny_encoder(name))
    before = snapshot(encoder)
    changed = reinitialise(encoder, [1, 3], seed=0)
    parts = changed.parts()
    chosen = {key for number in (1, 3) for key in parts.layers[number - 1]}
    for key, value in changed.model.state_dict().items():
        assert torch.equal(value, before[key]) == (key not in chosen), key


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_new_weights_follow_the_truncated_normal_and_norms_are_reset(name):
    changed = reinitialise(tiny_encoder(name), [2], seed=0)
    drawn = []
    for key, value in changed.parts().layers[1].items():
        if "norm" in key.lower():
            assert torch.equal(value, torch.ones_like(value) if key.endswith("weight") else torch.zeros_like(value))
        else:
            drawn.append(value.detach().flatten())
    values = torch.cat(drawn)
    assert values.abs().max() <= 0.04
    assert values.abs().max() > 0.038
    # The deviation of a standard normal cut at two deviations is 0.8796.
    assert values.std().item() == pytest.approx(0.02 * 0.8796, rel=0.05)
    assert abs(values.mean().item()) < 0.001


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_norms_are_kept_on_request(name):
    encoder = unroll(tiny_encoder(name))
    before = snapshot(encoder)
    changed = reinitialise(encoder, [2], seed=0, keep_norms=True)
    norms = [key for key in changed.parts().layers[1] if "norm" in key.lower()]
    assert norms
    assert all(torch.equal(changed.model.state_dict()[key], before[key]) for key in norms)


def test_the_same_seed_gives_a_layer_the_same_weights_in_every_selection():
    encoder = tiny_encoder("bert")
    alone = reinitialise(encoder, [3], seed=4).parts().layers[2]
    together = reinitialise(encoder, [1, 2, 3], seed=4).parts().layers[2]
    other = reinitialise(encoder, [3], seed=5).parts().layers[2]
    assert all(torch.equal(alone[key], together[key]) for key in alone)
    assert not torch.equal(alone["encoder.layer.2.output.dense.weight"], other["encoder.layer.2.output.dense.weight"])


def test_a_moved_convolution_is_reinitialised_with_its_layer():
    encoder = permute(tiny_encoder("deberta-v2 convolution"), [2, 1, 3, 4])
    before = encoder.model.encoder.conv.conv.weight.clone()
    assert torch.equal(reinitialise(encoder, [1], seed=0).model.encoder.conv.conv.weight, before)
    assert not torch.equal(reinitialise(encoder, [2], seed=0).model.encoder.conv.conv.weight, before)


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_the_pretrained_pooler_stays_with_the_layer_that_it_was_trained_on(name):
    encoder = tiny_encoder(name)
    assert encoder.has_pretrained_pooler
    assert skip(encoder, 2, 3).has_pretrained_pooler
    assert reinitialise(encoder, [2], seed=0).has_pretrained_pooler
    assert not truncate(encoder, 2).has_pretrained_pooler
    assert not permute(encoder, [1, 2, 4, 3]).has_pretrained_pooler


@pytest.mark.parametrize("operation", OPERATIONS)
def test_surgery_changes_the_revision(operation):
    encoder = tiny_encoder("bert")
    encoder.revision = "abc"
    changed = OPERATIONS[operation](encoder).revision
    assert changed.startswith("abc+")
    assert changed == OPERATIONS[operation](encoder).revision
    assert encoder.revision == "abc"


def test_two_layers_get_different_weights():
    parts = reinitialise(tiny_encoder("bert"), [1, 2], seed=0).parts()
    one, two = parts.layers[0]["encoder.layer.0.output.dense.weight"], parts.layers[1]
    assert not torch.equal(one, two["encoder.layer.1.output.dense.weight"])


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("order", [(3, 1, 4, 2), (1, 3, 2, 4)])
def test_permuted_layers_run_in_the_new_order(name, order):
    encoder, tokens = tiny_encoder(name), random_tokens()
    changed = permute(encoder, order)
    assert changed.order == order
    torch.testing.assert_close(raw_states(changed, tokens)[-1], run_in_order(encoder, tokens, order), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("span", [(1, 1), (2, 3), (4, 4), (1, 3)])
def test_skipped_layers_are_gone(name, span):
    encoder, tokens = tiny_encoder(name), random_tokens()
    changed = skip(encoder, *span)
    kept = [number for number in range(1, DEPTH + 1) if not span[0] <= number <= span[1]]
    assert changed.depth == len(kept)
    torch.testing.assert_close(raw_states(changed, tokens)[-1], run_in_order(encoder, tokens, kept), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("layer", range(1, DEPTH + 1))
def test_a_truncated_encoder_ends_at_the_layer(name, layer):
    encoder, tokens = tiny_encoder(name), random_tokens()
    changed = truncate(encoder, layer)
    assert changed.depth == layer == changed.config.num_hidden_layers
    ours, whole = raw_states(changed, tokens), raw_states(encoder, tokens)
    for one, two in zip(ours, whole, strict=False):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize(
    "operate",
    [
        lambda encoder: truncate(encoder, 2),
        lambda encoder: skip(encoder, 2, 3),
        lambda encoder: skip(encoder, 1, 1),
        lambda encoder: permute(encoder, [1, 3, 2, 4]),
        lambda encoder: permute(encoder, [2, 1, 3, 4]),
        lambda encoder: skip(permute(encoder, [2, 1, 3, 4]), 2, 2),
    ],
    ids=["truncate", "skip middle", "skip first", "permute upper", "permute first", "permute, skip"],
)
def test_what_says_it_is_stock_loads_and_computes_the_same_in_the_stock_class(name, operate, tmp_path):
    tokens = random_tokens()
    changed = operate(tiny_encoder(name))
    changed.model.save_pretrained(tmp_path)
    stock = transformers.AutoModel.from_pretrained(tmp_path).eval()
    inputs = padded_inputs(changed, tokens)
    with torch.inference_mode():
        theirs = stock(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
        ours = changed.finish(raw_states(changed, tokens)[-1])
    is_same = torch.allclose(ours, theirs, atol=1e-5, rtol=0)
    assert is_same == changed.is_stock


def test_a_configuration_list_per_layer_is_cut_too():
    kinds = tiny_encoder("modernbert").config.layer_types
    assert truncate(tiny_encoder("modernbert"), 2).config.layer_types == kinds[:2]
    assert skip(tiny_encoder("modernbert"), 2, 3).config.layer_types == [kinds[0], kinds[3]]


def test_albert_keeps_sharing_only_where_layers_stay_alike():
    encoder = tiny_encoder("albert")
    assert truncate(encoder, 2).shares_layers
    assert not permute(encoder, [2, 1, 3, 4]).shares_layers
    assert not reinitialise(encoder, [2], seed=0).shares_layers
    assert not truncate(tiny_encoder("albert two groups"), 2).shares_layers


@pytest.mark.parametrize(
    ("operate", "message"),
    [
        (lambda encoder: truncate(encoder, 5), "layer 5: tiny bert has layers 1..4"),
        (lambda encoder: truncate(encoder, 0), "layer 0: tiny bert has layers 1..4"),
        (lambda encoder: reinitialise(encoder, [1, 9], seed=0), "layer 9: tiny bert has layers 1..4"),
        (lambda encoder: skip(encoder, 3, 2), "layers 3..2 to skip: the first is above the last"),
        (lambda encoder: skip(encoder, 1, 4), "tiny bert: no layer would remain"),
        (lambda encoder: permute(encoder, [1, 2, 2, 4]), "layer order [1, 2, 2, 4]: must contain each of 1..4 once"),
    ],
)
def test_impossible_surgery_is_refused_in_one_line(operate, message):
    with pytest.raises(OptionError) as caught:
        operate(tiny_encoder("bert"))
    assert str(caught.value) == message


def test_surgery_draws_nothing_from_the_global_random_state():
    encoder = tiny_encoder("albert")
    before = torch.get_rng_state()
    reinitialise(encoder, [1], seed=0)
    assert torch.equal(before, torch.get_rng_state())
