"""How long trials will take on this machine, before they start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from frostline.costs.cost import Costs
from frostline.costs.timing import Speed, calibrate
from frostline.costs.workload import workload
from frostline.encoders.encoder import Encoder
from frostline.records import Recipe, TrialSpec
from frostline.records.cost import Cost
from frostline.tasks import Task
from frostline.training.execution import use_threads
from frostline.training.shared_inputs import SharedInputs


def expected_seconds(
    specs: Sequence[TrialSpec],
    encoders: Mapping[str, Encoder],
    tasks: Mapping[str, Task],
    *,
    tunings: Mapping[str, float] | None = None,
) -> tuple[float, float, float]:
    """The lower end, the expected value and the upper end of the seconds of all trials, one after the other.

    A few steps are timed on each encoder. What a study does besides tuning, or in place of it, is counted as a trial of
    the same plan.

    Args:
        specs: the trials.
        encoders: by revision.
        tasks: by fingerprint.
        tunings: by kind of trial, its work relative to tuning once.
    """

    @cache
    def shared_inputs(revision: str, fingerprint: str, max_length: int | None) -> SharedInputs:
        return SharedInputs(encoders[revision], tasks[fingerprint], max_length=max_length, keep=False)

    speeds: dict[str, Speed] = {}
    known: dict[str, Costs] = {}
    found: dict[str, Cost] = {}
    low = seconds = high = 0.0
    for spec in specs:
        usual = replace(spec.recipe, learning_rate=None, seed=0)
        key = str((spec.encoder.revision, spec.task.fingerprint, spec.train_rows, usual))
        if key not in known:
            shared = shared_inputs(spec.encoder.revision, spec.task.fingerprint, spec.recipe.max_length)
            costs = _costs(shared, spec, usual)
            known[key] = costs.at(_speed(speeds, shared.encoder, costs, usual))
        plan = f"{key} {spec.plan.identity()}"
        if plan not in found:
            found[plan] = known[key].of(spec.plan)
        cost, times = found[plan], (tunings or {}).get(spec.kind, 1)
        low, seconds, high = (so_far + times * (more or 0.0) for so_far, more in
                              zip((low, seconds, high), (cost.low, cost.seconds, cost.high), strict=True))  # fmt: skip
    return low, seconds, high


def _costs(shared: SharedInputs, spec: TrialSpec, recipe: Recipe) -> Costs:
    load = workload(shared)
    if spec.train_rows is not None:
        rows = max(1, round(spec.train_rows * load.texts_per_row))
        load = replace(load, train=load.train[:rows])
    return Costs(shared.encoder.config, load, recipe)


def _speed(speeds: dict[str, Speed], encoder: Encoder, costs: Costs, recipe: Recipe) -> Speed:
    if encoder.revision not in speeds:
        with use_threads(recipe.threads):
            speeds[encoder.revision] = calibrate(encoder, costs)
    return speeds[encoder.revision]


def in_words(low: float, seconds: float, high: float, *, workers: int = 1) -> str:
    """The same for people, when so many trials run at a time."""
    least, expected, most = (value / workers for value in (low, seconds, high))
    return f"about {_time(expected)} ({_time(least)} to {_time(most)})"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
