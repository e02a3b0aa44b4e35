"""The speed of this machine: timed steps taken apart, and put together again to seconds for a plan."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from math import isfinite

import numpy as np
import pytest
from tests.tiny import CONFIGS, tiny_encoder
from tests.training.tuning_tools import many_tokens

from frostline.costs import timing as calibration
from frostline.costs.cost import Costs
from frostline.costs.timing import Speed, _fit, calibrate
from frostline.costs.workload import Workload
from frostline.records import Plan, Recipe
from frostline.training.freeze_audit import digests

RECIPE = Recipe(batch=8, epochs=2)
LOAD = Workload(train=many_tokens(40).lengths, others=many_tokens(20, seed=1).lengths, outputs=3)
MORE_ROWS = Workload(train=np.tile(LOAD.train, 3), others=LOAD.others, outputs=3)
NOTHING = Speed(step=0.0, layer=0.0, flop=0.0, update=0.0, forward_flop=0.0, factor=1.5)
PLANS = [Plan(layers=(), head=4), Plan.span(4, 4, 4), Plan.span(2, 3, 4), Plan.full(4)]


@cache
def costs(rows, epochs):
    """Counted once: a speed is set for each question."""
    return Costs(CONFIGS["bert"], {"usual": LOAD, "more": MORE_ROWS}[rows], replace(RECIPE, epochs=epochs))


def cost_of(plan, *, rows="usual", epochs=RECIPE.epochs, **parts):
    made = costs(rows, epochs)
    made.speed = replace(NOTHING, **parts)
    return made.of(plan)


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("bert", LOAD),
        ("modernbert", LOAD),
        ("roberta", Workload(train=LOAD.train, others=LOAD.others, outputs=1, kind="regression")),
        (
            "distilbert",
            Workload(train=LOAD.train, others=LOAD.others, outputs=1, kind="multiple choice", texts_per_row=2.0),
        ),
    ],
    ids=["classes", "padded batches", "numbers", "choices"],
)
def test_a_machine_is_timed_in_parts_that_make_sense(name, load):
    encoder = tiny_encoder(name)
    before = digests(encoder.model.named_parameters())

    speed = calibrate(encoder, Costs(encoder.config, load, RECIPE))

    parts = asdict(speed)
    assert all(isfinite(value) and value >= 0 for value in parts.values())
    assert speed.factor >= 1.5
    assert speed.forward_flop > 0
    assert speed.step + speed.layer + speed.flop + speed.update > 0
    assert digests(encoder.model.named_parameters()) == before


def test_plans_over_the_memory_limit_are_not_timed(monkeypatch):
    timed = []
    monkeypatch.setattr(calibration, "_time", lambda tunable, batches, recipe: timed.append(tunable.plan) or 0.01)
    encoder = tiny_encoder("bert")
    costs = Costs(encoder.config, LOAD, RECIPE)
    most = costs.of(Plan.span(2, 4, 4)).memory / 1e9
    speed = calibrate(encoder, costs, max_memory=most)
    assert Plan.full(4) not in timed and Plan.span(2, 4, 4) in timed
    assert speed.factor >= 3  # so few that everything fits them
    timed.clear()
    calibrate(encoder, costs)
    assert Plan.full(4) in timed


def test_the_parts_of_exact_timings_are_found_again():
    known = np.array([2e-3, 5e-4, 3e-11, 4e-10])
    rows = np.array(  # steps, layers, operations and updates of very different plans
        [[1, 1, 3e6, 2e5], [1, 1, 6e8, 2e6], [1, 4, 3e9, 8e6], [1, 6, 5e9, 1.1e7], [1, 6, 5e9, 2.3e7]]
    )
    found, error = _fit(rows, rows @ known)
    assert found == pytest.approx(known, rel=1e-6)
    assert error == pytest.approx(0, abs=1e-9)


def test_no_part_takes_less_than_no_time():
    rows = np.array([[1.0, 1, 1e6, 1e5], [1, 1, 1e8, 2e6], [1, 4, 3e9, 8e6], [1, 6, 5e9, 1.1e7], [1, 6, 5e9, 2.3e7]])
    seconds = np.array([0.02, 0.01, 0.05, 0.09, 0.06])  # more updates in less time
    found, error = _fit(rows, seconds)
    assert min(found) >= 0
    assert error == pytest.approx(np.abs(rows @ found / seconds - 1).max())
    assert error > 0.1


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_each_part_is_paid_for_as_often_as_it_happens(plan):
    cost = cost_of(plan)
    steps = RECIPE.epochs * cost.steps
    layers = {"head only at 4": 0, "(4, 4, 4)": 1, "(2, 3, 4)": 3, "(1, 4, 4)": 4}[str(plan)]
    assert cost.steps == 5
    assert cost_of(plan, step=2.0).seconds == pytest.approx(2.0 * steps)
    assert cost_of(plan, layer=2.0).seconds == pytest.approx(2.0 * steps * layers)
    assert cost_of(plan, update=2.0).seconds == pytest.approx(2.0 * steps * cost.trainable)
    assert cost_of(plan, flop=2.0).seconds == pytest.approx(2.0 * RECIPE.epochs * cost.epoch_flops)


def test_frozen_states_are_paid_for_once_and_judging_once_an_epoch():
    plan = Plan.span(4, 4, 4)
    cost = cost_of(plan)
    one, two, three = (cost_of(plan, epochs=epochs, forward_flop=1.0).seconds for epochs in (1, 2, 3))
    assert three - two == pytest.approx(two - one) and two > one
    frozen = one - (two - one)
    assert frozen == pytest.approx(cost.frozen_flops * (1 + len(LOAD.others) / len(LOAD.train)))


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_seconds_grow_with_epochs_and_rows(plan):
    speed = {"step": 1e-3, "layer": 1e-3, "flop": 1e-10, "update": 1e-9, "forward_flop": 5e-11}
    usual = cost_of(plan, **speed)
    assert cost_of(plan, epochs=4, **speed).seconds > 1.2 * usual.seconds
    assert cost_of(plan, rows="more", **speed).seconds > 1.5 * usual.seconds
    assert usual.low == pytest.approx(usual.seconds / 1.5)
    assert usual.high == pytest.approx(usual.seconds * 1.5)
