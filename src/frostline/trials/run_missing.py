"""From trials to a store that holds them all: only what is missing runs, and every result is recorded at once."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator

from frostline.errors import UserError
from frostline.records import TrialResult, TrialSpec
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
        store: where results are looked up and recorded, by this process alone.
        specs: the trials, taken one by one as an executor has room for them; the same one twice runs once.
        executor: runs them.
        retry: run trials again that have failed for one of these causes.
        keep: keep the models of trials that run.
    """
    known: deque[Finished] = deque()
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
                known.append((spec, recorded))

    for spec, result in executor.run(missing(), keep=keep):
        while known:
            yield known.popleft()
        _record(store, spec, result)
        yield spec, result
    yield from known


def _record(store: Store, spec: TrialSpec, result: TrialResult) -> None:
    if result.cause == "disk full":  # no trial's fault, and so no result of one
        raise UserError("the disk is full; free some space and run the same command again, it continues")
    store.put(spec, result)


def by_shared_states(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """Return the trials so ordered that those that start from the same frozen states follow each other."""

    def key(spec: TrialSpec) -> tuple[str, str, str, int]:
        surgery = json.dumps(spec.to_json()["surgery"], sort_keys=True)
        return spec.encoder.revision, spec.task.fingerprint, surgery, -spec.plan.lowest

    return sorted(specs, key=key)
