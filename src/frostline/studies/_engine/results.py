"""The results in a folder: its tables, and its trials as one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from frostline.errors import OptionError, RecordError, UserError
from frostline.files.atomic import write_json, write_text
from frostline.files.output_folder import CHECKPOINTS, check_file
from frostline.records import TrialResult, TrialSpec
from frostline.records._json import read_file
from frostline.records.folder import FolderInfo
from frostline.records.study import StudyProgress, StudySpec
from frostline.records.table import Cell, Table, table_of
from frostline.trials.store import Store
from frostline.trials.tables import failures_table

SPECIFICATION, STORE, TABLES_FILE, PROGRESS = "study.json", "store.sqlite", "tables.json", "progress.json"


def read_tables(folder: Path) -> list[Table]:
    """Return the tables of a finished study; empty if the folder has none."""
    _find_store(folder)
    path = folder / TABLES_FILE
    if not path.exists():
        return []
    try:
        return list(read_file(tuple[Table, ...], path))
    except (OSError, RecordError) as error:
        problem = f"{path}: cannot be read ({error.strerror})" if isinstance(error, OSError) else error
        raise UserError(f"{problem}; delete it, and run the study again") from None


def read_trials(folder: Path) -> Table:
    """Return a table with a row for every trial in the folder's store."""
    with Store(_find_store(folder), for_reading=True) as store:
        records = [_record(spec, result) for spec, result in store]
    return table_of("trials", f"{len(records)} trial{'' if len(records) == 1 else 's'}", records)


def read_failures(folder: Path) -> Table:
    """Return a table with a row for every trial that failed, with its cause, its reason and its traceback."""
    with Store(_find_store(folder), for_reading=True) as store:
        return failures_table(store.failures())


def describe_unfinished(folder: Path) -> str | None:
    """Return one line on the rest of a running or interrupted study; None for a finished one."""
    if not (folder / SPECIFICATION).is_file():
        return None
    has_tables = (folder / TABLES_FILE).is_file()
    try:
        progress = StudyProgress.from_file(folder / PROGRESS)
        done = f": {progress.done} of {progress.total} trials are done"
    except (OSError, RecordError):
        done = ""
    if not done and has_tables and not _lacks_seeds(folder):
        return None
    state = "has no tables yet"
    if done or has_tables:
        state = f"is not finished{done}{'; its tables are older' if has_tables else ''}"
    return f"this study {state}; run the same `frostline study` command to continue it"


def _lacks_seeds(folder: Path) -> bool:
    """Whether the tables have fewer seeds than the specification."""
    try:
        asked, made = StudySpec.from_file(folder / SPECIFICATION), FolderInfo.from_file(folder / "frostline.json")
    except (OSError, RecordError):
        return False
    return made.seeds is not None and asked.seeds != made.seeds


def write_trials(folder: Path, path: Path) -> int:
    """Write the trials to a CSV, JSON or Parquet file, and return their number.

    All formats have every digit and every setting; JSON also has predictions, histories and curves.
    """
    check_file(path, "export", (".csv", ".json", ".parquet"))
    shared = _shared_columns(folder)
    with Store(_find_store(folder), for_reading=True) as store:
        trials = list(store)
    if path.suffix == ".json":
        write_json(path, [{"id": spec.id, **shared, **spec.to_json(), "result": result.to_json()}
                          for spec, result in trials])  # fmt: skip
        return len(trials)
    records = [_record(spec, result) | shared | _further_columns(spec, result) for spec, result in trials]
    table = table_of("trials", f"{len(records)} trials", records, rounds=False)
    if path.suffix == ".csv":
        write_text(path, table.to_csv())
    else:
        import pandas as pd

        pd.DataFrame(table.records(), columns=list(table.columns)).to_parquet(path, index=False)
    return len(table.rows)


def _find_store(folder: Path) -> Path:
    """Return the folder's trial database; raise if there is none."""
    if folder.is_file():
        raise OptionError(f"{folder}: is a file; give the folder of a study or a run")
    if not folder.is_dir():
        raise OptionError(f"{folder}: there is no such folder; give the folder of a study or a run")
    # An interrupted run keeps its trials among its checkpoints.
    for path in (folder / STORE, folder / CHECKPOINTS / STORE):
        if path.is_file():
            return path
    raise OptionError(f"{folder}: contains no trials; give the folder of a study or a run")


def _record(spec: TrialSpec, result: TrialResult) -> dict[str, Cell]:
    recipe = spec.recipe
    metrics = {f"{split}_{name}": value for split, values in result.metrics.items() for name, value in values.items()}
    return {
        "id": spec.id,
        "encoder": spec.encoder.name,
        "task": spec.task.name,
        "kind": spec.kind,
        "plan": str(spec.plan),
        "method": spec.plan.method,
        "surgery": _short(spec.surgery),
        "options": _short(spec.options),
        "rows": spec.train_rows,
        "learning_rate": recipe.learning_rate,
        "epochs": recipe.epochs if recipe.steps is None else None,
        "steps": recipe.steps,
        "seed": recipe.seed,
        "status": result.status,
        "reason": result.reason,
        **metrics,
        **result.parameters,
        "seconds": sum(result.seconds.values()),
    }


def _further_columns(spec: TrialSpec, result: TrialResult) -> dict[str, Cell]:
    """Return what is too much for a screen: the rest of the recipe, the exact encoder and data, timings, versions."""
    shown = {"learning_rate", "epochs", "steps", "seed"}
    recipe = {name: value for name, value in spec.recipe.to_json().items() if name not in shown}
    return {
        "revision": spec.encoder.revision,
        "fingerprint": spec.task.fingerprint,
        "plan_options": _short(spec.plan.options),
        **recipe,
        **{f"seconds_{name.replace(' ', '_')}": value for name, value in result.seconds.items()},
        "versions": _short(result.versions),
    }


def _shared_columns(folder: Path) -> dict[str, Cell]:
    """Return what holds for every trial of a study: its protocol."""
    try:
        protocol = StudySpec.from_file(folder / SPECIFICATION).protocol
    except (OSError, RecordError):  # a run
        return {}
    return {} if protocol is None else {"protocol": protocol}


def _short(value: Any) -> str:
    return json.dumps(dict(value), sort_keys=True) if value else ""
