"""Atomic writes of files and folders, and reading of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BUILDING = ".building-"
_DAY = 86_400
_REQUIRED: Any = object()


def write_json(path: Path, content: Any) -> None:
    """Write the content as JSON, atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write the text atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write the content atomically: the file is complete or not there at all."""
    temporary = path.parent / f".{path.name}.{os.getpid()}"
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # the error of a full disk does not name the file
        raise


def read_json(path: Path, default: Any = _REQUIRED) -> Any:
    """Return the content of a JSON file, or the default if the file is missing or damaged.

    Without a default, a missing file is an OSError and a damaged one a ValueError.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        if default is _REQUIRED:
            raise
        return default


@contextlib.contextmanager
def build_folder(target: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a new folder that atomically replaces the target at the end.

    Args:
        target: the final folder.
        sync: whether to wait until its files are on the disk, so that it survives a power failure.
    """
    with work_folder(target.parent) as folder:
        yield folder
        if sync:
            for path in folder.iterdir():
                sync_file(path)
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


@contextlib.contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder for unfinished work, removed at the end unless it was renamed."""
    parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(parent)
    folder = parent / f"{_BUILDING}{uuid.uuid4().hex[:12]}"  # process numbers repeat where machines share a disk
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(parent: Path) -> None:
    """Remove the work folders of killed processes: those that have not changed for a day."""
    for folder in parent.glob(f"{_BUILDING}*"):
        with contextlib.suppress(OSError):  # another process may have removed its own since the listing
            if time.time() - folder.stat().st_mtime >= _DAY:
                shutil.rmtree(folder, ignore_errors=True)


def sync_file(path: Path) -> None:
    """Wait until the file's content is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
