"""A folder as a report reads it: what measuring, running or a study has written, as records.

Files are checked here and nowhere else: what is wrong with one is a line that names the file and the field, and what
goes wrong later is a bug.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from frostline.errors import OptionError, RecordError, UserError
from frostline.records import LayerScores, TrialResult, TrialSpec
from frostline.records._json import Number, Record, read_lines
from frostline.records.folder import FolderInfo, FolderKind
from frostline.records.prediction import PredictedRow
from frostline.records.run import RunRecord
from frostline.records.study import StudyProgress, StudySpec
from frostline.records.table import Table
from frostline.records.tuned import EvaluationStep, TuningResult
from frostline.studies._engine.results import PROGRESS, SPECIFICATION, STORE, read_tables
from frostline.trials.store import Store

R = TypeVar("R", bound=Record)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A folder of ours.

    Args:
        folder: where it lies.
        kind: measurement, run, tuned or study.
        about: what `frostline.json` says; None while a study is running.
    """

    folder: Path
    kind: FolderKind
    about: FolderInfo | None

    @property
    def command(self) -> str:
        """What was typed; empty where it was called from Python."""
        return shlex.join(self.about.command) if self.about else ""

    @property
    def made(self) -> list[tuple[str, str]]:
        """What it was made with: names and values."""
        if self.about is None:
            return []
        numbers = {"seed": self.about.seed, "threads": self.about.threads}
        return [*self.about.versions.items(), *((name, str(n)) for name, n in numbers.items() if n is not None)]

    @cached_property
    def scores(self) -> LayerScores | None:
        """What was measured."""
        return self._optional(LayerScores, "scores.json")

    @cached_property
    def run(self) -> RunRecord:
        """What `frostline run` recorded."""
        return self._record(RunRecord, "run.json")

    @cached_property
    def result(self) -> TuningResult:
        """What was recorded of the tuned model."""
        return self._record(TuningResult, "result.json")

    @cached_property
    def history(self) -> Sequence[EvaluationStep]:
        """The evaluations while the model was trained."""
        return self._lines(dict[str, Number], "metrics.jsonl")

    @cached_property
    def predictions(self) -> list[PredictedRow]:
        """What the model says of every held-out row."""
        return self._lines(PredictedRow, "predictions.jsonl")

    @cached_property
    def trials(self) -> list[tuple[TrialSpec, TrialResult]]:
        """Every finished trial."""
        with self._store() as store:
            return [] if store is None else list(store)

    @cached_property
    def finished(self) -> int:
        """How many trials are; those of a study can be many to read."""
        with self._store() as store:
            return 0 if store is None else len(store)

    @cached_property
    def failures(self) -> list[tuple[TrialSpec, TrialResult]]:
        """The trials that failed."""
        with self._store() as store:
            return [] if store is None else store.failures()

    @cached_property
    def study(self) -> StudySpec:
        """What a study was asked."""
        return self._record(StudySpec, SPECIFICATION)

    @cached_property
    def progress(self) -> StudyProgress | None:
        """How far a study is; None where it is over."""
        return self._optional(StudyProgress, PROGRESS)

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of a finished study."""
        return read_tables(self.folder) if (self.folder / STORE).is_file() else []

    def _record(self, kind: type[R], name: str) -> R:
        return read_record(kind, self.folder / name)

    def _optional(self, kind: type[R], name: str) -> R | None:
        return self._record(kind, name) if (self.folder / name).is_file() else None

    def _lines(self, kind: type[T], name: str) -> list[T]:
        path = self.folder / name
        with _one_line(path):
            return read_lines(kind, path) if path.is_file() else []

    @contextmanager
    def _store(self) -> Iterator[Store | None]:
        path = self.folder / STORE
        if not path.is_file():
            yield None
            return
        with _one_line(path), Store(path, for_reading=True) as store:
            yield store


def open_folder(folder: str | Path) -> Opened:
    """Return the folder, refused in one line where it is none of ours."""
    place = Path(folder)
    if place.is_file():
        raise OptionError(f"{place}: is a file; give the folder that it lies in")
    if not place.is_dir():
        raise OptionError(f"{place}: there is no such folder; give one that measure, run, tune or study has written")
    if (place / "frostline.json").is_file():
        about = read_record(FolderInfo, place / "frostline.json")
        return Opened(folder=place, kind=about.kind, about=about)
    if (place / SPECIFICATION).is_file():
        return Opened(folder=place, kind="study", about=None)
    raise OptionError(
        f"{place}: holds nothing of Frostline's; give a folder that measure, run, tune or study has written"
    )


def read_record(kind: type[R], path: Path) -> R:
    """Return the record in a file; a line that names the file and the field where it holds none."""
    with _one_line(path):
        return kind.from_file(path)


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Say what to do about a file that is missing, or is not what it should be."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: is missing; run the command that wrote the folder again") from None
    except RecordError as error:
        raise UserError(f"{error}; run the command that wrote the folder again") from None
