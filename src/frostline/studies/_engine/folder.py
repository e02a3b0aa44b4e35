"""The folder of a study: one process writes in it, and what was asked in it stays what is asked."""

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


def check_folder(folder: Path) -> None:
    """Refuse what is no study's folder, and not empty."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; give another `output`")
    is_study = (folder / SPECIFICATION).is_file() or not folder.exists()
    # Names with a dot are a lock's, or a file's that was being written when a study was killed.
    if not is_study and any(not one.name.startswith(".") for one in folder.iterdir()):
        raise OptionError(f"{folder}: is no study's folder, and not empty; give another `output`")
    if (folder / "tables").exists() and not (folder / "tables").is_dir():
        raise OptionError(f"{folder / 'tables'}: is in the way of the tables; move it, or give another `output`")


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder as the one process that writes in it."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{folder}: cannot be made ({error.strerror}); give another `output`") from None
    try:
        # The system releases it when the process ends, however it ends.
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
    """Write the study's specification, or refuse a folder that holds a different one.

    More seeds are not a different one: the trials that there are belong to them.

    Args:
        folder: of the study.
        asked: what is asked now.
        defaults: of the study's options.
        varies: what the paper varies with the case, unless it is given.
        only_looks: leave a folder with trials as it is, whatever is asked.
    """
    place = folder / SPECIFICATION
    if place.exists():
        before = _read(place)
        if before.study != asked.study and _has_trials(folder):
            raise OptionError(f"{folder}: holds the study {before.study}; give another `output`")
        before = _as_now(before, asked, defaults=defaults, varies=varies)
        differences = _differences(before, asked)
        has_more_seeds = asked.seeds > before.seeds and not _differences(replace(before, seeds=asked.seeds), asked)
        if differences and not has_more_seeds and _has_trials(folder):
            raise OptionError(
                f"{folder}: holds a study with another specification: {'; '.join(differences)}; "
                "give the same, or another `output`"
            )
        if not differences or (only_looks and _has_trials(folder)):
            return
    atomic.write_json(place, asked.to_json())


def _read(place: Path) -> StudySpec:
    try:
        return StudySpec.from_file(place)
    except RecordError as error:
        raise UserError(f"{error}; put a copy of it back, or give another `output`") from None


def _as_now(before: StudySpec, asked: StudySpec, *, defaults: Mapping[str, Any], varies: Collection[str]) -> StudySpec:
    """Return a folder's specification with what it leaves open, or names otherwise, as it is asked now."""
    given = asked.given if before.given is None else before.given
    rows = {fingerprint: (fingerprint, *metrics) for fingerprint, *metrics in before.tasks.values()}
    same_encoders = sorted(before.encoders.values()) == sorted(asked.encoders.values())
    same_rows = rows.keys() == {fingerprint for fingerprint, *_ in asked.tasks.values()}
    return replace(
        before,
        # What there was no option for when the folder was made was as it still is unless it is set.
        options={**defaults, **before.options},
        given=tuple(sorted({*(given or ())} & {*varies})),  # where the paper does not vary it, it does not matter
        protocol=before.protocol or asked.protocol,
        device=before.device or asked.device,
        encoders=asked.encoders if same_encoders else before.encoders,  # by whatever path
        tasks={name: rows[one[0]] for name, one in asked.tasks.items()} if same_rows else before.tasks,  # or name
        families=asked.families,
    )


def _has_trials(folder: Path) -> bool:
    """Whether there is anything to lose: a study that was refused, or of which all trials failed, has nothing."""
    if not (folder / STORE).exists():
        return False
    with Store(folder / STORE, for_reading=True) as store:
        return any(result.status == "done" for _, result in store)


def _differences(before: StudySpec, asked: StudySpec) -> list[str]:
    """What differs, field by field, in words."""
    found = _differences_of_tasks(before.tasks, asked.tasks, same_protocol=before.protocol == asked.protocol)
    there, here = before.to_json(), asked.to_json()
    for key in here:
        one, other = there[key], here[key]
        if key == "tasks":
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            for inner in dict.fromkeys([*one, *other]):
                if one.get(inner) != other.get(inner):
                    found.append(f"{key} {inner} {_shown(one.get(inner))} there, {_shown(other.get(inner))} here")
        elif one != other:
            found.append(f"{key} {_shown(one)} there, {_shown(other)} here")
    return found


def _differences_of_tasks(
    theirs: Mapping[str, Sequence[str]], mine: Mapping[str, Sequence[str]], *, same_protocol: bool
) -> list[str]:
    """Which tasks there are, by which metrics they are judged, and whether they have other rows.

    Another protocol makes other rows of the same data, and is said by itself.
    """
    if theirs.keys() != mine.keys():
        return [f"tasks {', '.join(theirs)} there, {', '.join(mine)} here"]
    found = []
    for name, (fingerprint, *metrics) in mine.items():
        its, *judged = theirs[name]
        if judged != metrics:
            found.append(f"task {name} judged by {', '.join(judged)} there, by {', '.join(metrics)} here")
        if its != fingerprint and same_protocol:
            found.append(f"task {name} has other rows there")
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value) if value is not None else "none"
    return text if len(text) <= 60 else f"{text[:57]}..."
