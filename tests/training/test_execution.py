"""Tuning from end to end on tiny models: the same numbers whatever the cache, a real kill, rates, kinds of task."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from tests.tiny import save_tiny

from frostline.api._tune import tune
from frostline.errors import OptionError
from frostline.records import Plan, Recipe
from frostline.tasks import load_task
from frostline.training.loop import weights_of

RECIPE = Recipe(epochs=2, batch=16, learning_rate=1e-3, threads=1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    return save_tiny(tmp_path / "encoder")


def write_rows(path, rows=120, *, kind="classes"):
    """Texts whose label can be read off their letters."""
    draw = random.Random(0)
    with path.open("w") as file:
        for _ in range(rows):
            label = draw.randrange(2)
            text = "".join(draw.choice("abc" if label else "xyz") for _ in range(draw.randrange(3, 20)))
            answer = {"classes": ["no", "yes"][label], "numbers": round(label * 2.5 + draw.random(), 3)}[kind]
            file.write(json.dumps({"text": text, "label": answer}) + "\n")
    return path


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.jsonl")


def test_it_learns_what_can_be_learnt(folder, rows):
    tuned = tune(folder, rows, plan="3,4,4", recipe=Recipe(epochs=6, batch=8, learning_rate=3e-3, threads=1))
    assert tuned.metrics["test"]["accuracy"] > 0.9


@pytest.mark.parametrize("plan", ["3,4,4", "layers=2+4,head=4", "layers=none,head=3", "freeze=0", "2,3,3"])
def test_results_do_not_depend_on_whether_frozen_states_are_kept(folder, rows, plan, own_cache):
    recipe = Recipe(**{**RECIPE.to_json(), "cache_dtype": "float32"})
    kept = tune(folder, rows, plan=plan, recipe=recipe)
    computed = tune(folder, rows, plan=plan, recipe=recipe, cache=False)
    again = tune(folder, rows, plan=plan, recipe=recipe)
    for name, value in weights_of(kept.tunable).items():
        assert value.equal(weights_of(again.tunable)[name])
        # Adam divides a gradient by its own size, so that rounding can move a weight whose gradient is almost zero.
        torch.testing.assert_close(value, weights_of(computed.tunable)[name], atol=2e-3, rtol=0)
    torch.testing.assert_close(kept.outputs["test"], computed.outputs["test"], atol=1e-3, rtol=0)
    assert own_cache.exists() == (plan != "freeze=0")


def test_the_same_seed_gives_the_same_bits_and_another_one_others(folder, rows):
    first, second, other = (
        tune(folder, rows, plan="3,4,4", recipe=Recipe(**{**RECIPE.to_json(), "seed": seed})) for seed in (0, 0, 1)
    )
    assert first.outputs["validation"].equal(second.outputs["validation"])
    assert first.outputs["validation"].shape != other.outputs["validation"].shape or not first.outputs[
        "validation"
    ].equal(other.outputs["validation"])


def test_a_regression_learns_numbers(folder, tmp_path):
    path = write_rows(tmp_path / "numbers.jsonl", kind="numbers")
    recipe = Recipe(epochs=15, batch=8, learning_rate=3e-3, threads=1)
    tuned = tune(folder, load_task(path, kind="regression"), plan="3,4,4", recipe=recipe)
    assert tuned.tunable.head.kind == "regression"
    assert tuned.metrics["test"][tuned.task.metrics[0]] > 0.7


def test_a_question_gets_one_number_for_each_of_its_choices(folder, tmp_path):
    draw = random.Random(0)
    path = tmp_path / "questions.jsonl"
    with path.open("w") as file:
        for _ in range(60):
            right = draw.randrange(2)
            words = ["".join(draw.choice("abc" if place == right else "xyz") for _ in range(5)) for place in range(2)]
            file.write(
                json.dumps({"question": "which", "choice1": words[0], "choice2": words[1], "label": right}) + "\n"
            )
    task = load_task(path, text="question", choices=["choice1", "choice2"], kind="multiple choice")
    recipe = Recipe(epochs=6, batch=8, learning_rate=3e-3, threads=1)
    tuned = tune(folder, task, plan="3,4,4", recipe=recipe)
    assert tuned.outputs["test"].shape == (len(task.test), 2)
    assert tuned.metrics["test"]["accuracy"] > 0.9


def test_of_several_learning_rates_the_best_on_validation_is_kept(folder, rows, log_lines):
    recipe = Recipe(epochs=2, batch=8, threads=1)
    tuned = tune(folder, rows, plan="3,4,4", recipe=recipe, rates=[1e-7, 3e-3])
    assert tuned.recipe.learning_rate == 3e-3
    said = list(log_lines)
    alone = tune(folder, rows, plan="3,4,4", recipe=Recipe(epochs=2, batch=8, threads=1, learning_rate=3e-3))
    assert tuned.outputs["test"].equal(alone.outputs["test"])
    assert "learning rate 1e-07, 0.003" in log_lines[0]
    assert [line.split(":")[0] for line in said[1:]] == ["learning rate 1e-07", "learning rate 0.003"]


def test_the_papers_rates_can_be_tried(folder, rows):
    tuned = tune(folder, rows, plan="4,4,4", recipe=Recipe(epochs=1, threads=1), rates="paper")
    printed = (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)
    assert tuned.recipe.learning_rate in [pytest.approx(rate * 768 / 32) for rate in printed]  # for a width of 32


@pytest.mark.parametrize("plan", ["9,12", "nonsense", "top-k:q=3", "best-down:layers=x"])
def test_words_that_are_no_plan_are_refused_before_anything_is_read(plan):
    with pytest.raises(OptionError):
        tune("no/such/folder", "no-such-file.csv", plan=plan)


def test_a_plan_for_a_deeper_encoder_is_refused(folder, rows):
    with pytest.raises(OptionError, match=r"layers 1\.\.4"):
        tune(folder, rows, plan=Plan.span(3, 6, 6))


# Going on ------------------------------------------------------------------------------------------------------------

_RUN = """
import sys, time
from frostline.records import Recipe
from frostline.api._tune import tune

