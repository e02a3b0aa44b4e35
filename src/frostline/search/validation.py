"""More validation rows for a search than for plain tuning: it trains its choice on all labelled rows in the end."""

from __future__ import annotations

from dataclasses import replace

from frostline.tasks import Task
from frostline.tasks.raw_table import counted
from frostline.tasks.splits import divide, strata_of

SHARE = 0.3  # of the labelled rows
MOST = 500  # rows


def with_more_validation(task: Task, *, seed: int = 0) -> Task:
    """Return the task with up to three tenths of its labelled rows for validation; a given split is never changed.

    Args:
        task: the task.
        seed: seed of the division.
    """
    train, validation = task.train, task.validation
    if validation is None or validation is task.test or "validation" not in task.carved:
        return task
    missing = min(MOST, round(SHARE * (len(train) + len(validation)))) - len(validation)
    if missing < len(set(strata_of(train))):  # of each class at least one row would move
        return task
    rest, more = divide(train, missing, seed=seed, purpose="search validation")
    note = (
        f"plans are chosen on {counted(len(validation) + len(more), 'validation row')}, {len(more)} more than carved; "
        "the choice is trained on all labelled rows in the end"
    )
    return replace(task, train=rest, validation=validation.followed_by(more), notes=(*task.notes, note))
