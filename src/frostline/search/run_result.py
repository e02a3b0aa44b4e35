"""The result of a run: its record, and the model in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frostline.records import LayerScores
from frostline.records.display import as_html
from frostline.records.run import Decision, Judged, RunRecord
from frostline.search.entries import Entry, Race
from frostline.training.result import Tuned


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run.

    Args:
        record: record of plans, race, decision and tests.
        scores: the measured layer scores.
        race: the race, with the results of its trials.
        tuned: the model.
        folder: folder that it was saved to.
        announced: number of notes that were logged while it ran.
    """

    record: RunRecord
    scores: LayerScores
    race: Race
    tuned: Tuned
    folder: Path
    announced: int = 0

    @property
    def decision(self) -> Decision:
        """Which plan was chosen and why."""
        return self.record.decision

    @property
    def tests(self) -> tuple[Judged, ...]:
        """The choice and the baselines on the test rows."""
        return self.record.tests

    @property
    def chosen(self) -> Entry:
        """The choice, with the result of its trial."""
        return self.race.entry(self.decision.chosen)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.record.to_json()

    def _repr_html_(self) -> str | None:
        return as_html(self.record)
