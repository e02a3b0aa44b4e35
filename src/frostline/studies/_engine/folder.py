"""The folder of a study: one process writes in it, and what was asked in it stays what is asked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from frostline.errors import OptionError, UserError
from frostline.files import atomic
from frostline.records import Recipe
from frostline.studies._engine.results import SPECIFICATION, STORE
from frostline.trials.store import Store

_LOCK = ".lock"
_KINDS = {"study": str, "encoders": dict, "tasks": dict, "seeds": int, "options": dict, "recipe": dict, "given": list}


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
    mine: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any],
    aside: Mapping[str, Any],
    varies: Collection[str] = (),
    only_looks: bool = False,
) -> None:
    """Take down what is asked, or refuse a folder in which something else was.

    More seeds are not something else: the trials that there are belong to them.

    Args:
        folder: of the study.
        mine: what is asked now.
        defaults: of the study's options.
        aside: what is taken down with it and may differ.
        varies: what the paper varies with the case, unless it is given.
        only_looks: leave a folder with trials as it is, whatever is asked.
    """
    place = folder / SPECIFICATION
    if place.exists():
        theirs = _read(place)
        if theirs["study"] != mine["study"] and _has_trials(folder):
            raise OptionError(f"{folder}: holds the study {theirs['study']}; give another `output`")
        # What there was no option for when the folder was made was as it still is unless it is set.
        theirs["options"] = {**defaults, **theirs.get("options", {})}
        theirs["recipe"] = {**Recipe().to_json(), **theirs.get("recipe", {})}
        for later in ("given", "protocol", "device"):
            theirs.setdefault(later, mine[later])
        theirs["given"] = sorted({*theirs["given"]} & {*varies})  # where the paper does not, it does not matter
        if sorted(theirs.get("encoders", {}).values()) == sorted(mine["encoders"].values()):
            theirs["encoders"] = mine["encoders"]  # the same ones, by whatever path
        rows = {fingerprint: [fingerprint, *metrics] for fingerprint, *metrics in theirs.get("tasks", {}).values()}
        if rows.keys() == {fingerprint for fingerprint, *_ in mine["tasks"].values()}:
            theirs["tasks"] = {name: rows[one[0]] for name, one in mine["tasks"].items()}  # by whatever name
        differences = _differences(theirs, mine)
        if differences and not _has_more_seeds(theirs, mine) and _has_trials(folder):
            raise OptionError(
                f"{folder}: holds a study with another specification: {'; '.join(differences)}; "
                "give the same, or another `output`"
            )
        if not differences or (only_looks and _has_trials(folder)):
            return
    atomic.write_json(place, {**mine, **aside})


def _read(place: Path) -> dict[str, Any]:
    try:
        found = dict(atomic.read_json(place))
        for name, kind in _KINDS.items():
            if not isinstance(found.get(name, kind()), kind):
                raise ValueError(f"{name} is {_shown(found[name])}")
        if not found.get("study"):
            raise ValueError("it names no study")
        if not all(isinstance(one, list) and one for one in found.get("tasks", {}).values()):
            raise ValueError("tasks have no fingerprints")
        return found
    except (ValueError, TypeError) as error:
        raise UserError(f"{place}: is damaged ({error}); put a copy of it back, or give another `output`") from None


def _has_more_seeds(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> bool:
    """Whether the same is asked for with more seeds."""
    if not isinstance(theirs.get("seeds"), int) or mine["seeds"] <= theirs["seeds"]:
        return False
    return not _differences({**theirs, "seeds": mine["seeds"]}, mine)


def _has_trials(folder: Path) -> bool:
    """Whether there is anything to lose: a study that was refused, or of which all trials failed, has nothing."""
    if not (folder / STORE).exists():
        return False
    with Store(folder / STORE, for_reading=True) as store:
        return any(result.status == "done" for _, result in store)


def _differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """What differs, field by field, in words."""
    found = []
    for key in mine:
        one, other = theirs.get(key), mine[key]
        if key == "tasks" and isinstance(one, Mapping):
            found += _differences_of_tasks(one, other, same_protocol=theirs.get("protocol") == mine.get("protocol"))
        elif isinstance(one, Mapping) and isinstance(other, Mapping):
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
