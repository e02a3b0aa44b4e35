"""Presets: tasks known by name, with their official splits, class names and metrics.

A preset is registered where it is defined, in a file of `presets/`. Case and punctuation of a name do not matter:
'glue/sst2', 'sst2', 'SST-2' and 'GLUE/SST_2' are one preset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from frostline.errors import OptionError, did_you_mean
from frostline.registry import Registry
from frostline.tasks.raw_table import show
from frostline.tasks.task import Kind, Task

if TYPE_CHECKING:
    from datasets import DatasetDict

DataDir: TypeAlias = "str | Path | DatasetDict | None"


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A task known by name.

    Args:
        name: the name in lists, such as 'glue/sst2'.
        summary: one line for lists.
        label_names: official class names in official order; empty for regression.
        metrics: names in `METRICS`, the deciding one first.
        kind: the kind of task.
        aliases: further names, besides those that differ only in case and punctuation.
        tags: linguistic features and kinds of distribution shift, names in `TAGS`.
        own_tags: those of the tags that are ours; Lodha et al. 2023 give the others to the task.
        takes_data_dir: whether the rows can come from a folder of the user's.
        sizes: numbers of rows of (test, validation) to carve; None to carve shares of the rows.
    """

    name: str
    summary: str
    label_names: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    kind: Kind = "classification"
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    own_tags: tuple[str, ...] = ()
    takes_data_dir: bool = True
    sizes: tuple[int, int] | None = None

    def read(self, data_dir: DataDir, revision: str | None) -> Task:
        """Return the official rows, from a folder (or dataset) if one is given."""
        raise NotImplementedError


PRESETS: Registry[Preset] = Registry("preset", package="frostline.tasks.presets")


def find_preset(name: str) -> Preset | None:
    """Return the preset with this name or alias, whatever its case, - _ . and spaces; None if there is none."""
    return next((preset for known, preset in _names().items() if name_key(known) == name_key(name)), None)


def near_preset(name: str) -> str:
    """Return ' (did you mean X?)' for the preset or alias with the most similar name, or ''."""
    return did_you_mean(name, _names())


def unknown_preset(name: str) -> OptionError:
    """Return the error for a name that is not a preset, with the most similar one."""
    return OptionError(
        f"{show(name)} is neither a file nor a preset{near_preset(name)}; "
        f"presets: {', '.join(PRESETS.names())}; hub datasets are written owner/name or owner/name:config"
    )


def _names() -> dict[str, Preset]:
    """Return every preset by its name and by its aliases, the names first."""
    presets = dict(PRESETS.items())
    return presets | {alias: preset for preset in presets.values() for alias in preset.aliases}


def name_key(name: str) -> str:
    """Return the name without case, - _ . and spaces: names with the same key are the same."""
    return re.sub(r"[-_.\s]", "", name.lower())
