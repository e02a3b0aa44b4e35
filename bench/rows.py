"""The labelled rows of a GLUE task that benches split anew."""

from __future__ import annotations

from itertools import chain

from frostline.tasks import Split, Task


def labelled_rows(task: Task) -> Split:
    """The training rows; of MNLI, of which the development file alone is at hand, all rows that were carved from it."""
    return every_row(task) if "mnli" in task.name else task.train


def every_row(task: Task) -> Split:
    """The rows of all splits."""
    parts = list(task.splits.values())
    columns = {
        name: None
        if getattr(parts[0], name) is None
        else tuple(chain.from_iterable(getattr(part, name) for part in parts))
        for name in Split.__dataclass_fields__
    }
    return Split(**columns)  # type: ignore[arg-type]
