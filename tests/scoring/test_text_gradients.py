"""Inner products of gradients against whole gradients of one text at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import ALL_CONFIGS, CONFIGS, DEPTH, random_tokens, tiny_encoder

from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.heads import make_head, make_mean_head
from frostline.encoders.tokens import Tokens
from frostline.scoring.text_gradients import HeadedEncoder, gradient_kernels

# The first has a position table as long as that of relative embeddings in DeBERTa v2: shapes alone say little.
LENGTHS = (16, 5, 12, 3, 9, 2, 12)
DRAWS = 60


def network_of(name: str, head: str = "family") -> HeadedEncoder:
    encoder = tiny_encoder(name)
    encoder.model.double()
    made = (make_head if head == "family" else make_mean_head)(encoder, labels=1)
    return HeadedEncoder(encoder, made.double().eval().requires_grad_(False))


def directions_of(network: HeadedEncoder, tokens: Tokens, count: int = 2) -> torch.Tensor:
    width = network.features(tokens).shape[1]
    return torch.randn(count, width, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def whole_gradients(network: HeadedEncoder, tokens: Tokens, direction: torch.Tensor) -> list[torch.Tensor]:
    """For each part (texts, parameters): each text alone through the stock layers, and autograd for all parameters."""
    encoder, parts = network.encoder, network.parts()
    parameters = [parameter for part in parts for parameter in part]
    last = [module for module in network.head.modules() if isinstance(module, torch.nn.Linear)][-1]
    before = [parameter.requires_grad for parameter in parameters]
    rows: list[list[torch.Tensor]] = [[] for _ in parts]
    for parameter in parameters:
        parameter.requires_grad_(True)
    for text in range(len(tokens)):
        one = tokens.take([text])
        layout = encoder.layout(one)
        states = encoder.run(encoder.embed(one, layout), layout, 1, encoder.depth, padded=True)
        read: list[torch.Tensor] = []
        handle = last.register_forward_pre_hook(lambda _, inputs, read=read: read.append(inputs[0]))
        network.head(states[None])
        handle.remove()
        found = iter(torch.autograd.grad(read[0].flatten() @ direction, parameters, materialize_grads=True))
        for part, into in zip(parts, rows, strict=True):
            flat = [next(found).flatten() for _ in part]
            into.append(torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64))
    for parameter, wanted in zip(parameters, before, strict=True):
        parameter.requires_grad_(wanted)
    return [torch.stack(of_part) for of_part in rows]


def whole_kernels(network: HeadedEncoder, tokens: Tokens, directions: torch.Tensor) -> torch.Tensor:
    kernels = []
    for direction in directions:
        gradients = whole_gradients(network, tokens, direction)
        kernels.append(torch.stack([of_part @ of_part.T for of_part in gradients]))
    return torch.stack(kernels).sum(0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("head", ["family", "mean"])
def test_kernels_equal_those_of_whole_gradients_of_one_text_at_a_time(name, head):
    network, tokens = network_of(name, head), random_tokens(LENGTHS)
    directions = directions_of(network, tokens)
    kernels = gradient_kernels(network, tokens, directions, rank=None, seed=0)
    expected = whole_kernels(network, tokens, directions)
    assert kernels.shape == (DEPTH + 2, len(LENGTHS), len(LENGTHS))
    assert (expected[: DEPTH + 1].diagonal(dim1=1, dim2=2) > 0).all()
    for ours, theirs in zip(kernels, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10 * float(theirs.max()))


@pytest.mark.parametrize("name", CONFIGS)
def test_texts_run_in_batches_but_where_a_parameter_is_used_outside_of_tokens(name, monkeypatch):
    network, tokens = network_of(name), random_tokens(LENGTHS)
    directions, sizes = directions_of(network, tokens, 1), []
    read = network.read
    monkeypatch.setattr(network, "read", lambda batch: sizes.append(len(batch)) or read(batch))
    gradient_kernels(network, tokens, directions, rank=None, seed=0)
    assert (max(sizes) == len(LENGTHS)) == (name.split(" ")[0] not in ("mpnet", "deberta", "deberta-v2"))


def test_padding_typed_as_text_has_no_gradient_in_the_table():
    network, tokens = network_of("roberta"), random_tokens(LENGTHS)
    ids = tokens.ids.copy()
    ids[[1, 6]] = network.encoder.config.pad_token_id
    tokens = replace(tokens, ids=ids)
    directions = directions_of(network, tokens)
    kernels = gradient_kernels(network, tokens, directions, rank=None, seed=0)
    torch.testing.assert_close(kernels[0], whole_kernels(network, tokens, directions)[0])


@pytest.mark.parametrize("name", ["bert", "deberta-v2 convolution"])
def test_projected_kernels_are_those_of_whole_gradients_in_the_mean(name):
    network, tokens = network_of(name), random_tokens((4, 2, 3))
    directions = directions_of(network, tokens, 1)
    exact = gradient_kernels(network, tokens, directions, rank=None, seed=0)
    drawn = torch.stack([gradient_kernels(network, tokens, directions, rank=12, seed=seed) for seed in range(DRAWS)])
    # Two sums per part, not every entry: of hundreds of correlated means, some are always far off.
    for of_drawn, of_exact in ((drawn.sum((2, 3)), exact.sum((1, 2))), (trace(drawn), trace(exact))):
        error = of_drawn.std(0) / DRAWS**0.5
        assert (error[1:] > 0).all()  # BERT's embeddings are exact
        assert ((of_drawn.mean(0) - of_exact).abs() <= 4 * error + 1e-9 * of_exact).all()


def trace(kernels: torch.Tensor) -> torch.Tensor:
    return kernels.diagonal(dim1=-2, dim2=-1).sum(-1)


def test_neither_weights_nor_modes_nor_the_random_state_change():
    network, tokens = network_of("mpnet"), random_tokens(LENGTHS)
    model = network.encoder.model
    next(model.parameters()).requires_grad_(False)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    wanted, state = [parameter.requires_grad for parameter in model.parameters()], torch.get_rng_state()
    gradient_kernels(network, tokens, directions_of(network, tokens), rank=8, seed=0)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert [parameter.requires_grad for parameter in model.parameters()] == wanted
    assert model.training and torch.equal(torch.get_rng_state(), state)
    assert all(not module._forward_hooks for module in network.modules())


def test_layers_that_share_parameters_have_gradients_of_their_own():
    encoder: Encoder = tiny_encoder("albert")
    head = make_head(encoder, labels=1).eval().requires_grad_(False)
    tokens = random_tokens(LENGTHS)
    shared, apart = HeadedEncoder(encoder, head), HeadedEncoder(unroll(encoder), head)
    direction = torch.from_numpy(np.linspace(-1, 1, encoder.width))[None]
    ours, theirs = (gradient_kernels(one, tokens, direction, rank=None, seed=0) for one in (shared, apart))
    torch.testing.assert_close(ours, theirs)
    assert not torch.allclose(ours[1], ours[2])
