"""Run one of the papers' experiments on encoders and tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from frostline.api._arguments import to_encoder
from frostline.encoders.encoder import Encoder
from frostline.errors import DataError, OptionError
from frostline.progress import Progress, logger, silent
from frostline.records import Recipe
from frostline.records.compute import Compute
from frostline.studies import STUDIES, Study
from frostline.studies._engine.folder import check_folder, lock_folder, write_specification
from frostline.studies._engine.run import Studied, StudyRun
from frostline.tasks import Task, load_task, sample
from frostline.tasks.columns import guesses_in_words
from frostline.trials.context import Context, Materials
from frostline.trials.executors import Executor
from frostline.trials.make_executor import MakeExecutor, make_executor, source_of

QUICK_ROWS = 300


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Encoders, tasks and settings of a study; the paper's by default.

    Args:
        encoders: Encoders, folders, hub ids, or None for the embedded default.
        tasks: Tasks, files or preset names; the study's default tasks if empty.
        seeds: number of seeds.
        rows: most training rows.
        quick: run a small version in minutes: few trials, 300 rows.
        options: options of the study.
        recipe: fields of the recipe that differ from the paper's.
        metric: metric that decides on every task; by default each task's own.
        protocol: 'held-out' selects on validation and reads the test rows once; 'paper' selects on the test rows.
        margin: the largest loss in the metric, in points, that the tables count as small.
        columns: for files, 'text', 'text_pair', 'label' and 'kind' as in `load_task`; guessed by default.
        data_dir: folder with the official files of presets.

    Example:
        >>> options = frostline.StudyOptions(tasks=["reviews.csv"], seeds=3, recipe={"epochs": 2})
        >>> options.protocol
        'held-out'
    """

    encoders: Sequence[Encoder | str | Path | None] = (None,)
    tasks: Sequence[Task | str | Path] = ()
    seeds: int | None = None
    rows: int | None = None
    quick: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None
    protocol: str = "held-out"
    margin: float = 1.0
    columns: Mapping[str, str | None] = field(default_factory=dict)
    data_dir: str | Path | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise OptionError(f"seeds {self.seeds}: must be 1 or more")
        if self.rows is not None and self.rows < 1:
            raise OptionError(f"rows {self.rows}: must be 1 or more")
        if not 0 < self.margin < inf:
            raise OptionError(f"margin {self.margin:g}: must be above 0, and finite")

    def load_encoders(self, device: str) -> tuple[Encoder, ...]:
        """Return the encoders, loaded."""
        encoders = tuple(to_encoder(encoder, device=device) for encoder in self.encoders)
        for identities in ([encoder.revision for encoder in encoders], [encoder.name for encoder in encoders]):
            _refuse_twins(identities, "encoder")  # tables tell them apart by their names
        return encoders

    def load_tasks(self, study: Study) -> tuple[Task, ...]:
        """Return the tasks, loaded."""
        names = tuple(self.tasks) or (study.quick_tasks if self.quick else study.tasks)
        tasks = tuple(self._load_task(name, study) for name in names)
        _refuse_twins([task.name for task in tasks], "task")
        for task in tasks:
            if task.guessed_columns:
                logger.info("%s: %s", task.name, guesses_in_words(task.guessed_columns))
        return tasks

    def _load_task(self, given: Task | str | Path, study: Study) -> Task:
        if isinstance(given, Task) and self.protocol != "held-out":
            raise OptionError(f"{given.name}: is loaded already; give the protocol {self.protocol!r} when loading it")
        if isinstance(given, Task) and self.metric is not None:
            raise OptionError(f"{given.name}: is loaded already; give the metric {self.metric!r} when loading it")
        columns: dict[str, Any] = {name: column for name, column in self.columns.items() if column is not None}
        metric = self.metric or study.metric_of(given)
        how: dict[str, Any] = {"protocol": self.protocol, "metric": metric, "data_dir": self.data_dir, **columns}
        task = given if isinstance(given, Task) else load_task(given, **how)
        if task.validation is None:
            raise DataError(f"{task.name}: has no validation rows, and studies choose on them")
        return _few_rows(task) if self.quick else task

    def asked_recipe(self, study: Study) -> dict[str, Any]:
        """Return the fields of the recipe that are set, by the user or for a quick look."""
        return {**(study.quick_recipe if self.quick else {}), **self.recipe}

    def given(self, study: Study) -> frozenset[str]:
        """Return what differs from the paper's defaults: 'seeds' and fields of the recipe."""
        has_seeds = self.quick or self.seeds is not None
        return frozenset([*self.asked_recipe(study), *(["seeds"] if has_seeds else [])])

    def base_recipe(self, study: Study) -> Recipe:
        """Return the recipe of every trial, before the study varies it."""
        asked = self.asked_recipe(study)
        by_steps = {"steps": None} if "epochs" in asked and "steps" not in asked else {}  # the user's wish goes first
        return Recipe(**{"threads": 1, **study.recipe, **by_steps, **asked})


