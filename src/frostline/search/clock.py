"""The time of a search, by stage and in all, also across interruptions."""

from __future__ import annotations

import time
from pathlib import Path

from frostline.files import atomic
from frostline.progress import Progress, Step


class Clock:
    """Seconds by stage and in all, with those from before an interruption, which a file holds."""

    def __init__(self, file: Path, progress: Progress) -> None:
        """Continue from the seconds in the file, if it exists."""
        self.laps: dict[str, float] = {}
        self._file, self._progress, self._before = file, progress, float(atomic.read_json(file, default=None) or 0)
        self._started = self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Count the seconds since the last lap as those of this stage."""
        now = time.perf_counter()
        self.laps[name] = round(self.laps.get(name, 0.0) + now - self._last, 3)
        self._last = now
        self._write()

    def progress(self, step: Step) -> None:
        """Write the time after every trial of the race, and show its progress."""
        if step.table is not None:
            self._write()
        self._progress(step)

    @property
    def total(self) -> float:
        """All seconds so far."""
        return self._before + time.perf_counter() - self._started

    @staticmethod
    def is_before(deadline: float) -> bool:
        """Whether there is time left until a deadline, by time.monotonic()."""
        return time.monotonic() < deadline

    def _write(self) -> None:
        """Write the time that has passed, for a run that is interrupted now."""
        atomic.write_json(self._file, round(self.total, 3))
