"""Trials on Ray: the same results as in this process, on one node or two, and when one of two is killed."""

from __future__ import annotations

import contextlib
import os

import pytest
from tests.runner.test_executors import materials, trial, without_times  # noqa: F401 (a fixture)

from frostline.errors import OptionError, UserError
from frostline.runner.executors import Here
from frostline.runner.materials import Bench
from frostline.runner.on_ray import OnRay

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
    return {spec.id: without_times(result) for spec, result in Here(Bench(materials=given)).run(specs)}


def test_trials_on_ray_give_the_same_results_as_in_this_process(materials):  # noqa: F811
    specs = [trial(materials, seed=seed) for seed in range(2)]
    with contextlib.closing(OnRay(materials)) as executor:
        found = {spec.id: without_times(result) for spec, result in executor.run(specs)}
    assert found == in_this_process(materials, specs)


@pytest.mark.slow
def test_a_node_that_is_killed_in_the_middle_costs_nothing_but_time(materials):  # noqa: F811
    from ray.cluster_utils import Cluster

    specs = [trial(materials, seed=seed) for seed in range(12)]
    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    second = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    found, where = {}, set()
    try:
        with contextlib.closing(OnRay(materials, address=cluster.address)) as executor:
            for number, (spec, result) in enumerate(executor.run(specs)):
                found[spec.id] = without_times(result)
                if number == 0:
                    where |= {one["NodeID"] for one in ray.nodes() if one["Alive"]}
                if number == 3:
                    cluster.remove_node(second, allow_graceful=False)
            left = [one for one in ray.nodes() if one["Alive"]]
    finally:
        cluster.shutdown()
    assert len(where) == 2
    assert len(left) == 1
    assert found == in_this_process(materials, specs)


def test_an_address_without_a_cluster_is_one_line(materials):  # noqa: F811
    with (
        contextlib.closing(OnRay(materials, address="127.0.0.1:1")) as executor,
        pytest.raises(UserError, match=r"--on 127\.0\.0\.1:1: Ray cannot be reached") as error,
    ):
        list(executor.run([trial(materials)]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("cpus", "gpus"), [(0, 0), (-1, 0), (1, -1)])
def test_a_trial_that_may_take_nothing_is_refused(materials, cpus, gpus):  # noqa: F811
    with pytest.raises(OptionError, match="a trial needs something to run on"):
        OnRay(materials, cpus=cpus, gpus=gpus)
