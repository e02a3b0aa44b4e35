"""Dropout in the frozen layers below the lowest tuned one, as in `model.train()`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import CONFIGS, DEPTH, save_tiny
from tests.training.test_execution import RECIPE, write_rows
from tests.training.test_loop import EXACT, LABELS, TOKENS, losses
from tests.training.tuning_tools import examples_for, tiny_tunable

from frostline.api._tune import tune
from frostline.encoders.loading import load_encoder
from frostline.kernels.dropout import Noise
from frostline.records import Plan, Recipe
from frostline.tasks import load_task
from frostline.training.execution import tunable_for
from frostline.training.shared_inputs import SharedInputs

PLANS = [Plan.span(3, 4, 4), Plan(layers=(), head=2)]
EVERYWHERE = Recipe(**{**EXACT.to_json(), "dropout": 0.3, "lower_dropout": True})


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


def uncached(tunable):
    return replace(examples_for(tunable, TOKENS, LABELS), states=None)


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_without_dropout_it_trains_as_from_the_cache(name, plan):
    cached = tiny_tunable(name, plan, dropout=0.0)
    through = tiny_tunable(name, plan, dropout=0.0, lower_dropout=True)
    from_cache = losses(cached, examples_for(cached, TOKENS, LABELS, keep=True))
    assert from_cache[0] != from_cache[-1]
    assert losses(through, uncached(through)) == pytest.approx(from_cache, abs=1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_output_of_the_frozen_layers_differs_between_steps_in_training_alone(name):
    tunable = tiny_tunable(name, dropout=0.3, lower_dropout=True)
    rows, few = uncached(tunable), np.arange(6)

    def start(step):
        torch.manual_seed(step)
        states, _ = rows._start(tunable, few, noise=Noise(0, step), padded=False)
        return states.detach()

    tunable.train()
    assert not torch.equal(start(0), start(1))
    assert torch.equal(start(1), start(1))
    tunable.eval()
    assert torch.equal(start(0), start(1))


def test_all_layers_and_the_embeddings_are_in_training_mode():
    tunable = tiny_tunable("bert", Plan.span(3, 3, 3), lower_dropout=True).train()
    assert [tunable.layer(number).training for number in (1, 2, 3)] == [True] * 3
    assert tunable.model.embeddings.training
    others = tiny_tunable("bert", Plan.span(3, 3, 3)).train()
    assert [others.layer(number).training for number in (1, 2, 3)] == [False, False, True]
    assert not others.model.embeddings.training


@pytest.fixture
def shared(tmp_path):
    task = load_task(write_rows(tmp_path / "rows.jsonl"))
    return SharedInputs(load_encoder(save_tiny(tmp_path / "encoder")), task)


def test_only_rows_that_are_trained_on_run_through_the_frozen_layers(shared):
    tunable = tunable_for(shared, Plan.span(3, 4, 4), EVERYWHERE)
    assert shared.examples(tunable, "train").states is None
    assert shared.examples(tunable, "validation").states is not None
    usual = tunable_for(shared, Plan.span(3, 4, 4), RECIPE)
    assert shared.examples(usual, "train").states is not None


@pytest.mark.parametrize("plan", [f"3,{DEPTH},{DEPTH}", "layers=none,head=3"])
def test_the_frozen_layers_stay_as_they_were_and_results_differ_from_those_without(shared, plan):
    usual = replace(RECIPE, dropout=0.3)
    tuned = tune(shared.encoder, shared.task, plan=plan, recipe=replace(usual, lower_dropout=True))
    other = tune(shared.encoder, shared.task, plan=plan, recipe=usual)
    audit = tuned.trained.audit
    assert audit.frozen == other.trained.audit.frozen > 0
    assert (audit.moved, audit.depth) == (audit.tensors, other.trained.audit.depth)
    assert tuned.trained.history[0]["loss"] != other.trained.history[0]["loss"]
    again = tune(shared.encoder, shared.task, plan=plan, recipe=replace(usual, lower_dropout=True))
    assert again.trained.history[-1]["loss"] == tuned.trained.history[-1]["loss"]
