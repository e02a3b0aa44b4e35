"""Run the trials that a store lacks, and record every result at once."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator

from frostline.errors import UserError
from frostline.records import TrialSpec
from frostline.records.trial import FailureCause
from frostline.trials.executors import Executor, Finished
from frostline.trials.store import Store


def run_missing(
    store: Store,
    specs: Iterable[TrialSpec],
    executor: Executor,
    *,
    retry: Collection[FailureCause] = (),
    keep: bool = False,
) -> Iterator[Finished]:
    """Yield all trials with their results, after running those that the store does not have.

    Args:
        store: the store of results; only this process writes to it.
        specs: the trials, taken one by one as the executor has room; duplicates run once.
        executor: executor of the trials.
        retry: causes of failure after which a trial runs again.
        keep: keep the models of trials that run.
    """
    stored: deque[Finished] = deque()
    seen: set[str] = set()

    def missing() -> Iterator[TrialSpec]:
        for spec in specs:
            if spec.id in seen:
                continue
            seen.add(spec.id)
            recorded = store.get(spec)
            if recorded is None or (recorded.status == "failed" and recorded.cause in retry):
                yield spec
            else:
                stored.append((spec, recorded))

    for spec, result in executor.run(missing(), keep=keep):
        while stored:
            yield stored.popleft()
        if result.cause == "disk full":  # not the trial's fault, so it is not recorded
            raise UserError("the disk is full; free some space and run the same command again, it continues")
        store.put(spec, result)
        yield spec, result
    yield from stored


def by_shared_states(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """Return the trials in an order in which those that share frozen states are neighbours."""

    def key(spec: TrialSpec) -> tuple[str, str, str, int]:
        surgery = json.dumps(spec.to_json()["surgery"], sort_keys=True)
        return spec.encoder.revision, spec.task.fingerprint, surgery, -spec.plan.lowest

    return sorted(specs, key=key)