def study(
    name: str,
    options: StudyOptions | None = None,
    *,
    output: str | Path | None = None,
    compute: Compute | None = None,
    executor: MakeExecutor | None = None,
    retry_failed: bool = False,
    cache: bool = True,
    estimate: bool = True,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Studied:
    """Repeat an experiment of the papers; trials that are recorded in the folder are not run again.

    Args:
        name: name of the study, one of `frostline.studies.STUDIES`.
        options: encoders, tasks and settings; the paper's by default.
        output: folder for trials and tables; 'frostline-study-NAME' by default.
        compute: where trials run; None for this process.
        executor: function that makes the executor of trials, instead of the one that `compute` describes.
        retry_failed: run failed trials again.
        cache: cache the output of frozen layers on disk.
        estimate: estimate the duration first, by timing a few steps.
        dry_run: only count the trials and estimate their duration, without tables.
        progress: progress callback.

    Example:
        >>> options = frostline.StudyOptions(tasks=["reviews.csv"], quick=True, seeds=1, options={"step": 6})
        >>> [table.name for table in frostline.study("freeze", options, output="freeze", estimate=False).tables]
        [...]
    """
    chosen, asked, compute = STUDIES[name], options or StudyOptions(), compute or Compute()
    settings = chosen.options({**(chosen.quick if asked.quick else {}), **asked.options})
    folder = check_folder(Path(output or f"frostline-study-{name}"))
    recipe, tasks = asked.base_recipe(chosen), asked.load_tasks(chosen)
    encoders = asked.load_encoders(compute.device)
    materials = _make_materials(chosen, asked, encoders, tasks, folder=folder, device=compute.device, cache=cache)
    loaded = {encoder.revision: encoder for encoder in encoders}
    context = Context(materials=materials, encoders=loaded, progress=progress)
    runs = (executor or partial(make_executor, compute))(materials, context)
    study_run = StudyRun(
        study=chosen,
        options=settings,
        folder=folder,
        encoders=encoders,
        tasks=tasks,
        seeds=asked.seeds or (chosen.quick_seeds if asked.quick else chosen.seeds),
        rows=QUICK_ROWS if asked.quick and asked.rows is None else asked.rows,
        recipe=recipe,
        margin=asked.margin,
        given=asked.given(chosen),
        device=runs.device,  # where trials really run
        workers=None if compute.on is not None else compute.workers,
        estimate=estimate,
        dry_run=dry_run,
        progress=progress,
    )
    with contextlib.closing(runs):
        return _run_in_folder(study_run, runs, retry_failed=retry_failed)


def _make_materials(
    study: Study,
    asked: StudyOptions,
    encoders: Sequence[Encoder],
    tasks: Sequence[Task],
    *,
    folder: Path,
    device: str,
    cache: bool,
) -> Materials:
    """Return where trials in this and other processes take encoders, tasks and files from."""
    return Materials(
        encoders={
            encoder.revision: source_of(given, encoder) for given, encoder in zip(asked.encoders, encoders, strict=True)
        },
        tasks={task.fingerprint: task for task in tasks},
        kinds=study.kinds,
        folder=folder,
        cache=cache,
        device=device,
    )


def _run_in_folder(run: StudyRun, executor: Executor, *, retry_failed: bool) -> Studied:
    """Run the study in its folder, unless another process does or the folder holds a different study."""
    with lock_folder(run.folder):
        write_specification(
            run.folder,
            run.specification(),
            defaults={**run.study.defaults, **run.study.before},
            varies=run.study.varies,
            only_looks=run.dry_run,
        )
        return run.run(executor, retry_failed=retry_failed)


def _few_rows(task: Task) -> Task:
    few = {name: sample(rows, QUICK_ROWS) for name, rows in task.splits.items() if name != "train"}
    return replace(
        task,
        validation=few.get("validation"),
        test=few.get("test"),
        more_tests={name: few[name] for name in task.more_tests},
        notes=(*task.notes, f"quick: at most {QUICK_ROWS} rows of each split"),
    )


def _refuse_twins(names: Sequence[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"{what} {name}: there are two of that name; give one of them, or rename its file")
