"""The arithmetic and memory of training steps: predicted from configurations, counted by torch on real models."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
import torch
import transformers
from tests.tiny import ALL_CONFIGS, CONFIGS, DEPTH, VARIANTS, random_tokens, tiny_encoder
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from frostline.costs.flops import Counter, shape_of, weightless_encoder
from frostline.encoders.encoder import Encoder
from frostline.kernels.batch_layout import Layout
from frostline.kernels.dropout import Noise
from frostline.plans.methods import METHODS
from frostline.records import Plan
from frostline.training.dataset import frozen_at
from frostline.training.model import make_tunable

LENGTHS = np.array([30, 17, 16, 5, 4])  # longest first, as batches are run
OUTPUTS = 3
DEEP = 7


@cache
def counter(name):
    """One for all plans of a family: it counts each kind of plan once."""
    return Counter(weightless_encoder(ALL_CONFIGS[name]), outputs=OUTPUTS)


@cache
def deep_config(name):
    """The family's tiny configuration with more layers than are ever counted whole."""
    data = ALL_CONFIGS[name].to_dict()
    data["n_layers" if "n_layers" in data else "num_hidden_layers"] = DEEP
    if data.get("layer_types"):
        data["layer_types"] = (2 * data["layer_types"])[:DEEP]
    return type(ALL_CONFIGS[name]).from_dict(data)


@cache
def deep_counter(name):
    return Counter(weightless_encoder(deep_config(name)), outputs=OUTPUTS)


def counted(encoder, plan, lengths=LENGTHS):
    """Forward and backward operations of a real training step, by torch's own counter."""
    tunable = make_tunable(encoder, plan, outputs=OUTPUTS).train()
    at = frozen_at(tunable)
    layout = Layout(np.ones_like(lengths) if at is not None and at.reads.is_single else lengths)
    tokens = random_tokens(tuple(lengths))
    states = torch.randn(layout.tokens, encoder.width)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:  # other kernels count as nothing
        if plan.embeddings:
            states = embedded(tunable, tokens, layout)
        logits = tunable.logits(states, layout, noise=Noise(0, 0))
        forward = flops.get_total_flops()
        logits.sum().backward()
        return forward, flops.get_total_flops() - forward


def embedded(tunable, tokens, layout):
    """State 0 of real tokens, with a way back to the embeddings."""
    encoder = tunable.encoder
    ids, types = torch.as_tensor(tokens.ids), torch.as_tensor(tokens.types)
    positions = encoder.family.positions(encoder.config, ids, layout.starts, layout.lengths)
    return encoder.family.embed(encoder.model, ids, types, positions)


def assert_predicted(work, encoder, plan):
    shape = shape_of(LENGTHS, is_packed=encoder.family.can_pack)
    predicted = work.forward.of(shape), work.backward.of(shape)
    assert predicted == pytest.approx(counted(encoder, plan), rel=0.02)


# Variants differ from their families in what no method touches.
@pytest.mark.parametrize(("name", "method"), [*product(CONFIGS, METHODS.names()), *product(VARIANTS, ["full"])])
def test_the_arithmetic_of_a_step_is_what_torch_counts_for_every_family_and_method(name, method):
    plan = Plan(layers=(1, 2), head=2, method=method)
    assert_predicted(counter(name).of(plan), tiny_encoder(name), plan)


