"""Rules for output folders: which may be written to, and the file that describes every result."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostline.errors import OptionError
from frostline.files.atomic import write_json
from frostline.records.folder import FolderInfo

CHECKPOINTS = "checkpoints"  # of an unfinished run
SAVING = f"{CHECKPOINTS}/.saving"  # a result that is being written
RUN = f"{CHECKPOINTS}/run.json"  # exists if `frostline run` was interrupted here


def check_new(folder: Path) -> None:
    """Refuse, before any long work, a folder that cannot be written or that contains other files."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; give a folder to write to")
    others = {path.name for path in folder.iterdir()} - {CHECKPOINTS} if folder.is_dir() else set()
    if others and not (folder / "frostline.json").is_file() and not (folder / SAVING).is_dir():
        raise OptionError(f"{folder}: contains other files; give a new or empty folder")
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        # Permissions are not enough: a parent may be a file, and file systems have further rules.
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise OptionError(f"{folder}: cannot be written ({error.strerror}); give another folder") from None


def check_output(folder: Path, *, overwrite: bool, resume: bool, is_run: bool = False) -> None:
    """Refuse, before any long work, a folder that cannot be written or that already contains a result.

    Args:
        folder: the output folder.
        overwrite: whether its content may be replaced.
        resume: whether to continue an interrupted run in it.
        is_run: whether it is for `frostline run`, which continues without `resume`.
    """
    check_new(folder)
    is_finished, is_interrupted = (folder / "frostline.json").is_file(), (folder / CHECKPOINTS).is_dir()
    refusals = {
        "contains an interrupted `frostline run`; run it again to continue it, or pass `overwrite=True`": (
            (folder / RUN).is_file() and not (is_run or overwrite)
        ),
        "`resume` continues what is there and `overwrite` starts over; give one of them": resume and overwrite,
        "contains an interrupted run; pass `resume=True` to continue it, or `overwrite=True`": (
            is_interrupted and not (overwrite or resume)
        ),
        "contains a finished result and nothing to continue; pass `overwrite=True`": (
            resume and is_finished and not is_interrupted
        ),
        "contains an earlier result; pass `overwrite=True` to replace it, or give another folder": (
            is_finished and not (overwrite or resume)
        ),
    }
    for message, applies in refusals.items():
        if applies:
            raise OptionError(f"{folder}: {message}")


def write(folder: Path, info: FolderInfo, files: Mapping[str, Any]) -> None:
    """Write JSON files into the folder, and `frostline.json`, which describes what they are and how they were made.

    Args:
        folder: the output folder.
        info: what the folder holds and what it was made with.
        files: plain JSON values by file name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**files, "frostline.json": info.to_json()}.items():
        write_json(folder / name, content)


def check_file(path: Path, parameter: str, suffixes: Sequence[str]) -> None:
    """Refuse, before any work is done, a file that cannot be written.

    Args:
        path: the file.
        parameter: name of the parameter with which it was given.
        suffixes: allowed suffixes.
    """
    if path.suffix not in suffixes:
        raise OptionError(f"`{parameter}={path}`: must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    if path.is_dir():
        raise OptionError(f"`{parameter}={path}`: is a folder; give a file in it")
    try:
        is_new = not path.exists()
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise OptionError(f"`{parameter}={path}`: cannot be written ({error.strerror}); give another file") from None
