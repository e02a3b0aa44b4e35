"""A budget: limits on what tuning may cost, and the goal among plans that are good enough."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from frostline.errors import OptionError
from frostline.records._json import Number, Record

Goal = Literal["cheapest", "smallest", "fastest", "best"]
GOALS = {
    "cheapest": "the cheapest to tune",
    "smallest": "the one with the fewest parameters",
    "fastest": "the fastest at predicting",
    "best": "the best on validation",
}


@dataclass(frozen=True, kw_only=True)
class Budget(Record):
    """Limits and a goal, in the user's units.

    Args:
        minutes: time limit of the whole run.
        max_trainable: largest number of trainable parameters.
        max_latency: largest latency of a prediction, as a share of the whole encoder's.
        max_memory: largest memory in gigabytes, beyond what the program itself needs.
        max_layers: largest number of layers to keep.
        margin: largest acceptable loss in the metric, in points; None for 1, or for 0 if the metric has units
            of its own.
        goal: the criterion for choosing among plans that are good enough.

    Example:
        >>> frostline.Budget(minutes=30, goal="smallest").max_layers is None
        True
    """

    minutes: Number | None = None
    max_trainable: Number | None = None
    max_latency: Number | None = None
    max_memory: Number | None = None
    max_layers: int | None = None
    margin: Number | None = None
    goal: Goal = "cheapest"

    def __post_init__(self) -> None:
        for name in ("minutes", "max_trainable", "max_latency", "max_memory", "max_layers"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                raise OptionError(f"`{name}={value:g}`: must be above 0")
        if self.max_latency is not None and self.max_latency > 1:
            raise OptionError(
                f"`max_latency={self.max_latency:g}`: is a share of the whole encoder's time, from 0 to 1, as in 0.5"
            )
        if self.margin is not None and not (isfinite(self.margin) and self.margin >= 0):
            raise OptionError(f"`margin={self.margin:g}`: must be 0 or more points")
        if self.goal not in GOALS:
            raise OptionError(f"goal {self.goal!r}: must be one of {', '.join(GOALS)}")

    def margin_of(self, points: float) -> float:
        """Return the largest acceptable loss in a metric, in its points or units.

        Args:
            points: number of points of a value of 1 of the metric.
        """
        if self.margin is not None:
            return self.margin
        return 1.0 if points == 100 else 0.0
