"""How a result was made: the running command and the versions of the libraries."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

from frostline.records.folder import FolderInfo, FolderKind

_RECORDED = ("frostline", "torch", "transformers", "numpy", "scikit-learn", "scipy")


def command() -> list[str]:
    """Return the command that is running; empty in a user's own program or notebook."""
    program = Path(sys.argv[0])
    is_ours = program.name.startswith("frostline") or program.parts[-2:] == ("frostline", "__main__.py")
    return ["frostline", *sys.argv[1:]] if is_ours else []


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that a result depends on."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _RECORDED}}


def folder_info(
    kind: FolderKind, *, seed: int | None = None, seeds: int | None = None, threads: int | None = None
) -> FolderInfo:
    """Return the description of a folder that is written now.

    Args:
        kind: kind of folder.
        seed: random seed of its content.
        seeds: number of a study's seeds.
        threads: CPU threads of a study's trials; everything else was computed with those of this process.
    """
    import torch

    return FolderInfo(
        kind=kind,
        command=tuple(command()),
        versions=versions(),
        threads=threads if kind == "study" else torch.get_num_threads(),
        seed=seed,
        seeds=seeds,
    )
