"""A search from measuring to a saved model: measure, propose, race, decide, test once, save.

Unfinished work is in one folder inside the run's own, so that an interrupted run continues where it was, and a
finished one is moved into place as a whole.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from frostline.costs.cost import Costs
from frostline.costs.timing import Speed
from frostline.errors import DataError, OptionError, UserError
from frostline.files import atomic, output_folder
from frostline.prediction.export import save
from frostline.progress import Progress, Step, logger, silent
from frostline.records import LayerScores, Plan, Proposal
from frostline.records._json import Record
from frostline.records.run import Decision, Judged, RunRecord
from frostline.search.decision import decide, trade_offs
from frostline.search.limits import fitting_time
from frostline.search.planning import Inputs, measure_for_plans, plans_within, states_of_any_plan, time_steps
from frostline.search.run_result import Run
from frostline.search.successive_halving import Entry, Race, Trials, race
from frostline.stats.intervals import compare, interval
from frostline.tasks import Task
from frostline.training.loop import judge
from frostline.training.result import Tuned
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, Materials
from frostline.trials.make_executor import MakeExecutor
from frostline.trials.results import decode_outputs, make_spec
from frostline.trials.run_trial import model_of
from frostline.trials.store import Store

_STORE, _IDENTITY, _SCORES, _SPEED, _SPENT = "store.sqlite", "run.json", "scores.json", "speed.json", "spent.json"
_BEFORE_RACE = "before_race.json"
_KEPT = "kept"
_OVER = ".finished"  # the work folder of a finished run, until it is removed
_CHOICE = "the choice"

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
        if self.work_folder.is_dir() and before != identity:
            other = before if isinstance(before, dict) else {}
            different = [name for name, value in identity.items() if other.get(name) != value]
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
            "device": encoder.device.type,
        }

    def _search(self, shared: SharedInputs, costs: Costs) -> Run:
        clock = _Clock(self.work_folder / _SPENT, self.progress)
        task, seed = self.inputs.task, self.inputs.recipe.seed
        keep = states_of_any_plan(costs, self.inputs.encoder.depth)
        measure = partial(measure_for_plans, self.inputs, shared=shared, keep=keep, progress=self.progress)
        scores = self._once(_SCORES, LayerScores, measure)
        clock.lap("measuring")
        costs = costs.at(self._once(_SPEED, Speed, partial(time_steps, self.inputs, costs, self.progress)))
        proposals, notes = plans_within(scores, costs, self.inputs)
        clock.lap("planning")
        shared.freeze(costs.frozen_at(proposal.plan for proposal in proposals), ["train", "validation"])
        clock.lap("frozen states")
        proposals, late_notes, deadline = self._fit_time(proposals, clock)
        notes += late_notes
        for note in notes:
            logger.info("note: %s", note)
        context = self._context(shared)
        executor = self.make_executor(context.materials, context)
        with Store(self.work_folder / _STORE) as store, contextlib.closing(executor):
            trials = Trials(shared=shared, store=store, executor=executor)
            outcome = race(trials, proposals, self.inputs.recipe, deadline=deadline, progress=clock.progress)
            clock.lap("race")
            if not outcome.rungs:
                raise OptionError(f"every trial failed: {'; '.join(outcome.failed[:3])}; try a lower `learning_rate`")
            decision = decide(outcome, task, self.inputs.budget, depth=self.inputs.encoder.depth, seed=seed)
            tests, tuned = self._test(context, shared, costs, outcome, decision)
            clock.lap("testing")
        record = RunRecord(
            encoder=scores.encoder,
            task=scores.task,
            plan=tuned.plan,
            recipe=tuned.recipe,
            budget=self.inputs.budget,
            decision=decision,
            given_up=trade_offs(task, outcome, decision, tests, seed=seed),
            tests=tuple(tests),
            race=tuple(tuple(entry.record for entry in rung) for rung in outcome.rungs),
            failed=outcome.failed,
            proposals=tuple(proposals),
            notes=tuple(dict.fromkeys([*notes, *outcome.notes, *tuned.notes, *shared.notes])),
            seconds=clock.laps,
            validation_rows=len(task.validation or ()),
        )
        result = Run(record=record, scores=scores, race=outcome, tuned=tuned, folder=self.folder, announced=len(notes))
        self._save(result)
        return result

    def _context(self, shared: SharedInputs) -> Context:
        """Return the context of the trials; in this process they share the tokens and states that exist already."""
        encoder, task = self.inputs.encoder, self.inputs.task
        materials = Materials(
            encoders={encoder.revision: self.source},
            tasks={task.fingerprint: task},
            folder=self.work_folder,
            kept=self.work_folder / _KEPT,
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

    def _fit_time(self, proposals: list[Proposal], clock: _Clock) -> tuple[list[Proposal], list[str], float | None]:
        """Return the plans whose race fits the time limit, notes on the others, and when to stop starting trials."""
        minutes, notes = self.inputs.budget.minutes, []
        if minutes is None:
            return proposals, [], None
        # A continued run races the plans that it began with, whatever time is left of them.
        before = atomic.read_json(self.work_folder / _BEFORE_RACE, default=None) or clock.total
        atomic.write_json(self.work_folder / _BEFORE_RACE, before)
        if before >= 60 * minutes:
            notes.append(f"the {minutes:g}-minute limit was used up before the race; taking the cheapest plan")
        kept, more = fitting_time(proposals, 60 * minutes - before)
        return kept, [*notes, *more], time.monotonic() + 60 * minutes - clock.total

    def _test(
        self, context: Context, shared: SharedInputs, costs: Costs, outcome: Race, decision: Decision
    ) -> tuple[list[Judged], Tuned]:
        """Judge the choice and the baselines on the test rows, which are read here and nowhere else."""
        chosen = outcome.entry(decision.chosen)
        if self.inputs.task.test is None:
            return [], model_of(context, chosen.spec)
        tested = {_CHOICE: chosen, **{name: outcome.entry(trial) for name, trial in outcome.baselines.items()}}
        shared.freeze(costs.frozen_at(entry.proposal.plan for entry in tested.values()), ["test"])
        others = {entry.spec.id: entry for entry in tested.values() if entry.spec.id != chosen.spec.id}
        outputs = {trial: _test_outputs(model_of(context, entry.spec), shared) for trial, entry in others.items()}
        tuned = model_of(context, chosen.spec)  # last, so that one model is in memory at a time
        outputs[chosen.spec.id] = _test_outputs(tuned, shared)
        judged = [self._judge(name, entry, chosen, outputs) for name, entry in tested.items()]
        task = self.inputs.task
        more = {name: shared.examples(tuned.tunable, name).outputs(tuned.tunable) for name in task.more_tests}
        metrics = {name: judge(out, torch.tensor(task.more_tests[name].labels), task.metrics, task.kind)
                   for name, out in more.items()}  # fmt: skip
        tuned = replace(
            tuned,
            metrics={**tuned.metrics, "test": judged[0].metrics, **metrics},
            outputs={**tuned.outputs, "test": outputs[chosen.spec.id], **more},
        )
        return judged, tuned

    def _judge(self, name: str, entry: Entry, chosen: Entry, outputs: Mapping[str, torch.Tensor]) -> Judged:
        """Return how good one model is on the test rows, and how much better the choice is."""
        task, rows, seed = self.inputs.task, self.inputs.task.test, self.inputs.recipe.seed
        assert rows is not None  # noqa: S101 (asked only where there are test rows)
        own, choice = (decode_outputs(outputs[trial.spec.id], task.kind) for trial in (entry, chosen))
        metric, groups = task.metrics[0], rows.groups
        low, high = interval(rows.labels, own, metric, groups=groups, seed=seed)
        difference = (
            compare(rows.labels, choice, own, metric, groups=groups, seed=seed) if entry is not chosen else None
        )
        return Judged(
            name=name,
            trial=entry.spec.id,
            metrics=judge(outputs[entry.spec.id], torch.tensor(rows.labels), task.metrics, task.kind),
            low=low,
            high=high,
            choice_minus_it=difference,
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
            finish=self.finish,
        )
        # Renamed first: killed in the middle of removing, a finished run must not look like an interrupted one.
        self.work_folder.rename(self.folder / _OVER)
        shutil.rmtree(self.folder / _OVER, ignore_errors=True)


def _test_outputs(tuned: Tuned, shared: SharedInputs) -> torch.Tensor:
    return shared.examples(tuned.tunable, "test").outputs(tuned.tunable)


class _Clock:
    """Seconds by stage and in all, with those from before an interruption, which a file holds."""

    def __init__(self, file: Path, progress: Progress) -> None:
        self.laps: dict[str, float] = {}
        self._file, self._progress, self._before = file, progress, float(atomic.read_json(file, default=None) or 0)
        self._started = self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now
        self._write()

    def _write(self) -> None:
        """Write the time that has passed, for a run that is interrupted now."""
        atomic.write_json(self._file, round(self.total, 3))

    def progress(self, step: Step) -> None:
        """Write the time after every trial of the race, and show its progress."""
        if step.table is not None:
            self._write()
        self._progress(step)

    @property
    def total(self) -> float:
        return self._before + time.perf_counter() - self._started