PLANS = {
    "upper layers": Plan.span(2, 4, 4),
    "scattered": Plan(layers=(1, 3), head=4),
    "full": Plan.full(DEPTH),
    "head only": Plan(layers=(), head=DEPTH),
    "lower half with embeddings": Plan.span(1, 2, 2, embeddings=True),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("name", ["bert", "electra", "albert", "deberta", "deberta-v2", "modernbert"])  # all structures
def test_the_arithmetic_of_a_step_is_what_torch_counts_for_every_kind_of_plan(name, plan):
    assert_predicted(counter(name).of(plan), tiny_encoder(name), plan)


DEEP_PLANS = {
    "scattered": Plan(layers=(1, 3, 4), head=6),
    "last layer": Plan.span(DEEP, DEEP, DEEP),
    "full": Plan.full(DEEP),
    "upper prefixes": Plan(layers=(4, 6, 7), head=DEEP, method="prefix"),
}


@pytest.mark.parametrize("plan", DEEP_PLANS.values(), ids=DEEP_PLANS)
@pytest.mark.parametrize("name", ["bert", "deberta-v2 convolution", "modernbert"])  # two whose first layer is special
def test_deep_encoders_are_put_together_from_a_few_layers(name, plan):
    encoder = Encoder(transformers.AutoModel.from_config(deep_config(name)))
    assert encoder.depth == DEEP
    assert_predicted(deep_counter(name).of(plan), encoder, plan)


def test_berts_arithmetic_follows_the_textbook():
    width, inner, lengths = 32, 48, np.array([11, 11, 11, 4, 4])  # two groups without any padding
    tokens, texts, attended = lengths.sum(), len(lengths), np.square(lengths).sum()
    square = 2 * width * width * tokens  # query, key, value and projection, each
    inward = 2 * width * inner * tokens  # into the feed-forward part, and out of it
    attention = 4 * width * attended  # scores and mixture
    layer = 4 * square + 2 * inward + attention
    head = 2 * width * OUTPUTS * texts

    work = Counter(weightless_encoder(CONFIGS["bert"]), outputs=OUTPUTS, head="mean").of(Plan.span(3, 4, 4))

    shape = shape_of(lengths, is_packed=True)
    assert work.frozen.of(shape) == pytest.approx(2 * layer)
    assert work.forward.of(shape) == pytest.approx(2 * layer + head)
    # Two gradients for every product; but nobody asks for that of the frozen states, which three projections read.
    assert work.backward.of(shape) == pytest.approx(2 * (2 * layer + head) - 3 * square)
    assert work.inference.of(shape) == pytest.approx(4 * layer + head)


def test_a_head_that_reads_one_token_spares_the_last_layer_most_of_its_work():
    shape = shape_of(LENGTHS, is_packed=True)
    one, all_tokens = (
        Counter(weightless_encoder(CONFIGS["bert"]), outputs=OUTPUTS, head=head)
        .of(Plan.span(4, 4, 4))
        .forward.of(shape)
        for head in ("family", "mean")
    )
    assert one < 0.5 * all_tokens


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_what_a_step_saves_for_its_backward_pass_is_what_autograd_keeps(name):
    plan, encoder = Plan.span(2, 4, 4), tiny_encoder(name)
    tunable = make_tunable(encoder, plan, outputs=OUTPUTS).train()
    layout = Layout(LENGTHS)
    weights = {value.data_ptr() for value in tunable.parameters()}
    kept = {}

    def keep(value):
        if value.data_ptr() not in weights:
            kept[value.untyped_storage().data_ptr()] = value  # held, so that no other can take its place
        return value

    with sdpa_kernel(SDPBackend.MATH), torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        tunable.logits(torch.randn(layout.tokens, encoder.width), layout, noise=Noise(0, 0))

    real = sum(value.untyped_storage().nbytes() for value in kept.values())
    predicted = counter(name).of(plan).saved.of(shape_of(LENGTHS, is_packed=encoder.family.can_pack))
    assert predicted == pytest.approx(real, rel=0.1)


@pytest.mark.parametrize("name", ["bert", "albert two groups", "modernbert", "deberta-v2"])
def test_one_layers_share_of_what_is_saved_is_what_one_layer_more_saves(name):
    shape = shape_of(np.full(6, 20), is_packed=tiny_encoder(name).family.can_pack)
    four, three = (counter(name).of(Plan.span(bottom, 4, 4)) for bottom in (1, 2))
    assert four.one_layer == three.one_layer
    assert four.one_layer.of(shape) == pytest.approx(four.saved.of(shape) - three.saved.of(shape), rel=0.05)


@pytest.mark.parametrize("name", CONFIGS)
def test_larger_batches_save_more(name):
    is_packed = tiny_encoder(name).family.can_pack
    saved = counter(name).of(Plan.span(2, 4, 4)).saved
    sizes = [saved.of(shape_of(np.full(texts, 10), is_packed=is_packed)) for texts in (1, 2, 4, 8)]
    assert sizes[0] > 0
    assert all(2 * small >= large > 1.5 * small for small, large in pairwise(sizes))


def test_deeper_plans_save_more_and_freeze_less():
    shape = shape_of(LENGTHS, is_packed=True)
    works = [counter("bert").of(Plan.span(bottom, 4, 4)) for bottom in (4, 3, 2, 1)]
    saved, frozen = ([getattr(work, of).of(shape) for work in works] for of in ("saved", "frozen"))
    assert saved == sorted(saved) and len(set(saved)) == 4
    assert frozen == sorted(frozen, reverse=True) and len(set(frozen)) == 4


@pytest.mark.parametrize("name", CONFIGS)
def test_full_fine_tuning_freezes_nothing(name):
    shape = shape_of(LENGTHS, is_packed=tiny_encoder(name).family.can_pack)
    assert counter(name).of(Plan.full(DEPTH)).frozen.of(shape) == 0
    assert counter(name).of(Plan.span(2, 4, 4)).frozen.of(shape) > 0


def test_predicting_with_k_of_l_layers_takes_about_k_ths_of_the_arithmetic():
    config = transformers.BertConfig(
        vocab_size=100, num_hidden_layers=12, hidden_size=768, num_attention_heads=12, intermediate_size=3072
    )
    works = Counter(weightless_encoder(config), outputs=OUTPUTS)
    shape = shape_of(np.array([64]), is_packed=True)
    whole = works.of(Plan.full(12)).inference.of(shape)
    for head in (1, 3, 6, 9):
        assert works.of(Plan(layers=(), head=head)).inference.of(shape) / whole == pytest.approx(head / 12, rel=0.02)


def test_the_shapes_of_batches_add_up_to_that_of_an_epoch():
    lengths = np.array([4, 9, 9, 2, 7])
    epoch = shape_of(lengths[:2], is_packed=False) + shape_of(lengths[2:], is_packed=False)
    assert (epoch.batches, epoch.texts, epoch.longest) == (2, 5, 18)
    assert epoch.tokens == 2 * 9 + 3 * 9  # padding included
    assert epoch.squares == 2 * 81 + 3 * 81
    assert shape_of(lengths, is_packed=True).tokens == lengths.sum()
