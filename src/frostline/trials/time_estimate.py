"""Estimates of how long trials will take on this machine, before they start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from frostline.costs.cost import Costs
from frostline.costs.timing import Speed, calibrate
from frostline.costs.workload import Workload, make_workload
from frostline.encoders.encoder import Encoder
from frostline.kernels.device import computing
from frostline.records import Cost, Recipe, TrialSpec
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs


def expected_seconds(
    specs: Sequence[TrialSpec],
    encoders: Mapping[str, Encoder],
    tasks: Mapping[str, Task],
    *,
    tunings: Mapping[str, float] | None = None,
) -> tuple[float, float, float]:
    """Return the lower bound, estimate and upper bound in seconds of all trials, one after the other.

    A few steps are timed on each encoder. Work that a study does besides tuning, or instead of it, counts as a trial of
    the same plan.

    Args:
        specs: the trials.
        encoders: encoders by revision.
        tasks: tasks by fingerprint.
        tunings: work relative to tuning once, by kind of trial.
    """
    speeds: dict[str, Speed] = {}
    estimates: dict[str, Cost] = {}

    @cache
    def workload_of(revision: str, fingerprint: str, max_length: int | None) -> Workload:
        return make_workload(SharedInputs(encoders[revision], tasks[fingerprint], max_length=max_length, keep=False))

    @cache
    def costs_of(revision: str, fingerprint: str, train_rows: int | None, recipe: Recipe) -> Costs:
        load = workload_of(revision, fingerprint, recipe.max_length)
        if train_rows is not None:
            load = replace(load, train=load.train[: max(1, round(train_rows * load.texts_per_row))])
        costs = Costs(encoders[revision].config, load, recipe)
        if revision not in speeds:
            with computing(threads=recipe.threads):
                speeds[revision] = calibrate(encoders[revision], costs)
        return costs.at(speeds[revision])

    low = seconds = high = 0.0
    for spec in specs:
        # The time depends on neither the learning rate nor the seed.
        recipe = replace(spec.recipe, learning_rate=None, seed=0)
        key = (spec.encoder.revision, spec.task.fingerprint, spec.train_rows, recipe)
        plan = f"{key} {spec.plan.identity()}"
        if plan not in estimates:
            estimates[plan] = costs_of(*key).of(spec.plan)
        cost, times = estimates[plan], (tunings or {}).get(spec.kind, 1)
        low += times * (cost.low or 0.0)
        seconds += times * (cost.seconds or 0.0)
        high += times * (cost.high or 0.0)
    return low, seconds, high


def in_words(low: float, seconds: float, high: float, *, workers: int = 1) -> str:
    """Return the estimate in words, for this number of parallel workers."""
    return f"about {_time(seconds / workers)} ({_time(low / workers)} to {_time(high / workers)})"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
