"""A difference between two models, with its interval."""

from __future__ import annotations

from dataclasses import dataclass

from frostline.records._json import Record


@dataclass(frozen=True, kw_only=True)
class Difference(Record):
    """A difference between two models in a metric, in points, positive if the first is better.

    Args:
        value: the difference on the rows as they are.
        low: lower end of the 95% interval.
        high: its upper end.
    """

    value: float
    low: float
    high: float

    def is_non_inferior(self, margin: float) -> bool:
        """Whether the interval shows that the first model loses less than the margin, in points."""
        return self.low > -margin

    def __str__(self) -> str:
        digits = 1 if max(abs(self.low), abs(self.high)) >= 0.1 or self.low == self.high else 3
        return f"{self.value:+.{digits}f} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"
