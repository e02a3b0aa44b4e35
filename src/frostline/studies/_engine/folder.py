"""The folder of a study: one process writes to it, and its specification does not change."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from frostline.errors import OptionError, RecordError, UserError
from frostline.files import atomic
from frostline.records.study import StudySpec
from frostline.studies._engine.results import SPECIFICATION, STORE
from frostline.trials.store import Store

_LOCK = ".lock"


def check_folder(folder: Path) -> Path:
    """Return the folder; raise if it is neither a study's folder nor empty."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; choose another `output`")
    is_study = (folder / SPECIFICATION).is_file() or not folder.exists()
    # Hidden files are a lock, or a file that was being written when a study was killed.
    if not is_study and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise OptionError(f"{folder}: is neither a study's folder nor empty; choose another `output`")
    if (folder / "tables").exists() and not (folder / "tables").is_dir():
        raise OptionError(f"{folder / 'tables'}: is a file where the tables go; move it, or choose another `output`")
    return folder


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder as the only process that writes to it."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{folder}: cannot be created ({error.strerror}); choose another `output`") from None
    try:
        # The system releases the lock when the process ends, for whatever reason.
        lock = FileLock(folder / _LOCK).acquire(blocking=False)
    except Timeout:
        raise UserError(f"{folder}: another process is running this study; wait for it, or stop it first") from None
    with lock:
        yield


def write_specification(
    folder: Path,
    asked: StudySpec,
    *,
    defaults: Mapping[str, Any],
    varies: Collection[str] = (),
    only_looks: bool = False,
) -> None:
    """Write the study's specification, or refuse a folder that contains a different one.

    More seeds are not a difference: the existing trials are part of them.

    Args:
        folder: the study's folder.
        asked: the specification.
        defaults: values of options in folders that do not have them: their defaults, unless those have changed.
        varies: settings that the paper varies unless the user sets them.
        only_looks: whether to leave a folder with trials unchanged.
    """
    path = folder / SPECIFICATION
    if path.exists():
        before = _read(path)
        if before.study != asked.study and _has_trials(folder):
            raise OptionError(f"{folder}: contains the study {before.study}; choose another `output`")
        before = _as_now(before, asked, defaults=defaults, varies=varies)
        differences = _differences(before, asked)
        has_more_seeds = asked.seeds > before.seeds and not _differences(replace(before, seeds=asked.seeds), asked)
        if differences and not has_more_seeds and _has_trials(folder):
            raise OptionError(
                f"{folder}: contains a study with another specification: {'; '.join(differences)}; "
                "use the same, or choose another `output`"
            )
        if not differences or (only_looks and _has_trials(folder)):
            return
    atomic.write_json(path, asked.to_json())


def _read(path: Path) -> StudySpec:
    try:
        return StudySpec.from_file(path)
    except RecordError as error:
        raise UserError(f"{error}; restore a copy of it, or choose another `output`") from None


def _as_now(before: StudySpec, asked: StudySpec, *, defaults: Mapping[str, Any], varies: Collection[str]) -> StudySpec:
    """Return a stored specification with today's fields, and with today's names for the same encoders and tasks."""
    given = asked.given if before.given is None else before.given
    rows = {fingerprint: (fingerprint, *metrics) for fingerprint, *metrics in before.tasks.values()}
    same_encoders = sorted(before.encoders.values()) == sorted(asked.encoders.values())
    same_rows = rows.keys() == {fingerprint for fingerprint, *_ in asked.tasks.values()}
    return replace(
        before,
        # An option that did not exist when the folder was written had its default, or the behaviour before it existed.
        options={**defaults, **before.options},
        given=tuple(sorted({*(given or ())} & {*varies})),  # it only matters where the paper varies the setting
        protocol=before.protocol or asked.protocol,
        device=before.device or asked.device,
        encoders=asked.encoders if same_encoders else before.encoders,  # under other paths
        tasks={name: rows[task[0]] for name, task in asked.tasks.items()} if same_rows else before.tasks,  # or names
        families=asked.families,
    )


def _has_trials(folder: Path) -> bool:
    """Whether there is anything to lose: a study that was refused, or whose trials all failed, has nothing."""
    if not (folder / STORE).exists():
        return False
    with Store(folder / STORE, for_reading=True) as store:
        return any(result.status == "done" for _, result in store)


def _differences(before: StudySpec, asked: StudySpec) -> list[str]:
    """Return the fields that differ, in words."""
    differences = _task_differences(before.tasks, asked.tasks, same_protocol=before.protocol == asked.protocol)
    there, here = before.to_json(), asked.to_json()
    for key in here:
        old, new = there[key], here[key]
        if key == "tasks":
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            for inner in dict.fromkeys([*old, *new]):
                if old.get(inner) != new.get(inner):
                    differences.append(f"{key} {inner} {_format(old.get(inner))} there, {_format(new.get(inner))} here")
        elif old != new:
            differences.append(f"{key} {_format(old)} there, {_format(new)} here")
    return differences


def _task_differences(
    stored: Mapping[str, Sequence[str]], asked: Mapping[str, Sequence[str]], *, same_protocol: bool
) -> list[str]:
    """Return the differences in tasks, their metrics and their rows.

    Another protocol, which is reported by itself, makes other rows from the same data.
    """
    if stored.keys() != asked.keys():
        return [f"tasks {', '.join(stored)} there, {', '.join(asked)} here"]
    differences = []
    for name, (fingerprint, *metrics) in asked.items():
        stored_fingerprint, *stored_metrics = stored[name]
        if stored_metrics != metrics:
            words = f"{', '.join(stored_metrics)} there, {', '.join(metrics)} here"
            differences.append(f"task {name} has the metrics {words}")
        if stored_fingerprint != fingerprint and same_protocol:
            differences.append(f"task {name} has other rows there")
    return differences


def _format(value: Any) -> str:
    text = json.dumps(value) if value is not None else "none"
    return text if len(text) <= 60 else f"{text[:57]}..."
