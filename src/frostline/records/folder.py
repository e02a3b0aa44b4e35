"""What every output folder says of itself: `frostline.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from frostline.records._json import FORMAT_VERSION, Record

FolderKind = Literal["measurement", "run", "tuned", "study"]


@dataclass(frozen=True, kw_only=True)
class FolderInfo(Record):
    """What a folder holds and what it was made with.

    Args:
        kind: of folder.
        format: of its files.
        command: that made it; empty where it was made from Python.
        versions: of Python and of the libraries that the result depends on.
        threads: CPU threads that it was computed with; None where they were not fixed.
        seed: that it was made with; None for a study, which has several.
        seeds: how many a study has.
    """

    left_out_at_default = ("seed", "seeds")

    kind: FolderKind
    format: Literal[1] = FORMAT_VERSION
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    seed: int | None = None
    seeds: int | None = None
