"""Trials by cross-validation: every labelled row is predicted by a model that was trained on the other folds alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.search.race_tools import save_shallow, write_rows

from frostline.encoders.loading import load_encoder
from frostline.records import Plan, Recipe
from frostline.tasks import load_task
from frostline.tasks.splits import folds
from frostline.training.execution import Settings, execute
from frostline.training.loop import weights_of
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, Materials
from frostline.trials.folds import FOLDS, by_folds, of_whole
from frostline.trials.results import decode_outputs, make_spec
from frostline.trials.run_trial import run_trial, tune_for

COUNT = 3
RECIPE = Recipe(schedule="averaged", steps=8, batch=16, learning_rate=3e-3, threads=1, seed=5)
SOLVED = replace(RECIPE, schedule="solved", steps=None, epochs=1)
TOP, WHOLE, HEAD = Plan.span(2, 2, 2), Plan.full(2), Plan(layers=(), head=1)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(save_shallow(tmp_path_factory.mktemp("folds") / "encoder"))


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def task_of(kind, folder):
    columns = {"choices": ["one", "two"]} if kind == "multiple choice" else {}
    return load_task(write_rows(folder / "rows.csv", 60, kind=kind), **columns)


def trial(encoder, task, plan, recipe):
    """The context and the trial of a plan by cross-validation."""
    context = Context(materials=Materials(encoders={}, tasks={task.fingerprint: task}, kinds=(FOLDS,)))
    shared = SharedInputs.for_recipe(encoder, task, recipe)
    context.shared = lambda spec: shared
    return context, by_folds(make_spec(shared, plan, recipe), COUNT)


@pytest.mark.parametrize(
    ("kind", "plan", "recipe"),
    [
        ("classification", TOP, RECIPE),
        ("classification", WHOLE, RECIPE),
        ("classification", HEAD, SOLVED),
        ("regression", TOP, RECIPE),
        ("regression", HEAD, SOLVED),
        ("multiple choice", TOP, RECIPE),
    ],
)
def test_predictions_are_those_of_models_trained_without_the_row(kind, plan, recipe, encoder, tmp_path):
    task = task_of(kind, tmp_path)
    context, spec = trial(encoder, task, plan, recipe)
    result = run_trial(context, spec)
    assert result.status == "done", result.reason
    labelled = task.train.followed_by(task.validation)
    direct: list[float | None] = [None] * len(labelled)
    for held in folds(labelled, COUNT, seed=RECIPE.seed, purpose="search folds"):
        rest = [row for row in range(len(labelled)) if row not in held]
        without = replace(task, train=labelled.take(rest), validation=labelled.take(held), test=None)
        tuned = execute(
            SharedInputs.for_recipe(encoder, without, recipe), plan, replace(recipe, select="last"), settings=Settings()
        )
        for row, guess in zip(held, decode_outputs(tuned.outputs["validation"], task.kind), strict=True):
            direct[row] = guess
    assert result.predictions["validation"] == pytest.approx(direct, abs=1e-3 if kind == "regression" else 0)
    assert result.metrics["validation"].keys() == set(task.metrics)


def test_a_row_has_no_part_in_its_own_prediction(encoder, tmp_path):
    """With labels that have nothing to do with the texts, models that had seen a row would know its label."""
    task = task_of("classification", tmp_path)
    draw = np.random.default_rng(0)
    labels = {name: tuple(draw.permutation(split.labels).tolist()) for name, split in task.splits.items()}
    task = replace(task, **{name: replace(split, labels=labels[name]) for name, split in task.splits.items()})
    context, spec = trial(encoder, task, WHOLE, replace(RECIPE, steps=80, learning_rate=1e-2))
    result = run_trial(context, spec)
    assert result.history[-1]["loss"] < 0.3  # it has learnt the rows that it has seen
    assert result.metrics["validation"]["accuracy"] < 0.75


def test_the_model_that_is_saved_is_trained_on_all_labelled_rows_for_as_many_steps(encoder, tmp_path):
    task = task_of("classification", tmp_path)
    context, spec = trial(encoder, task, TOP, RECIPE)
    tuned = tune_for(context, of_whole(spec))
    everything = replace(task, train=task.train.followed_by(task.validation), validation=None, test=None)
    direct = execute(SharedInputs.for_recipe(encoder, everything, RECIPE), TOP, RECIPE, settings=Settings())
    assert tuned.trained.history[-1]["step"] == RECIPE.steps
    expected = weights_of(direct.tunable)
    for name, value in weights_of(tuned.tunable).items():
        assert torch.allclose(value, expected[name], atol=1e-4), name


def test_trials_differ_by_the_number_of_folds_and_from_plain_tuning(encoder, tmp_path):
    task = task_of("classification", tmp_path)
    _, spec = trial(encoder, task, TOP, RECIPE)
    assert len({spec.id, by_folds(spec, COUNT + 1).id, of_whole(spec).id}) == 3
    assert of_whole(by_folds(spec, COUNT + 1)).id == of_whole(spec).id


def test_the_same_trial_has_the_same_predictions_and_loss_again(encoder, tmp_path):
    task = task_of("classification", tmp_path)
    first, again = (run_trial(*trial(encoder, task, TOP, RECIPE)) for _ in range(2))
    assert first.predictions == again.predictions
    assert first.history[-1]["validation_loss"] == again.history[-1]["validation_loss"]


def test_progress_says_which_fold_it_is(encoder, tmp_path):
    task = task_of("classification", tmp_path)
    context, spec = trial(encoder, task, TOP, RECIPE)
    seen = []
    context.progress = lambda step: seen.append(step.detail)
    run_trial(context, spec)
    assert [detail.split(",")[0] for detail in seen if detail.startswith("fold")][:: RECIPE.steps] == [
        "fold 1/3",
        "fold 2/3",
        "fold 3/3",
    ]
