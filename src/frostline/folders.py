"""Output folders: what Frostline writes, whole or not at all."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from frostline.errors import OptionError
from frostline.records import FORMAT_VERSION

_RECORDED = ("frostline", "torch", "transformers", "numpy", "scikit-learn", "scipy")


def check_new(folder: Path) -> None:
    """Refuse, before any long work, a folder that cannot be written or that something else is in."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; give a folder to write to")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "frostline.json").is_file():
        raise OptionError(f"{folder}: holds other files; give a new or empty folder")
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(parent, os.W_OK):
        raise OptionError(f"{folder}: cannot be written; give another folder")


def write(folder: Path, *, kind: str, files: Mapping[str, Any], seed: int) -> None:
    """Write JSON files into the folder, and `frostline.json`, which says what they are and where they come from."""
    import torch

    about = {
        "kind": kind,
        "format": FORMAT_VERSION,
        "command": ["frostline", *sys.argv[1:]],
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in _RECORDED}},
        "seed": seed,
        "threads": torch.get_num_threads(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**files, "frostline.json": about}.items():
        write_json(folder / name, content)


def write_json(path: Path, content: Any) -> None:
    """Write the content as JSON, so that the file is there whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2, ensure_ascii=False, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
