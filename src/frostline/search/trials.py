"""The trials of one search: where they run, where they are recorded, and what is kept of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from frostline.errors import TrialError
from frostline.records import Plan, Recipe, TrialSpec
from frostline.search.judging import Judging
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Materials, checkpoint_folder
from frostline.trials.executors import Executor, Finished
from frostline.trials.folds import by_folds, of_whole
from frostline.trials.results import make_spec
from frostline.trials.run_missing import run_missing
from frostline.trials.store import Store


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The trials of one search.

    Args:
        shared: the encoder and the task of all trials.
        store: recorded results; trials with one do not run again.
        executor: executor of the other trials.
        materials: folders of checkpoints and kept models; None where there are none.
        folds: number of folds that plans are judged in; None to judge them on validation rows.
    """

    shared: SharedInputs
    store: Store
    executor: Executor
    materials: Materials | None = None
    folds: int | None = None

    @property
    def rows(self) -> int:
        """The number of rows that a trial trains on, of one fold where there are several."""
        task = self.shared.task
        return len(task.train) if self.folds is None else len(task.labelled) * (self.folds - 1) // self.folds

    @property
    def judging(self) -> Judging:
        """How plans are judged."""
        return Judging(self.shared.task, self.folds)

    def spec(self, plan: Plan, recipe: Recipe) -> TrialSpec:
        """Return the trial of a plan and a recipe."""
        spec = make_spec(self.shared, plan, recipe)
        return spec if self.folds is None else by_folds(spec, self.folds)

    def of_model(self, spec: TrialSpec) -> TrialSpec:
        """Return the trial whose model is saved: the same, or where plans have folds one on all labelled rows."""
        return spec if self.folds is None else of_whole(spec)

    def run(self, specs: Iterable[TrialSpec]) -> Iterator[Finished]:
        """Yield the trials with their results; a bug in one of them ends the search."""
        for spec, result in run_missing(self.store, specs, self.executor, retry=("error", "lost"), keep=True):
            if result.cause == "error":
                raise TrialError(f"trial {spec.id} (plan {spec.plan.name}) failed: {result.reason}", result.traceback)
            yield spec, result

    def forget(self, specs: Iterable[TrialSpec]) -> None:
        """Remove the checkpoints and models of trials that have lost; their results stay."""
        if self.materials is None:
            return
        for spec in specs:
            if self.materials.folder is not None:
                shutil.rmtree(checkpoint_folder(self.materials.folder, spec), ignore_errors=True)
            if self.materials.kept is not None:
                shutil.rmtree(self.materials.kept / spec.id, ignore_errors=True)
