"""Measuring for plans: with the inputs of the trials, the rows are tokenized and run once."""

from __future__ import annotations

import pytest
from tests.search.race_tools import DEPTH, save_shallow, write_rows

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.kernels.batch_layout import Reads
from frostline.records import Plan, Recipe
from frostline.records.budget import Budget
from frostline.search import planning
from frostline.search.planning import Inputs, measure_for_plans, states_of_any_plan
from frostline.states.frozen import StatesAt
from frostline.tasks import load_task


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))
    encoder = load_encoder(save_shallow(tmp_path / "shallow"))
    task = load_task(write_rows(tmp_path / "letters.csv"))
    return Inputs(encoder=encoder, task=task, recipe=Recipe(threads=1, epochs=1), budget=Budget())


def test_shared_inputs_do_not_change_the_scores(inputs):
    expected = measure_for_plans(inputs).scores
    shared = inputs.shared()
    keep = states_of_any_plan(inputs.costs(shared), DEPTH)
    found = measure_for_plans(inputs, shared=shared, keep=keep).scores
    assert found.scores.keys() == expected.scores.keys()
    for name, score in expected.scores.items():
        assert (found[name].values, found[name].low) == (score.values, score.low)
    assert found.notes == expected.notes


def test_no_plan_needs_another_pass_over_the_training_rows(inputs, monkeypatch):
    shared = inputs.shared()
    costs = inputs.costs(shared)
    measure_for_plans(inputs, shared=shared, keep=states_of_any_plan(costs, DEPTH))

    def refuse(*given, **options):
        raise AssertionError("the encoder ran")

    monkeypatch.setattr(Encoder, "embed", refuse)
    monkeypatch.setattr(Encoder, "tokenize", refuse)
    plans = [Plan.span(1, 1, 2), Plan.span(2, 2, 2), Plan.span(1, 2, 2), *(Plan(layers=(), head=n) for n in (1, 2))]
    shared.freeze(costs.frozen_at(plans), ["train"])


def test_states_are_frozen_ahead_below_every_layer_and_for_every_head(inputs):
    assert states_of_any_plan(inputs.costs(inputs.shared()), DEPTH) == [
        StatesAt(layer=0),
        StatesAt(layer=1),
        StatesAt(layer=1, reads=Reads.FIRST),
        StatesAt(layer=2, reads=Reads.FIRST),
    ]


def test_states_that_would_fill_the_disk_are_not_frozen_ahead(inputs, monkeypatch):
    monkeypatch.setattr(planning, "_MOST_AHEAD", 1000)
    assert states_of_any_plan(inputs.costs(inputs.shared()), DEPTH) == []
