"""Attention over a prefix equals what a plain loop over texts and heads computes, in every family."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.plans.methods.tuned import WIDTH, count, shake, tuned
from tests.tiny import CONFIGS, LENGTHS, random_tokens, tiny_encoder
from torch import Tensor

from frostline.errors import EncoderError, OptionError
from frostline.kernels.batch_layout import Reads
from frostline.plans.methods import METHODS

LENGTH, HEADS, SIZE = 5, 4, 8


def by_hand(tunable: Any, number: int, states: Tensor) -> Tensor:
    """What attention gathers for one text, (tokens, width), from the layer's input."""
    layer, model = tunable.layer(number), tunable.model
    family = tunable.encoder.family
    attention = layer.get_submodule(family.attention_path)
    out = torch.empty_like(states)
    for head in range(HEADS):
        mine = slice(head * SIZE, (head + 1) * SIZE)
        query, _, value, scores = SCORES.get(family.name, plain)(layer, model, family, states, head)
        more_keys, more_values = attention.prefix.keys[:, mine], attention.prefix.values[:, mine]
        parts = {"deberta": 3, "deberta-v2": 3}.get(family.name, 1)
        to_prefix = query @ more_keys.T / math.sqrt(parts * SIZE)
        weights = torch.cat([to_prefix, scores], dim=1).exp()
        weights = weights / weights.sum(1, keepdim=True)
        out[:, mine] = weights @ torch.cat([more_values, value])
    return out


def sides(layer: Any, family: Any, states: Tensor, head: int) -> list[Tensor]:
    mine = slice(head * SIZE, (head + 1) * SIZE)
    linears = [layer.get_submodule(family.projections[side]) for side in ("query", "key", "value")]
    return [states @ linear.weight[mine].T + linear.bias[mine] for linear in linears]


def plain(layer: Any, model: Any, family: Any, states: Tensor, head: int) -> tuple[Tensor, ...]:
    query, key, value = sides(layer, family, states, head)
    return query, key, value, query @ key.T / math.sqrt(SIZE)


def with_position_bias(layer: Any, model: Any, family: Any, states: Tensor, head: int) -> tuple[Tensor, ...]:
    query, key, value, scores = plain(layer, model, family, states, head)
    return query, key, value, scores + model.encoder.compute_position_bias(states[None])[0, head]


def rotated(side: Tensor, frequencies: Tensor) -> Tensor:
    angle = torch.arange(len(side))[:, None] * frequencies
    low, high = side.chunk(2, dim=1)
    return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], dim=1)


def rotary(layer: Any, model: Any, family: Any, states: Tensor, head: int) -> tuple[Tensor, ...]:
    weight = layer.attn.Wqkv.weight.view(3, HEADS, SIZE, WIDTH)[:, head]
    query, key, value = (layer.attn_norm(states) @ side.T for side in weight)
    frequencies = getattr(model.rotary_emb, f"{layer.attention_type}_inv_freq")
    query, key = rotated(query, frequencies), rotated(key, frequencies)
    scores = query @ key.T / math.sqrt(SIZE)
    if layer.attention_type == "sliding_attention":
        place = torch.arange(len(states))
        far = (place[:, None] - place).abs() > model.config.local_attention // 2
        scores = scores.masked_fill(far, -math.inf)
    return query, key, value, scores


def disentangled(
    query: Tensor, key: Tensor, position_query: Tensor, position_key: Tensor, bucket: Any, centre: int
) -> Tensor:
    """Content to content, content to position and position to content, entry by entry."""
    scores = query @ key.T
    for i in range(len(query)):
        for j in range(len(key)):
            to_key, to_query = centre + bucket(i - j), centre - bucket(j - i)
            scores[i, j] += query[i] @ position_key[to_key] + key[j] @ position_query[to_query]
    return scores / math.sqrt(3 * SIZE)


