"""The description of an output folder: `frostline.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from frostline.records._json import FORMAT_VERSION, Record

FolderKind = Literal["measurement", "run", "tuned", "study"]


@dataclass(frozen=True, kw_only=True)
class FolderInfo(Record):
    """The content of an output folder and how it was made.

    Args:
        kind: kind of folder.
        format: version of the file formats.
        command: the command that made it; empty if it was made from Python.
        versions: versions of Python and of the libraries that the result depends on.
        threads: number of CPU threads; None if it was not fixed.
        seed: random seed; None for a study, which has several.
        seeds: number of a study's seeds.
    """

    left_out_at_default = ("seed", "seeds")

    kind: FolderKind
    format: Literal[1] = FORMAT_VERSION
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    seed: int | None = None
    seeds: int | None = None