def slowly(step):
    print(step.stage, step.done, flush=True)
    time.sleep(0.05 if step.stage == "training" else 0)

encoder, rows, output, resume, rates = sys.argv[1:]
tune(encoder, rows, plan="3,4,4", recipe=Recipe(epochs=3, batch=16, learning_rate=1e-3, threads=1), output=output,
     resume=resume == "yes", checkpoint_every=2, progress=slowly, rates=[float(r) for r in rates.split(",") if r])
"""


def start(folder, rows, output, *, resume=False, rates=""):
    arguments = [str(folder), str(rows), str(output), "yes" if resume else "no", rates]
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )


def finish(process):
    process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.parametrize("rates", [pytest.param("", marks=pytest.mark.slow), "1e-4,1e-3"])
def test_a_process_that_was_killed_goes_on_to_the_same_bits(folder, rows, tmp_path, rates):
    finish(start(folder, rows, tmp_path / "whole", rates=rates))
    for seconds in (0.0, 0.35):
        process = start(folder, rows, tmp_path / "killed", resume=seconds > 0, rates=rates)
        for line in process.stdout:
            if line.startswith("training"):
                break
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "frostline.json").exists()
    finish(start(folder, rows, tmp_path / "killed", resume=True, rates=rates))
    for name in ("model/model.safetensors", "predictions.jsonl"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    assert not (tmp_path / "killed" / "checkpoints").exists()


def stopped(folder, rows, output):
    """Leave a run that was stopped on its way."""

    def stop(step):
        if step.stage == "training" and step.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(folder, rows, plan="3,4,4", recipe=RECIPE, output=output, checkpoint_every=1, progress=stop)


def test_going_on_with_other_settings_is_refused(folder, rows, tmp_path):
    stopped(folder, rows, tmp_path / "out")
    other = Recipe(**{**RECIPE.to_json(), "batch": 8})
    with pytest.raises(OptionError, match="had other data, plan or recipe"):
        tune(folder, rows, plan="3,4,4", recipe=other, output=tmp_path / "out", resume=True)
    tune(folder, rows, plan="3,4,4", recipe=RECIPE, output=tmp_path / "out", resume=True)


def test_a_stopped_run_is_not_thrown_away_unasked(folder, rows, tmp_path):
    stopped(folder, rows, tmp_path / "out")
    with pytest.raises(OptionError, match="contains an interrupted run; pass `resume=True`"):
        tune(folder, rows, plan="3,4,4", recipe=RECIPE, output=tmp_path / "out")
    with pytest.raises(OptionError, match="give one of them"):
        tune(folder, rows, plan="3,4,4", recipe=RECIPE, output=tmp_path / "out", resume=True, overwrite=True)
    tune(folder, rows, plan="3,4,4", recipe=RECIPE, output=tmp_path / "out", overwrite=True)


def test_a_finished_run_has_nothing_to_go_on_with(folder, rows, tmp_path):
    tune(folder, rows, plan="3,4,4", recipe=RECIPE, output=tmp_path / "out")
    with pytest.raises(OptionError, match="nothing to continue"):
        tune(folder, rows, plan="3,4,4", recipe=RECIPE, output=tmp_path / "out", resume=True)


def test_going_on_needs_a_folder(folder, rows):
    with pytest.raises(OptionError, match="give the folder with `output`"):
        tune(folder, rows, resume=True)


def test_a_run_of_a_single_step_is_no_error(folder, rows):
    for method in ("full", "lora", "houlsby"):
        plan = Plan(layers=(3, 4), head=4, method=method)
        tuned = tune(folder, rows, plan=plan, recipe=Recipe(epochs=1, batch=1000, threads=1, warmup=0.0))
        assert tuned.trained.audit.moved <= tuned.trained.audit.tensors
