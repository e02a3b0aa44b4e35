"""Averaged schedules: the average is the weighted mean it claims to be, and an interrupted run continues with it."""

from __future__ import annotations

import pytest
import torch
from tests.training.tuning_tools import examples_for, many_labels, many_tokens, tiny_tunable, train_tiny

from frostline.records import Plan, Recipe
from frostline.records.recipe import WARM_STEPS, rate_at
from frostline.training.averaging import POWER, Average
from frostline.training.checkpoints import Checkpoints
from frostline.training.loop import TrainingRun, train, weights_of

TOKENS, LABELS = many_tokens(), many_labels()
RECIPE = Recipe(schedule="averaged", steps=80, batch=8, learning_rate=1e-3, cache_dtype="float32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


def trained(recipe=RECIPE, **more):
    return train_tiny(recipe, **more)


def test_the_average_is_the_mean_of_all_steps_with_weights_that_grow_with_a_power_of_the_step():
    values = torch.randn(30, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    own = {"weight": torch.zeros(4, dtype=torch.float64)}
    average = Average(own)
    for step, value in enumerate(values):
        own["weight"].copy_(value)
        average.add(step, [own])
    # The weight of step t is proportional to t (t + 1) ... (t + POWER - 1), counted from 1.
    weights = torch.tensor([float(torch.arange(t, t + POWER).prod()) for t in range(1, 31)], dtype=torch.float64)
    assert torch.allclose(average.weights["weight"], (weights @ values) / weights.sum(), atol=1e-12)


def test_the_average_is_in_the_model_only_within_the_block():
    own = {"weight": torch.ones(3)}
    average = Average(own)
    own["weight"].fill_(5.0)
    with average.in_model():
        assert own["weight"].tolist() == [1.0] * 3
    assert own["weight"].tolist() == [5.0] * 3
    assert average.weights["weight"].tolist() == [1.0] * 3


def test_the_rate_rises_over_a_fixed_number_of_steps_whatever_the_length():
    for steps in (50, 5000):
        rates = [rate_at(step, steps, RECIPE) for step in range(50)]
        assert rates[0] == 1 / WARM_STEPS
        assert rates[WARM_STEPS - 1 :] == [1.0] * (51 - WARM_STEPS)


def test_a_model_without_validation_rows_ends_with_the_average_of_its_steps():
    steps = []
    tunable, _ = trained(Recipe(**{**RECIPE.to_json(), "steps": 30}), validation=False)
    plain = Recipe(**{**RECIPE.to_json(), "steps": 30, "schedule": "constant", "warmup": 0.0})
    # The same steps one by one: a constant schedule whose rate is set to that of the averaged one.
    own = tiny_tunable("bert", Plan.span(3, 4, 4))
    run = TrainingRun(own, examples_for(own, TOKENS, LABELS), None, plain, ("accuracy",), 1e-3)
    for step in range(30):
        for group in run.members[0].optimizer.param_groups:
            group["highest"] = 1e-3 * rate_at(step, 30, RECIPE)
        run._step(step)
        steps.append(weights_of(own))
    weights = torch.tensor([float(torch.arange(t, t + POWER).prod()) for t in range(1, 31)])
    for name, value in weights_of(tunable).items():
        mean = sum(weight * step[name] for weight, step in zip(weights, steps, strict=True)) / weights.sum()
        assert torch.allclose(value, mean, atol=1e-6), name


def test_an_interrupted_run_continues_with_its_average(tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def kept(*, resume):
        return Checkpoints(tmp_path / "kept", run="one", resume=resume, at_evaluations=True)

    step = TrainingRun._step

    def stop_at_60(run, number):
        if number == 60:
            raise Stop
        step(run, number)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "_step", stop_at_60)
        with pytest.raises(Stop):
            trained(checkpoints=kept(resume=False))
    continued, result = trained(checkpoints=kept(resume=True))  # from step 40
    alone, expected = trained()
    for name, value in weights_of(alone).items():
        assert torch.equal(value, weights_of(continued)[name]), name
    assert [record["step"] for record in result.history] == [40, 80]
    assert [record["validation_loss"] for record in result.history] == [
        record["validation_loss"] for record in expected.history
    ]


def test_patience_does_not_end_an_averaged_schedule_before_160_steps():
    tunable = tiny_tunable("bert", Plan.span(3, 4, 4))
    rows, opposite = examples_for(tunable, TOKENS, LABELS), examples_for(tunable, TOKENS, 2 - LABELS)
    recipe = Recipe(**{**RECIPE.to_json(), "steps": 320, "patience": 1})
    run = train(tunable, rows, opposite, recipe, metrics=("accuracy",), learning_rate=1e-3)
    losses = [record["validation_loss"] for record in run.history]
    assert losses == sorted(losses)  # what is learned makes it worse from the first evaluation on
    assert [record["step"] for record in run.history] == [40, 80, 160]
