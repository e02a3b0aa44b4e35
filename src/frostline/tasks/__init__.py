"""Labelled text as a task: files, frames, hub datasets and benchmark presets in, one frozen `Task` out.

Read the modules in this order: task, raw_table, readers, columns, labels, splits, metrics, assemble, preset, loading.
Names are imported on first use, so importing this package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frostline.tasks.loading import load_task
    from frostline.tasks.metrics import METRICS, TaskMetric, choose_metrics
    from frostline.tasks.preset import PRESETS, Preset, find_preset
    from frostline.tasks.splits import sample
    from frostline.tasks.task import Split, Task

__all__ = [
    "METRICS",
    "PRESETS",
    "Preset",
    "Split",
    "Task",
    "TaskMetric",
    "choose_metrics",
    "find_preset",
    "load_task",
    "sample",
]

_HOMES = {
    "METRICS": "metrics",
    "PRESETS": "preset",
    "Preset": "preset",
    "Split": "task",
    "Task": "task",
    "TaskMetric": "metrics",
    "choose_metrics": "metrics",
    "find_preset": "preset",
    "load_task": "loading",
    "sample": "splits",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
