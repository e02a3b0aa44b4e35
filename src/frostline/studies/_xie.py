"""Settings of Xie et al. 2022 that several studies share: its probe, and the tasks that it trains for fewer epochs."""

from __future__ import annotations

from typing import TypedDict

from frostline.scoring.selection import Rows
from frostline.studies._tables import judged_split
from frostline.tasks import Task

# Tasks on which the paper fine-tunes all layers for 10 epochs, else for 20.
SHORTER_TASKS = ("glue/mnli", "glue/mnli_mismatched", "glue/mnli_both", "glue/qqp")
# Table 3 and appendix B.1 of the paper.
PROBE_RECIPE = {"epochs": 20, "batch": 8, "schedule": "linear", "warmup": 0.06, "dropout": 0.1}
USUAL_RATE = 1e-3
_RATES = {"glue/qqp": 3e-4, "glue/sst2": 3e-3}


class JudgedRows(TypedDict):
    """The splits on which probes are judged and choose their epoch; None for a tenth of the training rows."""

    judged_on: Rows
    chosen_on: Rows | None


def probe_rate(task: Task) -> float:
    """Return the paper's learning rate of the probe, its usual one for tasks that it does not have."""
    return _RATES.get(task.preset or "", USUAL_RATE)


def choose_on(task: Task) -> str:
    """Return where the probe's epoch is chosen: on the judged rows under the protocol 'paper', else on others."""
    return "held-out" if task.protocol == "paper" else "inner"


def judged_rows(task: Task) -> JudgedRows:
    """Return the splits for probes: the development set judges, the inner validation rows choose the epoch."""
    is_test = judged_split(task)[0] == "test"
    has_inner = is_test and task.protocol != "paper" and task.validation is not None
    return {"judged_on": "test" if is_test else "validation", "chosen_on": "validation" if has_inner else None}
