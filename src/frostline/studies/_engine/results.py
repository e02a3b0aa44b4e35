"""What a folder has recorded: its tables, and its trials as one table with a row each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from frostline.errors import OptionError, RecordError, UserError
from frostline.files.atomic import write_json, write_text
from frostline.files.output_folder import check_file
from frostline.records import TrialResult, TrialSpec
from frostline.records._json import read_file
from frostline.records.folder import FolderInfo
from frostline.records.study import StudyProgress, StudySpec
from frostline.records.table import Cell, Table, table_of
from frostline.trials.store import Store

SPECIFICATION, STORE, TABLES, PROGRESS = "study.json", "store.sqlite", "tables.json", "progress.json"


def read_tables(folder: Path) -> list[Table]:
    """The tables of a finished study; none where the folder has no such."""
    _check(folder)
    place = folder / TABLES
    if not place.exists():
        return []
    try:
        return list(read_file(tuple[Table, ...], place))
    except (OSError, RecordError) as error:
        problem = f"{place}: cannot be read ({error.strerror})" if isinstance(error, OSError) else error
        raise UserError(f"{problem}; move it away, and run the study again to write it anew") from None


def read_trials(folder: Path) -> Table:
    """Every trial of the folder's store, a row each."""
    with Store(_check(folder), for_reading=True) as store:
        records = [_record(spec, result) for spec, result in store]
    return table_of("trials", f"{len(records)} trial{'' if len(records) == 1 else 's'}", records)


def describe_unfinished(folder: Path) -> str | None:
    """What a study that is going on, or was stopped, still has to do, in a line; None for what is over."""
    if not (folder / SPECIFICATION).is_file():
        return None
    try:
        progress = StudyProgress.from_file(folder / PROGRESS)
        far = f": {progress.done} of {progress.total} trials are done"
    except (OSError, RecordError):
        far = ""
    if not far and (folder / TABLES).is_file() and not _has_been_asked_for_more(folder):
        return None
    if not far and not (folder / TABLES).is_file():
        return "this study has no tables yet; the same `frostline study` command goes on with it"
    older = "; the tables are from before" if (folder / TABLES).is_file() else ""
    return f"this study is not finished{far}{older}; the same `frostline study` command goes on with it"


def _has_been_asked_for_more(folder: Path) -> bool:
    """Whether the tables of a study are of fewer seeds than it has been asked for since."""
    try:
        asked, made = StudySpec.from_file(folder / SPECIFICATION), FolderInfo.from_file(folder / "frostline.json")
    except (OSError, RecordError):
        return False
    return made.seeds is not None and asked.seeds != made.seeds


def write_trials(folder: Path, path: Path) -> int:
    """Write the trials to a CSV, JSON or Parquet file, and say how many there are.

    All have every digit and all that a trial was told; JSON has its predictions, histories and curves too.
    """
    check_file(path, "export", (".csv", ".json", ".parquet"))
    told = _of_all_trials(folder)
    if path.suffix == ".json":
        with Store(_check(folder), for_reading=True) as store:
            whole = [{"id": spec.id, **told, **spec.to_json(), "result": result.to_json()} for spec, result in store]
        write_json(path, whole)
        return len(whole)
    with Store(_check(folder), for_reading=True) as store:
        records = [_record(spec, result) | told | _besides(spec, result) for spec, result in store]
    table = table_of("trials", f"{len(records)} trials", records, rounds=False)
    if path.suffix == ".csv":
        write_text(path, table.to_csv())
    else:
        import pandas as pd

        pd.DataFrame(table.records(), columns=list(table.columns)).to_parquet(path, index=False)
    return len(table.rows)


def _check(folder: Path) -> Path:
    """The folder's store, or a line about why there is none."""
    if folder.is_file():
        raise OptionError(f"{folder}: is a file; give the folder of a study or a run")
    if not folder.is_dir():
        raise OptionError(f"{folder}: there is no such folder")
    if not (folder / STORE).is_file():
        raise OptionError(f"{folder}: holds no trials; give the folder of a study or a run")
    return folder / STORE


def _record(spec: TrialSpec, result: TrialResult) -> dict[str, Cell]:
    recipe = spec.recipe
    record: dict[str, Cell] = {
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
    }
    for split, metrics in result.metrics.items():
        record |= {f"{split}_{name}": value for name, value in metrics.items()}
    record |= dict(result.parameters)
    record["seconds"] = sum(result.seconds.values())
    return record


def _besides(spec: TrialSpec, result: TrialResult) -> dict[str, Cell]:
    """What is too much for a screen: the whole recipe, the exact encoder and data, timings and versions."""
    told = {"learning_rate", "epochs", "steps", "seed"}
    recipe = {name: value for name, value in spec.recipe.to_json().items() if name not in told}
    return {
        "revision": spec.encoder.revision,
        "fingerprint": spec.task.fingerprint,
        "plan_options": _short(spec.plan.options),
        **recipe,
        **{f"seconds_{name.replace(' ', '_')}": value for name, value in result.seconds.items()},
        "versions": _short(result.versions),
    }


def _of_all_trials(folder: Path) -> dict[str, Cell]:
    """What holds for every trial of a study: whether the rows that it reports were selected on."""
    try:
        protocol = StudySpec.from_file(folder / SPECIFICATION).protocol
    except (OSError, RecordError):  # a run
        return {}
    return {} if protocol is None else {"protocol": protocol}


def _short(value: Any) -> str:
    return json.dumps(dict(value), sort_keys=True) if value else ""
