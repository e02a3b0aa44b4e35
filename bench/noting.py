"""An executor that reports every finished trial, for the scripts beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from frostline.records import TrialResult, TrialSpec
from frostline.trials.context import Context
from frostline.trials.executors import Finished, Here


class Noting(Here):
    """Runs trials in this process and calls a function after each."""

    def __init__(self, context: Context, note: Callable[[TrialSpec, TrialResult], None]) -> None:
        """Run trials in a context, and call `note` with each trial and its result."""
        super().__init__(context)
        self._note = note

    def run(self, specs: Iterable[TrialSpec], *, keep: bool = False) -> Iterator[Finished]:
        """Yield the trials with their results, in the order given."""
        for spec, result in super().run(specs, keep=keep):
            self._note(spec, result)
            yield spec, result
