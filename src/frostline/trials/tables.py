"""Trials that failed, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from frostline.records import TrialResult, TrialSpec
from frostline.records.table import Table, table_of


def failures_table(failures: Iterable[tuple[TrialSpec, TrialResult]]) -> Table:
    """Return the trials that failed, with what failed and why."""
    rows = [
        {
            "id": spec.id,
            "encoder": spec.encoder.name,
            "task": spec.task.name,
            "plan": spec.plan.name,
            "kind": spec.kind,
            "seed": spec.recipe.seed,
            "learning rate": spec.recipe.learning_rate,
            "cause": result.cause,
            "reason": result.reason,
            "traceback": result.traceback,
        }
        for spec, result in failures
    ]
    return table_of("failed", f"{len(rows)} failed trial{'' if len(rows) == 1 else 's'}", rows)
