"""Presets: tasks known by name, with their official splits, class names and metrics.

A preset is registered where it is defined, in a file of `presets/`. Names are forgiving: 'glue/sst2', 'sst2', 'SST-2'
and 'GLUE/SST_2' are one preset.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from frostline.errors import OptionError, did_you_mean
from frostline.registry import Registry
from frostline.tasks.assemble import Parts
from frostline.tasks.raw_table import show
from frostline.tasks.task import Kind

if TYPE_CHECKING:
    from datasets import DatasetDict


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A task known by name.

    Args:
        name: as listed, such as 'glue/sst2'.
        summary: one line for lists.
        kind: what sort of answer it wants.
        label_names: the official class names in their official order.
        metrics: names in `METRICS`, the deciding one first.
        aliases: further names, besides those that differ only in case and punctuation.
        tags: linguistic features and kinds of distribution shift that paper 2 names for the task.
        read: gives the official rows, from a folder (or dataset) if one is given.
        takes_data_dir: whether the rows can come from a folder of the user's.
    """

    name: str
    summary: str
    kind: Kind
    label_names: tuple[str, ...]
    metrics: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    read: Callable[[str | Path | DatasetDict | None, str | None], Parts]
    takes_data_dir: bool = True


PRESETS: Registry[Preset] = Registry("preset", package="frostline.tasks.presets")


def find_preset(name: str) -> Preset | None:
    """The preset with this name or alias, in any case and with any - _ . or spaces; None if there is none."""
    return _by_key().get(_key(name))


def unknown_preset(name: str) -> OptionError:
    """The error for a name that is no preset, with the nearest one that is."""
    names = [*PRESETS.names(), *(alias for _, preset in PRESETS.items() for alias in preset.aliases)]
    return OptionError(
        f"{show(name)} is neither a file nor a preset{did_you_mean(name, names)}; "
        f"presets: {', '.join(PRESETS.names())}; hub datasets are written owner/name or owner/name:config"
    )


def _by_key() -> dict[str, Preset]:
    found: dict[str, Preset] = {}
    for _, preset in PRESETS.items():
        for name in (preset.name, *preset.aliases):
            found.setdefault(_key(name), preset)
    return found


def _key(name: str) -> str:
    return re.sub(r"[-_.\s]", "", name.lower())
