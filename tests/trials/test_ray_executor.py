"""Trials on Ray: the same results as in this process, on one node or two, and when one of two is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from tests.search.race_tools import write_rows
from tests.studies.study_tools import run_quickly, save_tiny
from tests.trials.test_executors import materials, trial, without_times  # noqa: F401 (a fixture)

from frostline.cli import invoke
from frostline.errors import OptionError, UserError
from frostline.records.compute import Compute
from frostline.trials.context import Context
from frostline.trials.executors import Here
from frostline.trials.ray_executor import OnRay

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def loopback():
    """Nothing leaves this machine, and Ray reports to nobody."""
    before = dict(os.environ)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    yield
    os.environ.clear()
    os.environ |= before


def in_this_process(given, specs):
    return {spec.id: without_times(result) for spec, result in Here(Context(materials=given)).run(specs)}


def test_trials_on_ray_give_the_same_results_as_in_this_process(materials):  # noqa: F811
    specs = [trial(materials, seed=seed) for seed in range(2)]
    with contextlib.closing(OnRay(materials)) as executor:
        found = {spec.id: without_times(result) for spec, result in executor.run(specs)}
    assert found == in_this_process(materials, specs)


def start_node(*arguments):
    """A Ray node of one CPU, as a user starts one; all its processes are in one group.

    127.0.0.2 is this machine's, too: 127.0.0.1 is an address that Ray replaces by the one that others reach it by.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--node-ip-address=127.0.0.2", "--num-cpus=1"]
    return subprocess.Popen(
        [*command, "--block", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def wait_for_nodes(count, *, seconds=120):
    until = time.monotonic() + seconds
    while (found := sum(one["Alive"] for one in ray.nodes())) != count:
        assert time.monotonic() < until, f"{found} nodes in place of {count}"
        time.sleep(0.5)


@pytest.mark.slow
def test_a_study_of_which_a_node_is_killed_in_the_middle_ends_with_the_same_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else every node needs a copy of the head's token
    # What an executor on this machine alone switches off for its process and those that it starts.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    whole = run_quickly("freeze", tmp_path, layers=2, seeds=14)
    nodes, ran = [], []

    class Watched(OnRay):
        def run(self, specs, *, keep=False):
            for spec, result in super().run(specs):
                ran.append(spec.id)
                if len(ran) == 1:
                    wait_for_nodes(2)
                if len(ran) == 20:
                    os.killpg(nodes[1].pid, signal.SIGKILL)
                yield spec, result

        def close(self):
            wait_for_nodes(1)
            super().close()

    try:
        nodes.append(start_node("--head", f"--port={port}", "--include-dashboard=false"))
        time.sleep(10)
        nodes.append(start_node(f"--address=127.0.0.2:{port}"))
        found = run_quickly(
            "freeze", tmp_path, seeds=14, output=tmp_path / "on ray",
            executor=lambda given: Watched(given, address=f"127.0.0.2:{port}"),
        )  # fmt: skip
    finally:
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()
    assert sorted(ran) == sorted({point.spec.id for point in whole.points})  # 42, none lost and none twice
    assert found.failed == ()
    for table in whole.tables:
        one, other = ((tmp_path / name / "tables" / f"{table.name}.csv").read_bytes() for name in ("freeze", "on ray"))
        assert one == other


def test_an_address_without_a_cluster_is_one_line(materials):  # noqa: F811
    with (
        contextlib.closing(OnRay(materials, address="127.0.0.1:1")) as executor,
        pytest.raises(UserError, match=r"`on='127\.0\.0\.1:1'`: no Ray cluster can be reached") as error,
    ):
        list(executor.run([trial(materials)]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("address", ["here", "127.0.0.1", "127.0.0.1:head", "127.0.0.1:99999", ":6379"])
def test_an_address_that_is_none_is_refused_before_anything_starts(materials, address):  # noqa: F811
    with pytest.raises(OptionError, match=f"`on='{address}'`: must be ray, or the address"):
        OnRay(materials, address=address)


@pytest.mark.parametrize(("cpus", "gpus"), [(0, 0), (-1, 0), (1, -1)])
def test_a_trial_that_may_take_nothing_is_refused(cpus, gpus):
    with pytest.raises(OptionError, match=r"cpus_per_trial=.* a trial needs something to run on"):
        Compute(on="ray", cpus_per_trial=cpus, gpus_per_trial=gpus)


def test_a_trial_that_fits_on_no_node_is_one_line_and_not_waited_for(materials):  # noqa: F811
    with (
        contextlib.closing(OnRay(materials, cpus=999, gpus=2)) as executor,
        pytest.raises(
            UserError, match=r"`cpus_per_trial=999`, `gpus_per_trial=2`: no node of the cluster has"
        ) as error,
    ):
        list(executor.run([trial(materials)]))
    assert "\n" not in str(error.value)


def test_the_command_line_hands_over_what_a_trial_takes(tmp_path, capsys):
    encoder, data = save_tiny(tmp_path / "tiny", layers=2), write_rows(tmp_path / "letters.csv", 90)
    given = ["study", "freeze", "--quick", "--encoder", str(encoder), "--tasks", str(data), "--no-estimate",
             "--output", str(tmp_path / "study"), "--cpus-per-trial", "999", "--gpus-per-trial", "2"]  # fmt: skip
    assert invoke([*given, "--on", "ray"]) == 2
    assert "--cpus-per-trial 999, --gpus-per-trial 2: no node of the cluster has that" in capsys.readouterr().err
    assert invoke(given) == 2
    assert "--cpus-per-trial and --gpus-per-trial: are for trials on Ray; give --on" in capsys.readouterr().err
    assert invoke([*given, "--on", "ray", "--workers", "2"]) == 2
    assert "--workers: are processes of this machine" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cluster_that_the_program_had_joined_is_left_running(materials):  # noqa: F811
    ray.init(address="local", include_dashboard=False, _node_ip_address="127.0.0.1", num_cpus=1, log_to_driver=False)
    try:
        with contextlib.closing(OnRay(materials)) as executor:
            ((_, result),) = executor.run([trial(materials)])
        assert result.status == "done"
        assert ray.is_initialized()
    finally:
        ray.shutdown()
