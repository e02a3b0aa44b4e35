"""A search from measuring to a saved model: measure, propose, race, decide, test once, save.

Unfinished work is in one folder inside the run's own, so that an interrupted run continues where it was, and a
finished one is moved into place as a whole.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from frostline.costs.cost import Costs
from frostline.costs.timing import Speed
from frostline.errors import DataError, OptionError, UserError
from frostline.files import atomic, output_folder
from frostline.prediction.export import save
from frostline.progress import Progress, logger, silent
from frostline.records import LayerScores, Plan, Proposal
from frostline.records._json import Record
from frostline.search.clock import Clock
from frostline.search.course import Course
from frostline.search.judging import why_folds
from frostline.search.limits import fitting_time
from frostline.search.planning import Inputs, OnePass, measure_for_plans, plans_within, states_of_any_plan, time_steps
from frostline.search.prior import FEW_ROWS, heads_for_few_rows, promising
from frostline.search.run_result import Run
from frostline.search.testing import Test
from frostline.search.trials import Trials
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, Materials
from frostline.trials.folds import FOLDS
from frostline.trials.make_executor import MakeExecutor
from frostline.trials.results import make_spec
from frostline.trials.store import Store

_STORE, _IDENTITY, _SCORES, _SPEED, _SPENT = "store.sqlite", "run.json", "scores.json", "speed.json", "spent.json"
_HEAD, _BEFORE_RACE = "head.json", "before_race.json"
_KEPT = "kept"
_OVER = ".finished"  # the work folder of a finished run, until it is removed

R = TypeVar("R", bound=Record)


def check_task(task: Task) -> None:
    """Refuse a task without validation rows."""
    if task.validation is None:
        raise DataError(f"{task.name}: has no validation rows, which plans are chosen on; pass `validation`")


@dataclass(frozen=True, kw_only=True)
class Search:
    """One run, from measuring to saving.

    Args:
        inputs: encoder, task, recipe and budget.
        folder: folder of the run.
        make_executor: function that returns the executor of trials.
        source: name or folder that other processes load the encoder from; None for the embedded default.
        finish: callback with the folder of the finished run, before it is moved into place.
        progress: progress callback.
    """

    inputs: Inputs
    folder: Path
    make_executor: MakeExecutor
    source: str | None = None
    finish: Callable[[Path], object] = lambda folder: None
    progress: Progress = silent

    @property
    def work_folder(self) -> Path:
        """The folder of unfinished work."""
        return self.folder / output_folder.CHECKPOINTS

    def run(self, *, overwrite: bool = False) -> Run:
        """Return the result of the run, after saving it; continue an interrupted run in the folder."""
        shared = self.inputs.shared(self.progress)
        costs = self.inputs.costs(shared)
        self._claim(overwrite=overwrite)
        try:
            return self._search(shared, costs)
        except UserError:
            # Leave nothing behind if the mistake was noticed before anything was measured.
            if not (self.work_folder / _SCORES).exists():
                shutil.rmtree(self.work_folder, ignore_errors=True)
                with contextlib.suppress(OSError):
                    self.folder.rmdir()  # only if nothing else is there
            raise

    def _claim(self, *, overwrite: bool) -> None:
        """Start in the folder, or continue the interrupted run there; refuse a different run's folder."""
        identity = self._identity()
        if overwrite:
            shutil.rmtree(self.work_folder, ignore_errors=True)
        shutil.rmtree(self.folder / _OVER, ignore_errors=True)
        before = atomic.read_json(self.work_folder / _IDENTITY, default=None)
        if before is None and not (self.work_folder / _STORE).exists():
            shutil.rmtree(self.work_folder, ignore_errors=True)  # interrupted before it had begun
        other = before if isinstance(before, dict) else {}
        different = [name for name, value in identity.items() if other.get(name) != value]
        if self.work_folder.is_dir() and different:
            raise OptionError(
                f"{self.folder}: contains an interrupted run with a different {' and '.join(different)}; pass "
                "`overwrite=True` to start over, or another `output`"
            )
        if before is not None:
            logger.info("continuing the interrupted run in %s", self.folder)
        self.work_folder.mkdir(parents=True, exist_ok=True)
        atomic.write_json(self.work_folder / _IDENTITY, identity)

    def _identity(self) -> dict[str, Any]:
        """Return what measuring depends on; limits and rates may change, as trials have identities of their own."""
        encoder, task, recipe = self.inputs.encoder, self.inputs.task, self.inputs.recipe
        return {
            "model": encoder.revision,
            "data": task.fingerprint,
            "metric": list(task.metrics),
            "maximum length": recipe.max_length,
            "threads": recipe.threads,
            "seed": recipe.seed,
            "number of folds": self.inputs.folds,
            "device": encoder.device.type,
        }

    def _search(self, shared: SharedInputs, costs: Costs) -> Run:
        clock = Clock(self.work_folder / _SPENT, self.progress)
        measured = self._measured(shared, costs)
        clock.lap("measuring")
        inputs = self.inputs.with_head(measured.head)
        return replace(self, inputs=inputs)._search_plans(shared, inputs.costs(shared), measured.scores, clock)

    def _measured(self, shared: SharedInputs, costs: Costs) -> OnePass:
        """Return the layer scores and the head to use, which are computed now or were before an interruption."""
        head = atomic.read_json(self.work_folder / _HEAD, default=None)
        scores = atomic.read_json(self.work_folder / _SCORES, default=None)
        if head is not None and scores is not None:
            return OnePass(scores=LayerScores.from_json(scores), head=head)
        keep = states_of_any_plan(costs, self.inputs.encoder.depth)
        measured = measure_for_plans(self.inputs, shared=shared, keep=keep, progress=self.progress)
        atomic.write_json(self.work_folder / _HEAD, measured.head)
        atomic.write_json(self.work_folder / _SCORES, measured.scores.to_json())
        return measured

    def _search_plans(self, shared: SharedInputs, costs: Costs, scores: LayerScores, clock: Clock) -> Run:
        """Race plans, prove, refit, test and save."""
        if self.inputs.budget.minutes is not None:
            costs = costs.at(self._once(_SPEED, Speed, partial(time_steps, self.inputs, costs, self.progress)))
        proposals, notes = plans_within(scores, costs, self.inputs)
        racing = promising(proposals, self.inputs.encoder.depth, self.inputs.budget.goal)
        proof = [proposal for proposal in proposals if proposal.joins_late] if self.inputs.proof or not racing else []
        if self.inputs.folds is not None:
            notes = [*notes, why_folds(self.inputs.judging)]
        if heads := heads_for_few_rows(racing, self.inputs.task, self.inputs.budget.goal):
            racing, proof, notes = heads, [], [*notes, FEW_ROWS]
        clock.lap("planning")
        shared.freeze(costs.frozen_at(proposal.plan for proposal in [*racing, *proof]), ["train", "validation"])
        clock.lap("frozen states")
        racing, proof, late_notes, deadline = self._fit_time(racing, proof, clock)
        for note in (notes := [*notes, *late_notes]):
            logger.info("note: %s", note)
        context = self._context(shared)
        executor = self.make_executor(context.materials, context)
        with Store(self.work_folder / _STORE) as store, contextlib.closing(executor):
            trials = Trials(
                shared=shared,
                store=store,
                executor=executor,
                materials=context.materials,
                folds=self.inputs.folds,
            )
            course = Course(
                inputs=self.inputs,
                trials=trials,
                test=Test(
                    context=context,
                    shared=shared,
                    costs=costs,
                    seed=self.inputs.recipe.seed,
                    of_model=trials.of_model,
                ),
                scores=scores,
                proposals=[*racing, *proof],
                notes=notes,
                clock=clock,
                save=self._save,
                folder=self.folder,
            )
            try:
                course.race(racing or proof, deadline)
                course.prove(proof if racing else [], deadline)
                course.refit()
                result = course.finish()
            except KeyboardInterrupt:
                course.finish_early()
                raise
        # Renamed first: killed in the middle of removing, a finished run must not look like an interrupted one.
        self.work_folder.rename(self.folder / _OVER)
        shutil.rmtree(self.folder / _OVER, ignore_errors=True)
        return result

    def _context(self, shared: SharedInputs) -> Context:
        """Return the context of the trials; in this process they share the tokens and states that exist already."""
        encoder, task = self.inputs.encoder, self.inputs.task
        materials = Materials(
            encoders={encoder.revision: self.source},
            tasks={task.fingerprint: task},
            folder=self.work_folder,
            kept=self.work_folder / _KEPT,
            kinds=(FOLDS,),
            predictions=("validation",),  # a race must not see the test rows
            cache=self.inputs.cache,
            device=encoder.device.type,
        )
        context = Context(materials=materials, encoders={encoder.revision: encoder}, progress=self.progress)
        any_plan = Plan(layers=(), head=encoder.depth)
        context.share(make_spec(shared, any_plan, self.inputs.recipe), shared)
        return context

    def _once(self, file: str, kind: type[R], compute: Callable[[], R]) -> R:
        """Return a record that is computed now, or was before the run was interrupted."""
        stored = atomic.read_json(self.work_folder / file, default=None)
        if stored is not None:
            return kind.from_json(stored)
        record = compute()
        atomic.write_json(self.work_folder / file, record.to_json())
        return record

    def _fit_time(
        self, racing: list[Proposal], proof: list[Proposal], clock: Clock
    ) -> tuple[list[Proposal], list[Proposal], list[str], float | None]:
        """Return the plans whose race fits the time limit, notes on the others, and when to stop starting trials."""
        minutes, notes = self.inputs.budget.minutes, []
        if minutes is None:
            return racing, proof, [], None
        # A continued run races the plans that it began with, whatever time is left of them.
        before = atomic.read_json(self.work_folder / _BEFORE_RACE, default=None) or clock.total
        atomic.write_json(self.work_folder / _BEFORE_RACE, before)
        if before >= 60 * minutes:
            notes.append(f"the {minutes:g}-minute limit was used up before the race; taking the cheapest plan")
        kept, more = fitting_time([*racing, *proof], 60 * minutes - before)
        deadline = time.monotonic() + 60 * minutes - clock.total
        return (
            [proposal for proposal in racing if proposal in kept],
            [proposal for proposal in proof if proposal in kept],
            [*notes, *more],
            deadline,
        )

    def _save(self, result: Run) -> None:
        # Copies are handed over: with the store itself, a run that is killed while it saves would lose its trials.
        copies = self.work_folder / "copies"
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir()
        with Store(self.work_folder / _STORE) as store:
            store.copy_to(copies / _STORE)
        save(
            result.tuned,
            self.folder,
            kind="run",
            files={"scores.json": result.scores.to_json(), "run.json": result.to_json()},
            moved=[copies / _STORE],
            finish=self.finish if result.record.is_finished or result.record.tests else None,
        )
