"""Labelled text as a task: files, frames, hub datasets and benchmark presets in, one frozen `Task` out.

Read the modules in this order: task, raw_table, readers, columns, labels, splits, metrics, assemble, preset, loading.
Heavy libraries are imported by the functions that need them, so importing this package is cheap.
"""

from frostline.tasks.loading import load_task
from frostline.tasks.metrics import METRICS, choose_metrics
from frostline.tasks.preset import PRESETS, find_preset
from frostline.tasks.splits import sample
from frostline.tasks.task import Split, Task

__all__ = ["METRICS", "PRESETS", "Split", "Task", "choose_metrics", "find_preset", "load_task", "sample"]
