"""A run whose trials run in other processes or on Ray: the same decision, the same model, the same store."""

from __future__ import annotations

import pytest
from tests.search.race_tools import save_shallow, skip_slow_parts, write_rows
from tests.trials.test_executors import without_times

import frostline
from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError, TrialError
from frostline.progress import Step
from frostline.records import Recipe
from frostline.records.compute import Compute
from frostline.trials import folds
from frostline.trials.store import Store

RECIPE = Recipe(epochs=2, batch=16, threads=1)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        skip_slow_parts(patch)
        yield


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_shallow(tmp_path_factory.mktemp("models") / "shallow")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("data") / "letters.csv")


@pytest.fixture(scope="module")
def here(encoder, rows, tmp_path_factory):
    return frostline.run(encoder, rows, output=tmp_path_factory.mktemp("runs") / "here", recipe=RECIPE)


def facts(run):
    """What a run says, timings aside."""
    written = run.to_json()
    race = [[{**line, "seconds": 0} for line in rung] for rung in written["race"]]
    return {**{key: written[key] for key in ("plan", "recipe", "decision", "tests", "notes")}, "race": race}


def recorded(run):
    with Store(run.folder / "store.sqlite", for_reading=True) as store:
        return {spec.id: without_times(result) for spec, result in store}


@pytest.mark.parametrize("compute", [Compute(workers=2), Compute(on="ray")], ids=["processes", "ray"])
def test_the_decision_the_model_and_the_store_are_the_same(here, encoder, rows, compute, tmp_path):
    elsewhere = frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE, compute=compute)
    assert facts(elsewhere) == facts(here)
    assert recorded(elsewhere) == recorded(here)
    for name in ("model/model.safetensors", "predictions.jsonl", "plan.json", "recipe.json"):
        assert (elsewhere.folder / name).read_bytes() == (here.folder / name).read_bytes()


def test_a_run_that_was_interrupted_here_is_continued_elsewhere(here, encoder, rows, tmp_path):
    done = []

    def interrupt(step: Step) -> None:
        if step.table is not None:
            done.append(step)
        if len(done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE, progress=interrupt)
    again = frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE, compute=Compute(workers=2))
    assert facts(again) == facts(here)


def test_an_encoder_that_is_in_no_files_runs_here_and_is_refused_elsewhere(encoder, rows, tmp_path):
    loaded = load_encoder(encoder)
    in_memory = Encoder(loaded.model, loaded.tokenizer, name="in memory")
    with pytest.raises(OptionError, match="in memory: was changed or made in memory; save it, then pass its folder"):
        frostline.run(in_memory, rows, output=tmp_path / "run", recipe=RECIPE, compute=Compute(workers=2))
    assert not (tmp_path / "run").exists()


def test_a_bug_in_a_trial_ends_the_run_and_is_recorded_with_its_traceback(encoder, rows, tmp_path, monkeypatch):
    def broken(*given, **more):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(folds, "tunable_for", broken)
    with pytest.raises(TrialError, match="failed: ZeroDivisionError: by zero") as error:
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert "in broken" in error.value.details
    with Store(tmp_path / "run" / "checkpoints" / "store.sqlite", for_reading=True) as store:
        ((_, result),) = store
    assert (result.status, result.cause) == ("failed", "error")
    assert "in broken" in result.traceback


def test_a_run_that_a_bug_has_ended_runs_that_trial_again(here, encoder, rows, tmp_path, monkeypatch):
    def broken(*given, **more):
        raise ZeroDivisionError("by zero")

    with monkeypatch.context() as patch:
        patch.setattr(folds, "tunable_for", broken)
        with pytest.raises(TrialError):
            frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    again = frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert facts(again) == facts(here)


def test_trials_of_a_run_log_no_lines_of_their_own(encoder, rows, tmp_path, log_lines):
    frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert [line for line in log_lines if not line.startswith(("note: ", "proof: "))] == []
