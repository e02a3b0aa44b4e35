"""Run a study: its trials, as far as they are missing, and its tables, in one folder that can be gone on with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.errors import DataError, OptionError
from frostline.records import Recipe
from frostline.studies import STUDIES
from frostline.studies._engine.folder import agree, check_folder, claimed
from frostline.studies._engine.run import Progress, StudyRun
from frostline.studies._engine.run import Studied as Studied
from frostline.tasks import Task, load_task, sample
from frostline.tasks.columns import guesses_in_words
from frostline.training.shared_inputs import Report
from frostline.trials.context import Bench, Materials
from frostline.trials.executors import Executor, Here, Processes

QUICK_ROWS = 300


def study(
    name: str,
    *,
    encoders: Sequence[Encoder | str | Path | None] = (None,),
    tasks: Sequence[Task | str | Path] = (),
    output: str | Path | None = None,
    seeds: int | None = None,
    rows: int | None = None,
    quick: bool = False,
    options: Mapping[str, Any] | None = None,
    recipe: Mapping[str, Any] | None = None,
    protocol: str = "held-out",
    margin: float = 1.0,
    columns: Mapping[str, str | None] | None = None,
    data_dir: str | Path | None = None,
    workers: int = 1,
    executor: Callable[[Materials], Executor] | None = None,
    retry_failed: bool = False,
    cache: bool = True,
    device: str = "cpu",
    estimate: bool = True,
    dry_run: bool = False,
    announce: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    within: Report | None = None,
) -> Studied:
    """Run one of the papers' experiments on encoders and tasks; what is recorded in the folder is not run again.

    Args:
        name: of the study, see `frostline study --list`.
        encoders: Encoders, folders, hub ids, or None for the embedded default.
        tasks: Tasks, files or preset names; none for the study's own.
        output: folder for trials and tables; 'frostline-study-NAME' if not given.
        seeds: how many; None for the paper's number.
        rows: training rows at most.
        quick: a first look: few trials, 300 rows, minutes.
        options: of the study.
        recipe: fields of the recipe that differ from the paper's.
        protocol: 'held-out' selects on validation and reads the test rows once; 'paper' selects on the test rows.
        margin: points of the metric that count as little to lose, in the tables.
        columns: of files: 'text', 'text_pair', 'label' and 'kind', as `load_task` takes them; guessed and said unless
            given.
        data_dir: the folder with official files, for presets.
        workers: processes that run trials; 0 where the executor decides.
        executor: runs the trials in place of processes on this machine.
        retry_failed: run trials again that have failed.
        cache: keep frozen states on disk.
        device: where to compute.
        estimate: time a few steps first, to say how long it will take.
        dry_run: say how many trials there are and how long they will take, and stop; there are no tables then.
        announce: told what happens, a line each.
        progress: told of every trial.
        within: told how far the trial is that runs, where trials run in this process.
    """
    chosen = STUDIES[name]
    tell = announce or (lambda line: None)
    settings = chosen.options({**(chosen.quick if quick else {}), **(options or {})})
    count = seeds if seeds is not None else chosen.quick_seeds if quick else chosen.seeds
    if count < 1:
        raise OptionError(f"seeds {count}: must be 1 or more")
    if rows is not None and rows < 1:
        raise OptionError(f"rows {rows}: must be 1 or more")
    if not 0 < margin < inf:
        raise OptionError(f"margin {margin:g}: must be above 0, and finite")
    if workers < (0 if executor is not None else 1):
        raise OptionError(f"--workers {workers}: must be 1 or more")
    folder = Path(output) if output is not None else Path(f"frostline-study-{name}")
    check_folder(folder)
    asked = {**(chosen.quick_recipe if quick else {}), **(recipe or {})}
    by_steps = {"steps": None} if "epochs" in asked and "steps" not in asked else {}  # what is asked for goes first
    base = Recipe(**{"threads": 1, **chosen.recipe, **by_steps, **asked})
    wanted = tuple(tasks) or (chosen.quick_tasks if quick else chosen.tasks)
    named = {name: column for name, column in (columns or {}).items() if column is not None}
    loaded_tasks = [_task(one, protocol=protocol, columns=named, data_dir=data_dir, quick=quick) for one in wanted]
    _refuse_twins([task.name for task in loaded_tasks], "task")
    for task in loaded_tasks:
        if task.guessed_columns:
            tell(f"{task.name}: {guesses_in_words(task.guessed_columns)}")
    loaded = [one if isinstance(one, Encoder) else load_encoder(one, device=device) for one in encoders]
    for names in ([encoder.revision for encoder in loaded], [encoder.name for encoder in loaded]):
        _refuse_twins(names, "encoder")  # tables tell them apart by their names
    materials = Materials(
        encoders={one.revision: _source(given, one) for given, one in zip(encoders, loaded, strict=True)},
        tasks={task.fingerprint: task for task in loaded_tasks},
        folder=folder,
        cache=cache,
        device=device,
    )
    going = StudyRun(
        study=chosen,
        options=settings,
        folder=folder,
        encoders=tuple(loaded),
        tasks=tuple(loaded_tasks),
        seeds=count,
        rows=QUICK_ROWS if quick and rows is None else rows,
        recipe=base,
        margin=margin,
        given=frozenset([*asked, *(["seeds"] if quick or seeds is not None else [])]),
        device=device,
        workers=workers,
        estimate=estimate,
        dry_run=dry_run,
        tell=tell,
        progress=progress or (lambda done, total, spec, result: None),
        within=within or (lambda what, done, total: None),
    )
    runs: Executor
    if executor is not None:
        runs = executor(materials)
    elif workers == 1:
        bench = Bench(materials=materials, encoders={one.revision: one for one in loaded})
        bench.report = going.within
        runs = Here(bench)
    else:
        runs = Processes(materials, workers)
    families = {encoder.name: encoder.family.name for encoder in loaded}  # for the colours of figures
    with claimed(folder), contextlib.closing(runs):
        going = replace(going, device=getattr(runs, "device", device))  # where trials really run
        agree(
            folder,
            going.specification(),
            defaults=chosen.defaults,
            aside={"families": families},
            varies=chosen.varies,
            only_looks=dry_run,
        )
        return going.all(runs, retry_failed=retry_failed)


def _task(
    given: Task | str | Path,
    *,
    protocol: str,
    columns: Mapping[str, str],
    data_dir: str | Path | None,
    quick: bool,
) -> Task:
    if isinstance(given, Task) and protocol != "held-out":
        raise OptionError(f"{given.name}: is loaded already; say protocol {protocol!r} when loading it")
    how: dict[str, Any] = {"protocol": protocol, "data_dir": data_dir, **columns}
    task = given if isinstance(given, Task) else load_task(given, **how)
    if task.validation is None:
        raise DataError(f"{task.name}: has no validation rows, and studies choose on them")
    if not quick:
        return task
    parts = {
        name: sample(rows, QUICK_ROWS) for name, rows in (("validation", task.validation), ("test", task.test)) if rows
    }
    return replace(task, **parts, notes=(*task.notes, f"quick: at most {QUICK_ROWS} rows of each split"))  # type: ignore[arg-type]


def _source(given: Encoder | str | Path | None, loaded: Encoder) -> str | None:
    """What other processes and machines load the encoder from: what was given, where that is a name or a folder."""
    if isinstance(given, Encoder):
        if loaded.folder is None:
            raise OptionError(f"{loaded.name}: was changed or made in memory; save it, and give the folder")
        return str(Path(loaded.folder).absolute())
    if given is None:
        return None
    return str(Path(given).absolute()) if Path(given).is_dir() else str(given)


def _refuse_twins(names: Sequence[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"{what} {name}: there are two of that name; give one of them, or rename its file")