def version_1(layer: Any, model: Any, family: Any, states: Tensor, head: int) -> tuple[Tensor, ...]:
    attention, mine = layer.attention.self, slice(head * SIZE, (head + 1) * SIZE)
    weight = attention.in_proj.weight.view(HEADS, 3, SIZE, WIDTH)[head]
    query, key, value = (states @ side.T for side in weight)
    query, value = query + attention.q_bias[mine], value + attention.v_bias[mine]
    table = model.encoder.rel_embeddings.weight
    position_key = table @ attention.pos_proj.weight[mine].T
    position_query = table @ attention.pos_q_proj.weight[mine].T + attention.pos_q_proj.bias[mine]
    scores = disentangled(query, key, position_query, position_key, lambda distance: distance, len(table) // 2)
    return query, key, value, scores


def version_2(layer: Any, model: Any, family: Any, states: Tensor, head: int) -> tuple[Tensor, ...]:
    buckets, longest = model.config.position_buckets, model.config.max_position_embeddings
    half = buckets // 2

    def bucket(distance: int) -> int:
        far = abs(distance)
        if far > half:
            far = math.ceil(math.log(far / half) / math.log((longest - 1) / half) * (half - 1)) + half
        return far if distance > 0 else -far

    query, key, value = sides(layer, family, states, head)
    position_query, position_key, _ = sides(layer, family, model.encoder.get_rel_embedding(), head)
    return query, key, value, disentangled(query, key, position_query, position_key, bucket, buckets)


SCORES: dict[str, Any] = {
    "mpnet": with_position_bias,
    "modernbert": rotary,
    "deberta": version_1,
    "deberta-v2": version_2,
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("number", [2, 4])
@torch.no_grad()
def test_attention_over_a_prefix_equals_a_loop_by_hand(name, padded, number):
    tunable = shake(tuned(name, "prefix", length=LENGTH))
    encoder, tokens = tunable.encoder, random_tokens()
    layout = encoder.layout(tokens)
    entering = torch.randn(layout.tokens, WIDTH, generator=torch.Generator().manual_seed(2))
    gathered: list[Tensor] = []
    project = tunable.layer(number).get_submodule(encoder.family.projections["project"])
    project.register_forward_pre_hook(lambda _, inputs: gathered.append(inputs[0]))
    encoder.run(entering, layout, number, number, padded=padded)
    (found,) = gathered
    found = layout.unpad(found) if found.dim() == 3 else found
    by_text = [by_hand(tunable, number, text) for text in torch.split(entering, list(LENGTHS))]
    torch.testing.assert_close(found, torch.cat(by_text), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ("deberta", "deberta-v2", "modernbert")])
@torch.no_grad()
def test_first_tokens_alone_attend_to_the_prefix_too(name):
    tunable = shake(tuned(name, "prefix", length=LENGTH))
    encoder, tokens = tunable.encoder, random_tokens()
    layout = encoder.layout(tokens)
    start = encoder.embed(tokens, layout)
    alone = encoder.run(start, layout, 1, 4, reads=Reads.FIRST)
    torch.testing.assert_close(alone, layout.read(encoder.run(start, layout, 1, 4), Reads.FIRST), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_prefix_is_seen_from_beyond_the_local_window():
    tunable = tuned("modernbert", "prefix", (2,), length=1)
    encoder, tokens = tunable.encoder, random_tokens((30,))
    layout = encoder.layout(tokens)
    assert tunable.layer(2).attention_type == "sliding_attention"
    start = encoder.embed(tokens, layout)
    before = encoder.run(start, layout, 1, 2)
    tunable.layer(2).attn.prefix.values.add_(10.0)
    changed = (encoder.run(start, layout, 1, 2) - before).abs().amax(1)
    assert (changed > 1e-3).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_each_layer_has_its_keys_and_values(name):
    assert count(tuned(name, "prefix", length=LENGTH)) == 2 * 2 * LENGTH * WIDTH


def test_layers_that_share_parameters_share_their_prefix():
    assert count(tuned("albert", "prefix", (1, 2, 3, 4), length=LENGTH)) == 2 * LENGTH * WIDTH


@pytest.mark.parametrize("name", ["bert", "mpnet", "deberta", "deberta-v2", "modernbert"])
def test_attention_to_the_prefix_has_dropout_in_training(name):
    tunable = shake(tuned(name, "prefix", (2,), 2, length=LENGTH))
    attention = tunable.layer(2).get_submodule(tunable.encoder.family.attention_path)
    with torch.inference_mode():
        for module in tunable.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        tokens = random_tokens()
        layout = tunable.encoder.layout(tokens)
        start = tunable.start(tokens, layout)
        tunable.train()
        quiet = [tunable.logits(start, layout, padded=True) for _ in range(2)]
        assert torch.equal(quiet[0], quiet[1])
        if name == "modernbert":
            attention.attention_dropout = 0.5
        else:
            attention.dropout.p = 0.5
        noisy = [tunable.logits(start, layout, padded=True) for _ in range(2)]
    assert not torch.allclose(noisy[0], noisy[1], atol=1e-3)


@pytest.mark.parametrize("length", [0, -1])
def test_a_length_that_cannot_be_is_refused_in_one_line(length):
    with pytest.raises(OptionError, match=f"^method prefix: length {length}: must be 1 or more$"):
        METHODS["prefix"].check({"length": length})


def test_mixed_attention_heads_are_refused_in_one_line():
    encoder = tiny_encoder("deberta")
    for layer in encoder.family.layers(encoder.model):
        layer.attention.self.talking_head = True
    with pytest.raises(EncoderError, match=r"^a prefix cannot be attached to a DeBERTa .*$"):
        tuned("deberta", "prefix", encoder=encoder)
