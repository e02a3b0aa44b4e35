"""Seconds of an epoch with and without the cache: really run, on the model as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.tiny import save_tiny
from tests.training.test_execution import RECIPE, write_rows

from frostline.api._tune import tune
from frostline.encoders.loading import load_encoder
from frostline.tasks import load_task
from frostline.training.loop import weights_of
from frostline.training.shared_inputs import SharedInputs
from frostline.trials import step_timing
from frostline.trials.step_timing import epoch_seconds


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def encoder_and_task(tmp_path):
    return load_encoder(save_tiny(tmp_path / "encoder")), load_task(write_rows(tmp_path / "rows.jsonl"))


@pytest.mark.parametrize(
    ("plan", "keep", "measured"),
    [("4,4,4", True, {"cached", "uncached"}), ("full", True, {"cached", "uncached"}), ("4,4,4", False, {"uncached"})],
)
def test_both_ways_are_timed_where_there_are_cached_states_and_the_model_stays_as_it_was(
    plan, keep, measured, encoder_and_task
):
    encoder, task = encoder_and_task
    tuned = tune(encoder, task, plan=plan, recipe=replace(RECIPE, epochs=1), cache=keep)
    before = {name: value.clone() for name, value in weights_of(tuned.tunable).items()}
    rows = SharedInputs(encoder, task, keep=keep).examples(tuned.tunable, "train")
    seconds = epoch_seconds(tuned, rows)
    assert set(seconds) == measured and all(value > 0 for value in seconds.values())
    assert plan != "full" or seconds["cached"] == seconds["uncached"]
    assert all(torch.equal(value, before[name]) for name, value in weights_of(tuned.tunable).items())
    assert not tuned.tunable.training


def test_an_epoch_takes_its_steps_times_the_mean_of_the_timed_ones(encoder_and_task, monkeypatch):
    encoder, task = encoder_and_task
    tuned = tune(encoder, task, plan="full", recipe=replace(RECIPE, epochs=1, batch=4))
    rows = SharedInputs(encoder, task, keep=False).examples(tuned.tunable, "train")
    times = iter([0.0, 100.0, *(second for step in range(5) for second in (1000.0 * step, 1000.0 * step + step + 1))])
    monkeypatch.setattr(step_timing.time, "perf_counter", lambda: next(times))
    # The mean of 1 to 5 seconds; the first step, which warms up, does not count.
    assert epoch_seconds(tuned, rows)["uncached"] == pytest.approx(-(-len(rows) // 4) * 3.0)
