"""Executors of trials: this process, or several on this machine. Results return to the process that records them.

An executor takes trials, one whenever it has room, and yields them with their results, in any order. A result depends
on the trial's specification alone, whichever executor ran it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from frostline.records import TrialResult, TrialSpec
from frostline.trials.context import Context, Materials
from frostline.trials.run_trial import failed, run_trial

_ATTEMPTS = 3  # of a trial whose process ended without a result
Finished = tuple[TrialSpec, TrialResult]


class Executor(Protocol):
    """Runs trials on a device."""

    @property
    def device(self) -> str:
        """The device that trials compute on."""

    def run(self, specs: Iterable[TrialSpec], *, keep: bool = False) -> Iterator[Finished]:
        """Yield the trials with their results, each as soon as it is done; `keep` keeps their models as well."""

    def close(self) -> None:
        """Stop everything that was started."""


class Here:
    """Runs trials in this process, one after the other."""

    def __init__(self, context: Context) -> None:
        """Run trials in a context."""
        self.context = context
        self.device = context.materials.device

    def run(self, specs: Iterable[TrialSpec], *, keep: bool = False) -> Iterator[Finished]:
        """Yield the trials with their results, in the order given."""
        for spec in specs:
            yield spec, run_trial(self.context, spec, keep=keep)

    def close(self) -> None:
        """Do nothing: nothing was started."""


class Processes:
    """Runs trials in several processes of this machine, which stay until it is closed."""

    def __init__(self, materials: Materials, workers: int) -> None:
        """Prepare the processes; they start with the first trials.

        Args:
            materials: sent to every process.
            workers: the number of processes.
        """
        self.materials, self.workers = materials, workers
        self.device = materials.device
        self._team: list[_Worker] = []

    def run(self, specs: Iterable[TrialSpec], *, keep: bool = False) -> Iterator[Finished]:
        """Yield the trials with their results, each as soon as it is done."""
        fresh, lost = iter(specs), deque[TrialSpec]()
        attempts: Counter[str] = Counter()

        def give_next(worker: _Worker | None) -> bool:
            spec = lost.popleft() if lost else next(fresh, None)
            if spec is None:
                return False
            if worker is None:
                worker = _Worker(self.materials)
                self._team.append(worker)
            worker.give(spec, keep=keep)
            return True

        idle: list[_Worker | None] = [*self._team, *[None] * (self.workers - len(self._team))]
        for worker in idle:
            if not give_next(worker):
                break
        while busy := [worker for worker in self._team if worker.spec is not None]:
            ready = wait([worker.line for worker in busy])
            for worker in [worker for worker in busy if worker.line in ready]:
                spec, result = worker.take()
                if result is None:
                    attempts[spec.id] += 1
                    result = worker.replace_process(attempts[spec.id] >= _ATTEMPTS)
                if result is None:
                    lost.appendleft(spec)
                else:
                    yield spec, result
                give_next(worker)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        while self._team:
            self._team.pop().stop()


class _Worker:
    """A process that runs one trial after the other, and the pipe to it."""

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.spec: TrialSpec | None = None
        self._start()

    def _start(self) -> None:
        # A fresh interpreter: a fork of one in which torch has computed hangs.
        context = multiprocessing.get_context("spawn")
        self.line, other_end = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(other_end, self.materials), daemon=True)
        self.process.start()
        other_end.close()

    def give(self, spec: TrialSpec, *, keep: bool) -> None:
        self.spec = spec
        with contextlib.suppress(OSError):  # if the process has ended, `take` notices
            self.line.send((spec.to_json(), keep))

    def take(self) -> tuple[TrialSpec, TrialResult | None]:
        """Return the trial and its result; None where the process has ended without one."""
        assert self.spec is not None  # noqa: S101 (asked only while it works on something)
        spec, self.spec = self.spec, None
        try:
            return spec, TrialResult.from_json(self.line.recv())
        except (EOFError, OSError):
            return spec, None

    def replace_process(self, is_last: bool) -> TrialResult | None:
        """Start a new process instead of one that ended; return a failed result after the last attempt."""
        self.process.join()
        reason = f"its process ended {_ATTEMPTS} times, the last time with {self.process.exitcode}"
        self.line.close()
        self._start()
        return failed(reason, "lost") if is_last else None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.line.close()


def _serve(line: Connection[Any, Any], materials: Materials) -> None:
    """Run trials until the process that sends them closes the pipe or ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    context = Context(materials=materials)
    while True:
        try:
            spec, keep = line.recv()
            line.send(run_trial(context, TrialSpec.from_json(spec), keep=keep).to_json())
        except (EOFError, OSError, KeyboardInterrupt):
            return


def _end_with_parent() -> None:
    """End this process as soon as its parent is gone: nobody would record its results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
