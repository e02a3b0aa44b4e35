"""A folder as a report reads it: what measuring, running or a study has written, as plain records."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from frostline.errors import OptionError, RecordError, UserError
from frostline.files.atomic import read_json
from frostline.records import LayerScores, TrialResult, TrialSpec
from frostline.records.table import Table
from frostline.studies._engine.results import PROGRESS, STORE, read_tables
from frostline.trials.store import Store

KINDS = ("measurement", "run", "tuned", "study")


_RUN = ("encoder", "task", "plan", "race", "decision", "tests", "proposals", "failed", "given_up", "seconds", "notes")


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A folder of ours.

    Args:
        folder: where it lies.
        kind: measurement, run, tuned or study.
        about: what `frostline.json` says: command, versions, seed, threads; empty while a study is running.
    """

    folder: Path
    kind: str
    about: Mapping[str, Any]

    @property
    def command(self) -> str:
        """What was typed; empty where it was called from Python."""
        return shlex.join(self.about["command"]) if self.about.get("command") else ""

    @property
    def made(self) -> list[tuple[str, str]]:
        """What it was made with: names and values."""
        versions = [(name, str(value)) for name, value in dict(self.about.get("versions", {})).items()]
        return [*versions, *((name, str(self.about[name])) for name in ("seed", "threads") if name in self.about)]

    @cached_property
    def scores(self) -> LayerScores | None:
        """What was measured."""
        path = self.folder / "scores.json"
        if not path.is_file():
            return None
        try:
            return LayerScores.from_json(_json(path))
        except RecordError as error:
            raise damaged(path, error) from None

    @cached_property
    def run(self) -> Mapping[str, Any]:
        """What `frostline run` found."""
        return _record(self.folder / "run.json", *_RUN)

    @cached_property
    def result(self) -> Mapping[str, Any]:
        """What tuning gave."""
        return _record(self.folder / "result.json", "task", "plan", "metrics", "encoder", "parameters")

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """A record for every evaluation while the model was trained."""
        return _lines(self.folder / "metrics.jsonl")

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        """What the model says of every held-out row."""
        return _lines(self.folder / "predictions.jsonl")

    @cached_property
    def trials(self) -> list[tuple[TrialSpec, TrialResult]]:
        """Every finished trial."""
        path = self.folder / STORE
        if not path.is_file():
            return []
        with Store(path, for_reading=True) as store:
            return list(store)

    @cached_property
    def finished(self) -> int:
        """How many trials are; those of a study can be many to read."""
        path = self.folder / STORE
        if not path.is_file():
            return 0
        with Store(path, for_reading=True) as store:
            return len(store)

    @cached_property
    def failures(self) -> list[tuple[TrialSpec, str]]:
        """The trials that failed, and why."""
        path = self.folder / STORE
        if not path.is_file():
            return []
        with Store(path, for_reading=True) as store:
            return store.failures()

    @cached_property
    def study(self) -> Mapping[str, Any]:
        """What a study was asked."""
        return _record(self.folder / "study.json", "study", "encoders", "tasks", "seeds")

    @cached_property
    def progress(self) -> Mapping[str, Any]:
        """How far a study is; empty where it is over."""
        path = self.folder / PROGRESS
        return _json(path) if path.is_file() else {}

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of a finished study."""
        return read_tables(self.folder) if (self.folder / STORE).is_file() else []


def open_folder(folder: str | Path) -> Opened:
    """The folder, refused in one line where it is none of ours."""
    place = Path(folder)
    if place.is_file():
        raise OptionError(f"{place}: is a file; give the folder that it lies in")
    if not place.is_dir():
        raise OptionError(f"{place}: there is no such folder; give one that measure, run, tune or study has written")
    about = place / "frostline.json"
    if about.is_file():
        found = _json(about)
        kind = str(found.get("kind"))
        if kind not in KINDS:
            raise OptionError(f"{place}: holds a {kind}, of which there is no report")
        return Opened(folder=place, kind=kind, about=found)
    if (place / "study.json").is_file():
        return Opened(folder=place, kind="study", about={})
    raise OptionError(
        f"{place}: holds nothing of Frostline's; give a folder that measure, run, tune or study has written"
    )


def damaged(path: Path, error: Exception) -> UserError:
    """What is said of a file that is ours and cannot be read as such."""
    said = f"no {error}" if isinstance(error, KeyError) else str(error)
    return UserError(f"{path}: is damaged ({said}); run the command that wrote the folder again")


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except FileNotFoundError:
        raise UserError(f"{path}: is missing; run the command that wrote the folder again") from None
    except ValueError as error:
        raise damaged(path, error) from None


def _record(path: Path, *keys: str) -> Mapping[str, Any]:
    """The file's object, which has at least these keys."""
    found = _json(path)
    missing = [key for key in keys if not isinstance(found, dict) or key not in found]
    if missing:
        raise UserError(f"{path}: is damaged (no {missing[0]!r}); run the command that wrote the folder again")
    return dict(found)


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    except ValueError as error:
        raise UserError(f"{path}: is damaged ({error}); run the command that wrote the folder again") from None
