"""Attention on unpadded tokens: values and gradients equal those of the stock padded layer, whichever way is taken."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from tests.tiny import CONFIGS, DEPTH, random_tokens, tiny_encoder

from frostline.encoders.families import FAMILIES
from frostline.kernels.batch_layout import Reads
from frostline.kernels.dropout import Noise, drop

PACKED = [name for name in CONFIGS if FAMILIES[CONFIGS[name].model_type].can_pack]


def gradients(encoder, states, layout, *, padded, reads):
    """The output and the gradient of its weighted sum, for the input and every weight of the last two layers."""
    encoder.model.zero_grad()
    given = states.clone().requires_grad_(True)
    out = encoder.run(given, layout, DEPTH - 1, DEPTH, padded=padded, reads=reads)
    assert len(out) == (len(layout) if reads.is_single else layout.tokens)
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
    (out * weights).sum().backward()
    found = {"input": given.grad}
    for number in (DEPTH - 1, DEPTH):
        for name, value in encoder.parts().layers[number - 1].items():
            found[name] = value.grad
    return out.detach(), {name: grad.clone() for name, grad in found.items() if grad is not None}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("reads", Reads)
def test_values_and_gradients_equal_the_stock_layers(name, reads):
    encoder, tokens = tiny_encoder(name), random_tokens()
    layout = encoder.layout(tokens)
    encoder.model.requires_grad_(True)
    for part in encoder.parts().embeddings.values():
        part.requires_grad_(False)
    with torch.no_grad():
        states = encoder.run(encoder.embed(tokens, layout), layout, 1, DEPTH - 2)
    ours, our_gradients = gradients(encoder, states, layout, padded=False, reads=reads)
    theirs, their_gradients = gradients(encoder, states, layout, padded=True, reads=reads)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert our_gradients.keys() == their_gradients.keys()
    for name, their in their_gradients.items():
        torch.testing.assert_close(our_gradients[name], their, atol=2e-4, rtol=1e-4, msg=name)


@pytest.mark.parametrize("reads", Reads)
def test_the_position_bias_gets_its_gradient_when_embeddings_train(reads):
    encoder, tokens = tiny_encoder("mpnet"), random_tokens()
    layout = encoder.layout(tokens)
    encoder.model.requires_grad_(True)
    found = {}
    for padded in (False, True):
        encoder.model.zero_grad()
        out = encoder.run(encoder.embed(tokens, layout), layout, 1, DEPTH, padded=padded, reads=reads)
        (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        found[padded] = encoder.model.encoder.relative_attention_bias.weight.grad.clone()
    assert found[True].abs().max() > 1e-3
    torch.testing.assert_close(found[False], found[True], atol=2e-4, rtol=1e-4)


def test_dropout_keeps_the_mean_and_drops_the_asked_share():
    factors = Noise(3, 0).keep((1000, 1000), 0.1)
    assert (factors == 0).double().mean().item() == pytest.approx(0.1, abs=1e-3)
    assert factors.mean().item() == pytest.approx(1, abs=1e-3)
    assert factors.unique().tolist() == pytest.approx([0, 1 / 0.9], rel=1e-4)


def test_a_step_has_its_own_coins_and_draws_the_same_ones_again():
    draw = lambda seed, step: Noise(seed, step).keep((500,), 0.5)  # noqa: E731
    assert draw(1, 2).equal(draw(1, 2))
    assert not draw(1, 2).equal(draw(1, 3))
    assert not draw(1, 2).equal(draw(2, 2))


def test_two_draws_of_one_step_differ():
    noise = Noise(0, 0)
    assert not noise.keep((500,), 0.5).equal(noise.keep((500,), 0.5))


def test_without_training_nothing_is_dropped():
    states = torch.ones(10)
    assert drop(states, 0.5, training=False, noise=Noise(0, 0)) is states
    assert drop(states, 0.0, training=True, noise=Noise(0, 0)) is states


@pytest.mark.parametrize("probability", [1.0, -0.1])
def test_an_impossible_probability_is_refused(probability):
    with pytest.raises(ValueError, match="must be at least 0 and below 1"):
        Noise(0, 0).keep((4,), probability)


@pytest.mark.parametrize("name", PACKED)
def test_attention_with_dropout_has_the_mean_of_attention_without(name):
    """Dropout acts on attention's weights, so that many draws average to the plain output before the next norm."""
    from frostline.kernels.attention import attend, attend_at

    encoder, tokens = tiny_encoder(name), random_tokens((4, 7, 7))
    layout = encoder.layout(tokens)
    encoder.model.requires_grad_(True)
    parts = encoder.family.parts(encoder.family.layers(encoder.model)[0])
    states = encoder.embed(tokens, layout).detach()
    bias = lambda length: None  # noqa: E731
    for rule in (attend, partial(attend_at, reads=Reads.FIRST), partial(attend_at, reads=Reads.LAST)):
        plain = rule(parts, states, layout, bias=bias, dropout=0.0, noise=None).detach()
        draws = [
            rule(parts, states, layout, bias=bias, dropout=0.2, noise=Noise(0, step)).detach() for step in range(800)
        ]
        spread = torch.stack(draws).std(0) / np.sqrt(800)
        assert spread.max() > 0
        assert ((torch.stack(draws).mean(0) - plain).abs() <= 5 * spread + 1e-5).all()
