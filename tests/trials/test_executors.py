"""Executors: the same results wherever trials run, and none lost when a process is."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from dataclasses import replace

import pytest
from tests.search.race_tools import save_shallow, write_rows

from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError, UserError
from frostline.records import EncoderRef, Plan, Recipe, TrialSpec
from frostline.records.compute import Compute
from frostline.tasks import load_task
from frostline.trials import run_trial as trials
from frostline.trials.context import Context, Materials
from frostline.trials.executors import Here, Processes
from frostline.trials.run_missing import by_shared_states, run_missing
from frostline.trials.run_trial import run_trial
from frostline.trials.store import Store


@pytest.fixture(scope="module")
def materials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("materials")
    encoder = load_encoder(save_shallow(folder / "shallow"))
    task = load_task(write_rows(folder / "letters.csv", 80))
    return Materials(encoders={encoder.revision: str(folder / "shallow")}, tasks={task.fingerprint: task}, cache=False)


def trial(materials, *, seed=0, plan=None, **more):
    (revision,), (task,) = materials.encoders, materials.tasks.values()
    return TrialSpec(
        encoder=EncoderRef(name="shallow", revision=revision),
        task=task.ref,
        plan=plan or Plan.span(2, 2, 2),
        recipe=Recipe(learning_rate=1e-3, epochs=1, batch=8, threads=1, seed=seed),
        **more,
    )


def without_times(result):
    data = result.to_json()
    data["history"] = [{key: value for key, value in step.items() if key != "seconds"} for step in data["history"]]
    return {key: value for key, value in data.items() if key != "seconds"}


@pytest.fixture(scope="module")
def specs(materials):
    reinitialised = trial(materials, plan=Plan.full(2), surgery={"reinitialise": [2]})
    return [trial(materials, seed=0), trial(materials, seed=1), trial(materials, plan=Plan.full(2)), reinitialised]


@pytest.fixture(scope="module")
def here(materials, specs):
    return {spec.id: without_times(result) for spec, result in Here(Context(materials=materials)).run(specs)}


def test_several_processes_give_the_same_results_as_this_one(materials, specs, here):
    executor = Processes(materials, 2)
    try:
        found = {spec.id: without_times(result) for spec, result in executor.run(specs)}
        again = {spec.id: without_times(result) for spec, result in executor.run(specs[:1])}  # by the same processes
    finally:
        executor.close()
    assert found == here
    assert again == {specs[0].id: here[specs[0].id]}


def test_the_order_in_which_trials_run_does_not_change_them(materials, specs, here):
    found = {spec.id: without_times(result) for spec, result in Here(Context(materials=materials)).run(specs[::-1])}
    assert found == here


def test_a_trial_whose_process_is_killed_runs_again_in_another_one(materials, specs, here):
    executor = Processes(materials, 2)
    try:
        found = {}
        for number, (spec, result) in enumerate(executor.run(specs)):
            found[spec.id] = without_times(result)
            if number == 0:  # whoever works on something now
                busy = next(worker for worker in executor._team if worker.spec is not None)
                os.kill(busy.process.pid, signal.SIGKILL)
    finally:
        executor.close()
    assert found == here


def test_a_trial_whose_process_ends_every_time_fails_and_the_others_do_not(materials, specs):
    executor = Processes(materials, 1)
    killed = []

    def kill_the_first_three():
        while len(killed) < 3:
            for worker in executor._team:
                if worker.process.pid not in (None, *killed):
                    killed.append(worker.process.pid)
                    os.kill(worker.process.pid, signal.SIGKILL)
            time.sleep(0.01)

    threading.Thread(target=kill_the_first_three, daemon=True).start()
    try:
        found = [(spec.id, result.status, result.reason) for spec, result in executor.run(specs[:2])]
    finally:
        executor.close()
    assert found[0] == (specs[0].id, "failed", "its process ended 3 times, the last time with -9")
    assert found[1] == (specs[1].id, "done", "")


def test_closing_ends_every_process(materials, specs):
    executor = Processes(materials, 2)
    running = executor.run(specs)
    next(running)
    processes = [worker.process for worker in executor._team]
    executor.close()
    assert not any(process.is_alive() for process in processes)


def test_less_than_one_worker_is_refused():
    with pytest.raises(OptionError, match="`workers=0`: must be a whole number, 1 or more"):
        Compute(workers=0)


# One trial -----------------------------------------------------------------------------------------------------------


def test_a_trial_that_cannot_run_is_a_result_with_its_reason(materials):
    bench = Context(materials=materials)
    too_high = run_trial(bench, trial(materials, plan=Plan.span(7, 7, 7)))
    assert (too_high.status, too_high.metrics) == ("failed", {})
    assert "7" in too_high.reason
    unknown = run_trial(bench, trial(materials, kind="dance"))
    assert "unknown kind of trial 'dance'" in unknown.reason
    wrong = run_trial(bench, trial(materials, surgery={"transplant": 1}))
    assert "surgery 'transplant'" in wrong.reason


def test_a_bug_in_one_trial_is_its_result_and_says_what_it_was(materials, monkeypatch):
    def broken(*given, **more):
        raise ZeroDivisionError("by zero\nand more")

    monkeypatch.setattr(trials, "execute", broken)
    found = run_trial(Context(materials=materials), trial(materials))
    assert (found.status, found.reason, found.cause) == ("failed", "ZeroDivisionError: by zero", "error")
    assert "in broken" in found.traceback


def test_surgery_kind_and_options_tell_trials_apart(materials):
    plain = trial(materials)
    others = [trial(materials, surgery={"reinitialise": [1]}), trial(materials, surgery={"reinitialise": [2]}),
              trial(materials, kind="skip"), trial(materials, options={"n": 1})]  # fmt: skip
    assert len({one.id for one in (plain, *others)}) == 5
    for one in others:
        assert TrialSpec.from_json(one.to_json()) == one


# Only what is missing ------------------------------------------------------------------------------------------------


class Counting:
    """An executor that takes down what it is given."""

    def __init__(self, inner):
        self.inner, self.given = inner, []

    def run(self, specs, *, keep=False):
        for spec, result in self.inner.run(specs):
            self.given.append(spec.id)
            yield spec, result

    def close(self):
        self.inner.close()


def test_what_is_recorded_is_not_run_again_and_the_same_trial_twice_runs_once(materials, specs, tmp_path):
    executor = Counting(Here(Context(materials=materials)))
    with Store(tmp_path / "store.sqlite") as store:
        first = list(run_missing(store, [specs[0], specs[0]], executor))
        every = list(run_missing(store, specs[:2], executor))
    assert executor.given == [specs[0].id, specs[1].id]
    assert len(first) == 1
    assert every[0] == first[0]


def test_what_failed_is_run_again_only_where_that_is_asked(materials, tmp_path):
    executor = Counting(Here(Context(materials=materials)))
    lost = trial(materials, plan=Plan.span(7, 7, 7))
    with Store(tmp_path / "store.sqlite") as store:
        for retry in (False, False, True):
            ((spec, found),) = run_missing(store, [lost], executor, retry=("refused",) if retry else ())
            assert (spec, found.status) == (lost, "failed")
    assert executor.given == [lost.id, lost.id]


# The driver ----------------------------------------------------------------------------------------------------------


class Noted(Here):
    """Takes down the order in which it is given trials."""

    def run(self, specs, *, keep=False):
        self.given = list(specs)
        return super().run(self.given)


def test_trials_that_start_from_the_same_frozen_states_come_one_after_the_other(materials, tmp_path):
    plans = [Plan.span(2, 2, 2), Plan.full(2), Plan.span(1, 1, 2)]
    asked = [trial(materials, plan=plan, seed=seed) for seed in range(3) for plan in plans]
    executor = Noted(Context(materials=materials))
    with Store(tmp_path / "store.sqlite") as store:
        list(run_missing(store, by_shared_states(asked), executor))
    lowest = [spec.plan.lowest for spec in executor.given]
    assert lowest == sorted(lowest, reverse=True)  # the highest first: its states are there when others need them
    assert sorted(spec.id for spec in executor.given) == sorted(spec.id for spec in asked)


@pytest.mark.parametrize("workers", [1, 2])
def test_trials_share_cached_states_and_give_what_each_gives_alone(materials, tmp_path, monkeypatch, workers):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))
    asked = [trial(materials, seed=seed) for seed in range(4)]
    given = replace(materials, cache=True)
    executor = Here(Context(materials=given)) if workers == 1 else Processes(given, workers)
    try:
        found = {spec.id: without_times(result) for spec, result in executor.run(asked)}
    finally:
        executor.close()
    kept = list((tmp_path / "cache").rglob("states.bin"))
    assert len(kept) == len(materials.tasks[asked[0].task.fingerprint].splits)  # once for all four trials
    for spec in asked:
        monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / spec.id))
        assert found[spec.id] == without_times(run_trial(Context(materials=given), spec))


def test_a_full_disk_is_no_result_of_a_trial_and_ends_the_study_in_one_line(materials, tmp_path, monkeypatch):
    def full(*given, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    asked = [trial(materials, seed=seed) for seed in range(2)]
    with Store(tmp_path / "store.sqlite") as store:
        list(run_missing(store, asked[:1], Here(Context(materials=materials))))
        with monkeypatch.context() as patch:
            patch.setattr(trials, "execute", full)
            with pytest.raises(
                UserError, match="the disk is full; free some space and run the same command again"
            ) as error:
                list(run_missing(store, asked, Here(Context(materials=materials))))
        assert "\n" not in str(error.value)
        assert len(store) == 1
        list(run_missing(store, asked, Here(Context(materials=materials))))
        assert [result.status for _, result in store] == ["done", "done"]
