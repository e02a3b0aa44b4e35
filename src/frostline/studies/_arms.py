"""Arms of a study that have a kind and a number of layers; their names in tables are written and read only here."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"(?P<kind>.+?)(-(?P<layers>\d+))?(?P<cut>, cut)?")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the ways to tune that a study compares; `str(arm)` is its name in tables, such as 'down-2, cut'.

    Args:
        kind: how the layers are chosen.
        layers: number of tuned layers, for kinds whose arms differ in it.
        is_cut: whether the layers above the tuned ones are cut off.
    """

    kind: str
    layers: int | None = None
    is_cut: bool = False

    def __str__(self) -> str:
        count = "" if self.layers is None else f"-{self.layers}"
        return f"{self.kind}{count}{', cut' if self.is_cut else ''}"


def read_arm(name: str) -> Arm:
    """Return the arm with this name in a table."""
    match = _NAME.fullmatch(name)
    if match is None:  # an empty name, which no arm has
        raise ValueError(f"arm {name!r}: has no kind")
    layers = match["layers"]
    return Arm(kind=match["kind"], layers=None if layers is None else int(layers), is_cut=match["cut"] is not None)
