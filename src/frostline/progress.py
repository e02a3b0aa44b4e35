"""Progress of long work: one callback type for numbers, and one logger, `frostline`, for messages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frostline.records.table import Table

logger = logging.getLogger("frostline")


@dataclass(frozen=True, kw_only=True)
class Step:
    """The progress of one stage of the work.

    Args:
        stage: the stage, such as "frozen states".
        detail: the part of the stage, such as a split or an epoch; may be empty.
        done: number of finished units.
        total: number of units.
        table: an interim result to show, such as the ranking after a round.
    """

    stage: str
    detail: str = ""
    done: int = 0
    total: int = 1
    table: Table | None = None


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Ignore the step; the default progress callback."""


def detailed(progress: Progress, detail: str) -> Progress:
    """Return a callback that adds a detail to every step."""
    return lambda step: progress(replace(step, detail=detail))
