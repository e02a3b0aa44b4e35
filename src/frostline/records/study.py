"""A study: its specification, its progress and its outcome."""

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
    """The specification of a study: `study.json`.

    Args:
        study: name of the study.
        encoders: revisions of the encoders, by name.
        tasks: for each task by name, the fingerprint of its rows and then its metrics.
        seeds: number of seeds.
        rows: largest number of training rows; None for all.
        options: options of the study.
        recipe: recipe of the trials, unless the paper has its own.
        given: parameters that the paper varies and the user fixed; None in the first files.
        protocol: 'paper' if the reported rows were also used for selection; None in the first files.
        device: device of the computation; None in the first files.
        families: families of the encoders, by name.
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
    """The progress of a study: `progress.json`, which exists while it runs.

    Args:
        done: number of finished trials.
        total: number of all trials.
        seconds_left: expected remaining time; None if there is no estimate yet.
        process: id of the process that runs the study.
        host: machine of the process.
    """

    done: int
    total: int
    seconds_left: Number | None = None
    process: int | None = None
    host: str | None = None


@dataclass(frozen=True, kw_only=True)
class StudyOutcome(Record, Displayed):
    """The outcome of a study.

    Args:
        kind: kind of output.
        study: name of the study.
        question: the question that it answers.
        folder: folder of the study.
        trials: number of trials.
        failed: trials that failed, one line each.
        tables: tables of the results.
    """

    kind: Literal["study"] = "study"
    study: str
    question: str
    folder: str
    trials: int
    failed: tuple[str, ...]
    tables: tuple[Table, ...]
