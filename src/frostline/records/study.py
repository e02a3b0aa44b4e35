"""A study: what was asked, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from frostline.records._json import Number, Record
from frostline.records.display import Displayed
from frostline.records.recipe import Recipe
from frostline.records.table import Table


@dataclass(frozen=True, kw_only=True)
class StudySpec(Record):
    """What a study was asked: `study.json`.

    Args:
        study: its name.
        encoders: their revisions, by name.
        tasks: by name, the fingerprint of the rows and then the metrics.
        seeds: how many.
        rows: training rows at most; None for all.
        options: of the study.
        recipe: of its trials, where the paper has no own.
        given: what the paper varies and the user has fixed; None in the first files.
        protocol: whether the rows that are reported were selected on; None in the first files.
        device: where it computed; None in the first files.
        families: of the encoders, by name.
    """

    study: str
    encoders: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seeds: int = 0
    rows: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)
    given: tuple[str, ...] | None = None
    protocol: Literal["held-out", "paper"] | None = None
    device: str | None = None
    families: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.study:
            raise ValueError("study: names no study")
        for name, fingerprint_and_metrics in self.tasks.items():
            if not fingerprint_and_metrics:
                raise ValueError(f"tasks.{name}: has no fingerprint")


@dataclass(frozen=True, kw_only=True)
class StudyProgress(Record):
    """How far a study is: `progress.json`, which is there while it runs.

    Args:
        done: trials that have finished.
        total: trials in all.
        seconds_left: that are expected; None where nothing is known yet.
        process: that runs the study.
        host: that the process runs on.
    """

    done: int
    total: int
    seconds_left: Number | None = None
    process: int | None = None
    host: str | None = None


@dataclass(frozen=True, kw_only=True)
class StudyOutcome(Record, Displayed):
    """What came out of a study.

    Args:
        kind: of output.
        study: its name.
        question: that it answers.
        folder: where it lies.
        trials: how many it has.
        failed: the trials that failed, a line each.
        tables: made of the others.
    """

    kind: Literal["study"] = "study"
    study: str
    question: str
    folder: str
    trials: int
    failed: tuple[str, ...]
    tables: tuple[Table, ...]
