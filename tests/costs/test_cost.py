"""What plans cost, from configurations alone: the same numbers as those of models that are really built."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import transformers
from tests.tiny import ALL_CONFIGS, CONFIGS, DEPTH, tiny_encoder
from tests.training.tuning_tools import many_tokens

from frostline.costs.cost import Costs
from frostline.costs.workload import Workload
from frostline.kernels.batch_layout import Reads
from frostline.plans.methods import METHODS
from frostline.records import Plan, Recipe
from frostline.records.cost import Cost
from frostline.states.cache import open_together
from frostline.states.frozen import StatesAt
from frostline.training.dataset import frozen_at
from frostline.training.freeze_audit import count_kept
from frostline.training.model import make_tunable
from frostline.training.stock_model import is_stock

TRAIN, OTHERS = many_tokens(40), many_tokens(15, seed=1)
LOAD = Workload(train=TRAIN.lengths, others=OTHERS.lengths, outputs=3)
RECIPE = Recipe(batch=8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path))


@cache
def costs(name="bert", recipe=RECIPE):
    return Costs(ALL_CONFIGS[name], LOAD, recipe)


@cache
def costs_of_some_work(name, recipe):
    """With the arithmetic of one plan for all: counting it takes long and has tests of its own."""
    made = Costs(ALL_CONFIGS[name], LOAD, recipe)
    work = made.counter.of(Plan(layers=(), head=1))
    made.counter.of = lambda plan: work
    return made


def assert_counts_are_real(name, plan, recipe=RECIPE):
    cost = costs_of_some_work(name, recipe).of(plan)
    real = make_tunable(tiny_encoder(name), plan, outputs=3, head=recipe.head)
    assert cost.trainable == sum(value.numel() for value in real.parameters() if value.requires_grad)
    assert cost.total == count_kept(real)
    assert cost.stock == is_stock(real)
    fold = METHODS[plan.method].fold
    if fold is not None:
        fold(real)
    assert cost.stored == (count_kept(real) if cost.stock else cost.trainable)


@pytest.mark.parametrize("method", METHODS.names())
@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_parameters_are_those_of_the_model_that_is_built(name, method):
    assert_counts_are_real(name, Plan(layers=(1,), head=2, method=method))


@pytest.mark.parametrize("plan", [Plan.full(DEPTH), Plan(layers=(), head=1)], ids=["full", "head only"])
@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_the_model_that_is_built_for_every_kind_of_plan(name, plan):
    assert_counts_are_real(name, plan)


@pytest.mark.parametrize("name", ["bert", "modernbert mean pooling"])  # the second has a mean-pooled head of its own
def test_a_mean_pooled_head_is_counted_too(name):
    assert_counts_are_real(name, Plan(layers=(2,), head=2), Recipe(batch=8, head="mean"))


def test_all_of_a_stock_model_is_stored_but_only_what_trained_of_another():
    stock, other = (costs().of(Plan(layers=(1, 2), head=2, method=method)) for method in ("lora", "pfeiffer"))
    assert stock.stock and stock.total > stock.stored > stock.trainable  # LoRA's matrices are folded away
    assert not other.stock and other.stored == other.trainable < other.total


def test_paper_1s_plan_for_roberta_large_costs_what_the_paper_says():
    config = transformers.RobertaConfig(
        vocab_size=50265,
        max_position_embeddings=514,
        type_vocab_size=1,
        num_hidden_layers=24,
        hidden_size=1024,
        num_attention_heads=16,
        intermediate_size=4096,
    )
    large = Costs(config, LOAD, RECIPE)
    cost = large.of(Plan.span(1, 14, 14))
    assert cost.trainable == 177_399_811
    assert cost.total == 229_400_579
    assert cost.latency == pytest.approx(14 / 24, rel=0.01)
    assert all(value.is_meta for value in large.encoder.model.parameters())


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("plan", [Plan.span(3, 4, 4), Plan.span(1, 2, 3), Plan(layers=(), head=3)], ids=str)
@pytest.mark.parametrize("name", ["bert", "modernbert mean pooling"])  # whose head reads the first token, and all
def test_the_cache_takes_as_many_bytes_as_its_entries_have(name, plan, dtype):
    cost = costs(name, Recipe(batch=8, cache_dtype=dtype)).of(plan)
    encoder = tiny_encoder(name)
    layers = [frozen_at(make_tunable(encoder, plan, outputs=3))]
    opened = [states for tokens in (TRAIN, OTHERS) for states in open_together(encoder, tokens, layers, dtype=dtype)[0]]
    assert all(states.is_kept for states in opened)
    assert cost.cache == sum(states.size for states in opened)


def test_a_head_that_reads_first_tokens_keeps_no_others():
    first, everything = (costs(name).of(Plan(layers=(), head=3)).cache for name in ("bert", "modernbert mean pooling"))
    assert first == 2 * 32 * (len(TRAIN) + len(OTHERS))
    assert everything == 2 * 32 * (TRAIN.lengths.sum() + OTHERS.lengths.sum())


def test_full_fine_tuning_freezes_and_keeps_nothing():
    cost = costs().of(Plan.full(DEPTH))
    assert cost.cache == cost.frozen_flops == 0
    assert cost.epoch_flops == cost.epoch_flops_uncached


def test_a_cache_saves_the_frozen_layers_work_in_every_epoch():
    cost = costs().of(Plan.span(4, 4, 4))
    assert cost.epoch_flops_uncached - cost.epoch_flops == pytest.approx(cost.frozen_flops) and cost.frozen_flops > 0
    assert cost.price == pytest.approx(cost.frozen_flops + 3 * cost.epoch_flops)
    longer = costs().of(Plan.span(3, 4, 4), epochs=20)
    assert longer.price == pytest.approx(longer.frozen_flops + 20 * longer.epoch_flops)


@pytest.mark.parametrize("plan", [Plan.span(3, 4, 4), Plan(layers=(), head=4)], ids=str)
def test_dropout_in_frozen_layers_costs_an_epoch_without_the_cache(plan):
    cached, every_step = (costs(recipe=replace(RECIPE, lower_dropout=lower)).of(plan) for lower in (False, True))
    assert every_step.frozen_flops == 0 < cached.frozen_flops
    assert every_step.epoch_flops == every_step.epoch_flops_uncached
    # Steps have other batches than the pass that fills the cache, and so other padding within attention.
    assert every_step.epoch_flops == pytest.approx(cached.epoch_flops_uncached, rel=0.05)
    assert every_step.cache < cached.cache  # validation rows alone


@pytest.mark.parametrize("name", CONFIGS)
def test_latency_is_a_share_of_the_whole_encoders(name):
    whole, half = (costs(name).of(plan).latency for plan in (Plan.full(DEPTH), Plan.span(2, 2, 2)))
    assert whole == costs(name).of(Plan(layers=(), head=DEPTH)).latency == 1
    assert 0.4 < half < 0.7  # embeddings and head are a part of these tiny models' time


@pytest.mark.parametrize(("texts_per_row", "steps"), [(1.0, 5), (2.0, 3)])
def test_an_epoch_has_as_many_steps_as_training_makes(texts_per_row, steps):
    load = Workload(train=TRAIN.lengths, others=OTHERS.lengths, outputs=1, texts_per_row=texts_per_row)
    assert Costs(CONFIGS["bert"], load, RECIPE).of(Plan(layers=(), head=1)).steps == steps  # of 40 texts, 8 rows a step


def test_a_large_epoch_is_like_its_first_batches():
    lengths = np.random.default_rng(0).integers(2, 40, 4000)
    load = Workload(train=lengths, others=OTHERS.lengths, outputs=3)
    few, many = (Costs(CONFIGS["bert"], load, Recipe(batch=batch)) for batch in (20, 2))  # 200 and 2,000 batches
    assert few.epoch.tokens == lengths.sum()
    assert many.epoch.batches == 2000
    assert many.epoch.tokens == pytest.approx(lengths.sum(), rel=0.05)


def test_what_trains_is_held_five_times_more():
    """Gradient, two moments, start and best."""
    all_weights, some = (costs().of(Plan(layers=(3, 4), head=4, method=method)) for method in ("full", "norm-and-bias"))
    assert all_weights.total == some.total
    least = 5 * 4 * (all_weights.trainable - some.trainable)
    assert least <= all_weights.memory - some.memory < least + 100_000  # weights' gradients need a little more saved


def test_the_encoder_is_held_twice_and_what_lies_above_the_head_once():
    whole, cut = (costs().of(Plan(layers=(), head=head)) for head in (4, 2))
    assert whole.memory - cut.memory == 4 * (whole.total - cut.total)
    assert whole.memory > 2 * 4 * whole.total


def test_memory_grows_with_the_batch_and_the_longest_texts_but_not_with_their_number():
    plan = Plan.span(1, 4, 4)

    def memory(lengths, batch):
        load = Workload(train=lengths, others=OTHERS.lengths, outputs=3)
        cost = Costs(CONFIGS["modernbert"], load, Recipe(batch=batch)).of(plan)
        return cost.memory - cost.cache

    usual = memory(np.full(400, 60), 32)
    assert memory(np.full(400, 60), 256) > 1.5 * usual
    assert memory(np.full(400, 64), 32) > usual
    assert memory(np.full(4000, 60), 32) < 1.1 * usual


def test_the_cache_counts_as_memory_when_it_is_read():
    small, large = (
        costs("bert", Recipe(batch=8, cache_dtype=dtype)).of(Plan.span(3, 4, 4)) for dtype in ("float16", "float32")
    )
    assert large.cache == 2 * small.cache > 0
    assert large.memory - small.memory == large.cache - small.cache


def test_what_a_method_adds_takes_time_when_predicting_unless_it_is_folded_away():
    latency = {name: costs().of(replace(Plan.span(1, 4, 4), method=name)).latency for name in METHODS.names()}
    assert latency["lora"] == latency["full"] == latency["norm-and-bias"] == 1
    assert latency["houlsby"] > latency["pfeiffer"] > 1
    assert latency["prefix"] > 1
    few = costs().of(replace(Plan.span(4, 4, 4), method="houlsby")).latency
    assert few - 1 == pytest.approx((latency["houlsby"] - 1) / 4)


def test_a_model_that_is_no_stock_one_needs_the_encoder_too():
    adapted, whole = costs().of(replace(Plan.span(1, 4, 4), method="houlsby")), costs().of(Plan.full(4))
    assert adapted.stored == adapted.trainable
    assert whole.total < adapted.size == adapted.total
    assert whole.size == whole.stored


def test_costs_come_back_from_json():
    cost = costs().of(Plan.span(3, 4, 4))
    assert Cost(**json.loads(json.dumps(cost.to_json()))) == cost
    assert cost.seconds is cost.low is cost.high is None


def test_places_of_frozen_states_come_once():
    plans = [
        Plan.span(3, 4, 4),
        Plan(layers=(3,), head=3),
        Plan.full(DEPTH),
        Plan(layers=(), head=2),
        Plan.span(3, 3, 4),
    ]
    assert costs().frozen_at(plans) == [StatesAt(layer=2, reads=Reads.ALL), StatesAt(layer=2, reads=Reads.FIRST)]
