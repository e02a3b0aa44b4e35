"""From a list of trials to a store that holds them all: only what is missing runs, and every result is kept at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from frostline.errors import UserError
from frostline.records import DISK_IS_FULL, TrialResult, TrialSpec
from frostline.trials.executors import Executor
from frostline.trials.store import Store

Done = Callable[[TrialSpec, TrialResult], None]


def run_missing(
    store: Store,
    specs: Sequence[TrialSpec],
    executor: Executor,
    *,
    retry_failed: bool = False,
    done: Done | None = None,
) -> dict[str, TrialResult]:
    """The results of all trials by id, after running those that the store does not have.

    Args:
        store: where results are looked up and recorded, by this process alone.
        specs: the trials; the same one twice runs once.
        executor: runs them.
        retry_failed: run those again that have failed.
        done: told of every trial that was run.
    """
    found: dict[str, TrialResult] = {}
    missing: dict[str, TrialSpec] = {}
    for spec in specs:
        known = store.get(spec)
        if known is None or (retry_failed and known.status == "failed"):
            missing[spec.id] = spec
        else:
            found[spec.id] = known
    for spec, result in executor.run(sorted(missing.values(), key=_order)):
        if result.reason == DISK_IS_FULL:  # no trial's fault, and so no result of one
            raise UserError(f"{DISK_IS_FULL}; make room, and the same command goes on with what is recorded")
        store.put(spec, result)
        found[spec.id] = result
        if done is not None:
            done(spec, result)
    return found


def _order(spec: TrialSpec) -> tuple[str, str, str, int]:
    """Trials that start from the same frozen states one after the other."""
    surgery = json.dumps(spec.to_json()["surgery"], sort_keys=True)
    return spec.encoder.revision, spec.task.fingerprint, surgery, -spec.plan.lowest
