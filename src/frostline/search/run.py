"""Run: from a labelled file to a tuned model, choosing the layers itself.

Everything that is not finished lies in one folder inside the run's own, so that a run that was stopped goes on where it
was, and a finished one is moved into place as a whole.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from frostline.costs.cost import Costs
from frostline.costs.timing import Speed, calibrate
from frostline.costs.workload import workload
from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.errors import DataError, OptionError, UserError
from frostline.files import folders
from frostline.prediction.export import save
from frostline.records import LayerScores, Recipe
from frostline.report import write_report
from frostline.search.decision import Decision, decide
from frostline.search.limits import Budget, check_limits, fitting_time
from frostline.search.planning import measure_for_plans, plans_within, task_or_example
from frostline.search.run_result import Judged, Run
from frostline.search.successive_halving import Entry, Race, Tell, race
from frostline.stats.intervals import compare, interval
from frostline.tasks import Task
from frostline.training.execution import use_threads
from frostline.training.loop import Report, judge
from frostline.training.result import Tuned
from frostline.training.shared_inputs import Workshop
from frostline.trials.in_process import InProcess, guesses
from frostline.trials.store import Store

DEFAULT_OUTPUT = "frostline-run"
_STORE, _IDENTITY, _SCORES, _SPEED, _SPENT = "store.sqlite", "run.json", "scores.json", "speed.json", "spent.json"
_BEFORE_RACE = "before_race.json"
_OVER = ".finished"  # what lay there while it ran, on its way out
_CHOICE = "the choice"
Announce = Callable[[str], None]


def run(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    output: str | Path = DEFAULT_OUTPUT,
    overwrite: bool = False,
    budget: Budget | None = None,
    recipe: Recipe | None = None,
    allow_frostline_only: bool = False,
    cache: bool = True,
    report: Report | None = None,
    announce: Announce | None = None,
    tell: Tell | None = None,
) -> Run:
    """Measure an encoder on a task, race plans, tune the winner and save it with the evidence.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        output: folder for the model, the page and all that was found; a run that was stopped there goes on.
        overwrite: replace what an earlier run left in that folder.
        budget: limits and goal; None for the cheapest plan within one point of the best.
        recipe: epochs, batch and so on of a complete trial; a learning rate in it is every plan's.
        allow_frostline_only: let plans take part whose models transformers alone cannot load.
        cache: keep frozen states on disk.
        report: told how far things are.
        announce: told what happens, a line each.
        tell: told how the race stands.
    """
    folder, recipe, budget = Path(output), recipe or Recipe(), budget or Budget()
    folders.check_output(
        folder, overwrite=overwrite, resume=(folder / folders.CHECKPOINTS).is_dir() and not overwrite, is_run=True
    )
    task = task if isinstance(task, Task) else task_or_example(task, seed=recipe.seed)
    check_task(task)
    encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    with use_threads(recipe.threads):
        recipe = replace(recipe, threads=torch.get_num_threads())
        running = _Running(
            folder=folder,
            encoder=encoder,
            task=task,
            recipe=recipe,
            budget=budget,
            allow_frostline_only=allow_frostline_only,
            cache=cache,
            report=report or (lambda what, done, total: None),
            announce=announce or (lambda line: None),
            tell=tell,
        )
        check_limits(running.costs, budget)
        running.claim(overwrite=overwrite)
        try:
            return running.all()
        except UserError:
            running.give_up()
            raise


def check_task(task: Task) -> None:
    """Refuse a task that no choice can be made on."""
    if task.validation is None:
        raise DataError(f"{task.name}: has no validation rows, and plans are chosen on them; give --validation")


@dataclass(kw_only=True)
class _Running:
    """A run that is going on."""

    folder: Path
    encoder: Encoder
    task: Task
    recipe: Recipe
    budget: Budget
    allow_frostline_only: bool
    cache: bool
    report: Report
    announce: Announce
    tell: Tell | None

    @cached_property
    def workshop(self) -> Workshop:
        """The encoder and the task, with what is computed once for all trials."""
        return Workshop(
            self.encoder,
            self.task,
            max_length=self.recipe.max_length,
            dtype=self.recipe.cache_dtype,
            keep=self.cache,
            report=self.report,
        )

    @cached_property
    def costs(self) -> Costs:
        """What plans cost."""
        return Costs(self.encoder.config, workload(self.workshop), self.recipe)

    @property
    def place(self) -> Path:
        """Where everything lies until the run is over."""
        return self.folder / folders.CHECKPOINTS

    def claim(self, *, overwrite: bool) -> None:
        """Start in the folder, or go on with the run that was stopped there; refuse another one's."""
        # What measuring depends on; trials know themselves what they depend on, so that limits and rates may change.
        mine = {
            "model": self.encoder.revision,
            "data": self.task.fingerprint,
            "metric": list(self.task.metrics),
            "maximum length": self.recipe.max_length,
            "threads": self.recipe.threads,
            "seed": self.recipe.seed,
            "device": self.encoder.device.type,
        }
        if overwrite:
            shutil.rmtree(self.place, ignore_errors=True)
        shutil.rmtree(self.folder / _OVER, ignore_errors=True)
        known = _read_json(self.place / _IDENTITY)
        if known is None and not (self.place / _STORE).exists():
            shutil.rmtree(self.place, ignore_errors=True)  # a run that was stopped before it had begun
        if self.place.is_dir() and known != mine:
            there = known if isinstance(known, dict) else {}
            others = [name for name, value in mine.items() if there.get(name) != value]
            raise OptionError(
                f"{self.folder}: holds a run that was stopped and had other {' and '.join(others)}; say "
                "--overwrite to start anew, or give another --output"
            )
        if known is not None:
            self.announce(f"going on with the run that was stopped in {self.folder}")
        self.place.mkdir(parents=True, exist_ok=True)
        folders.write_json(self.place / _IDENTITY, mine)

    def give_up(self) -> None:
        """Leave nothing behind where the mistake was found before anything was."""
        if not (self.place / _SCORES).exists():
            shutil.rmtree(self.place, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.folder.rmdir()  # only if nothing else is there

    def all(self) -> Run:
        """Everything, from measuring to saving."""
        clock = _Clock(self.place / _SPENT)
        workshop, costs = self.workshop, self.costs
        scores = self._measure()
        clock.lap("measuring")
        costs.speed = self._speed(costs)
        proposals, notes = plans_within(scores, costs, self.budget, allow_frostline_only=self.allow_frostline_only)
        clock.lap("planning")
        workshop.freeze(costs.frozen_at(one.plan for one in proposals), ["train", "validation"])
        clock.lap("frozen states")
        deadline = None
        if self.budget.minutes is not None:
            # A run that goes on races the plans that it began with, whatever time is left of them.
            before = _read_json(self.place / _BEFORE_RACE) or clock.total
            folders.write_json(self.place / _BEFORE_RACE, before)
            if before >= 60 * self.budget.minutes:
                notes.append(f"--minutes {self.budget.minutes:g} are over before the race: the cheapest plan is taken")
            proposals, more = fitting_time(proposals, 60 * self.budget.minutes - before)
            notes += more
            deadline = time.monotonic() + 60 * self.budget.minutes - clock.total
        for note in notes:
            self.announce(f"note: {note}")
        with Store(self.place / _STORE) as store:
            executor = InProcess(workshop, store, report=self.report, done=lambda spec, result: clock.note())
            found = race(executor, proposals, self.recipe, deadline=deadline, tell=self.tell)
            clock.lap("race")
            if not found.rungs:
                raise OptionError(f"every trial failed: {'; '.join(found.failed[:3])}; try a lower --learning-rate")
            decision = decide(found, self.task, self.budget, depth=self.encoder.depth, seed=self.recipe.seed)
            tests, tuned = self._test(executor, found, decision)
            clock.lap("testing")
        made = Run(
            scores=scores,
            proposals=tuple(proposals),
            race=found,
            decision=decision,
            tests=tuple(tests),
            tuned=tuned,
            budget=self.budget,
            notes=tuple(dict.fromkeys([*notes, *found.notes, *tuned.notes, *workshop.notes])),
            announced=len(notes),
            seconds=clock.laps,
            folder=self.folder,
        )
        self._save(made)
        return made

    def _measure(self) -> LayerScores:
        """Measured now, or by the run that was stopped."""
        known = _read_json(self.place / _SCORES)
        if known is not None:
            return LayerScores.from_json(known)
        scores = measure_for_plans(self.encoder, self.task, self.recipe, report=self.report)
        folders.write_json(self.place / _SCORES, scores.to_json())
        return scores

    def _speed(self, costs: Costs) -> Speed:
        known = _read_json(self.place / _SPEED)
        if known is not None:
            return Speed(**known)
        self.report("timing a few steps", 0, 1)
        speed = calibrate(self.encoder, costs, max_memory=self.budget.max_memory)
        folders.write_json(self.place / _SPEED, asdict(speed))
        return speed

    def _test(self, executor: InProcess, found: Race, decision: Decision) -> tuple[list[Judged], Tuned]:
        """The choice and the baselines on the test rows, which are read here and nowhere else."""
        chosen, task = decision.chosen, self.task
        if task.test is None:
            return [], executor.model(chosen.spec)
        by_id = {entry.spec.id: entry for entry in found.final}
        wanted = {_CHOICE: chosen, **{name: by_id[trial] for name, trial in found.baselines.items()}}
        executor.workshop.freeze(self.costs.frozen_at(entry.proposal.plan for entry in wanted.values()), ["test"])
        outputs = {}
        each = {entry.spec.id: entry for entry in wanted.values()}
        for entry in sorted(each.values(), key=lambda entry: entry is chosen):  # one in memory at a time
            tuned = executor.model(entry.spec)
            outputs[entry.spec.id] = executor.workshop.examples(tuned.tunable, "test").outputs(tuned.tunable)
        judged = [self._judge(name, entry, chosen, outputs) for name, entry in wanted.items()]
        tuned = replace(
            tuned,
            metrics={**tuned.metrics, "test": judged[0].metrics},
            outputs={**tuned.outputs, "test": outputs[chosen.spec.id]},
        )
        return judged, tuned

    def _judge(self, name: str, entry: Entry, chosen: Entry, outputs: Mapping[str, torch.Tensor]) -> Judged:
        """How good one model is on the test rows, and how much better the choice is."""
        task, rows = self.task, self.task.test
        assert rows is not None  # noqa: S101 (asked only where there are test rows)
        said = {trial: guesses(found, task.kind) for trial, found in outputs.items()}
        metric, mine = task.metrics[0], said[entry.spec.id]
        low, high = interval(rows.labels, mine, metric, groups=rows.groups, seed=self.recipe.seed)
        difference = None
        if entry is not chosen:
            best = said[chosen.spec.id]
            difference = compare(rows.labels, best, mine, metric, groups=rows.groups, seed=self.recipe.seed)
        return Judged(
            name=name,
            entry=entry,
            metrics=judge(outputs[entry.spec.id], torch.tensor(rows.labels), task.metrics, task.kind),
            low=low,
            high=high,
            choice_minus_it=difference,
        )

    def _report(self, folder: Path) -> None:
        """Write the page; trouble with it must not take the model away."""
        try:
            write_report(folder)
        except Exception as error:
            self.announce(f"note: the report was not written ({error}); `frostline report {self.folder}` tries again")

    def _save(self, made: Run) -> None:
        # Copies are handed over: with the store itself, a run that is stopped while it saves would lose its trials.
        copies = self.place / "copies"
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir()
        with Store(self.place / _STORE) as store:
            store.copy_to(copies / _STORE)
        save(
            made.tuned,
            self.folder,
            kind="run",
            files={"scores.json": made.scores.to_json(), "run.json": made.to_json()},
            moved=[copies / _STORE],
            finish=self._report,
        )
        # Renamed first: stopped in the middle of removing, a finished run must not look like one to go on with.
        self.place.rename(self.folder / _OVER)
        shutil.rmtree(self.folder / _OVER, ignore_errors=True)


class _Clock:
    """Seconds by stage, and in all: with those that a run took before it was stopped, which a file says."""

    def __init__(self, file: Path) -> None:
        self.laps: dict[str, float] = {}
        self._file, self._before = file, float(_read_json(file) or 0)
        self._started = self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now
        self.note()

    def note(self) -> None:
        """Take down how long it has been, for a run that is stopped here."""
        folders.write_json(self._file, round(self.total, 3))

    @property
    def total(self) -> float:
        return self._before + time.perf_counter() - self._started


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
