"""A result folder as records: what measure, run, tune or study has written.

Files are checked here and nowhere else: a wrong file is an error of one line that names the file and the field.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
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
    """A result folder.

    Args:
        folder: its path.
        kind: measurement, run, tuned or study.
        about: content of `frostline.json`; None while a study is running.
    """

    folder: Path
    kind: FolderKind
    about: FolderInfo | None

    @property
    def command(self) -> str:
        """The command line; empty for results from Python."""
        return shlex.join(self.about.command) if self.about else ""

    @property
    def made(self) -> list[tuple[str, str]]:
        """Versions, seed and threads: names and values."""
        if self.about is None:
            return []
        numbers = {"seed": self.about.seed, "threads": self.about.threads}
        return [*self.about.versions.items(), *((name, str(n)) for name, n in numbers.items() if n is not None)]

    @cached_property
    def scores(self) -> LayerScores | None:
        """The layer scores, if any were measured."""
        return self._optional(LayerScores, "scores.json")

    @cached_property
    def run(self) -> RunRecord:
        """The record of a run."""
        return self._record(RunRecord, "run.json")

    @cached_property
    def result(self) -> TuningResult:
        """The record of a tuned model."""
        return self._record(TuningResult, "result.json")

    @cached_property
    def history(self) -> Sequence[EvaluationStep]:
        """The evaluations during training."""
        return self._lines(dict[str, Number], "metrics.jsonl")

    @cached_property
    def predictions(self) -> list[PredictedRow]:
        """The predictions for every held-out row."""
        return self._lines(PredictedRow, "predictions.jsonl")

    @cached_property
    def trials(self) -> list[tuple[TrialSpec, TrialResult]]:
        """All finished trials."""
        return self._from_store(list, [])

    @cached_property
    def finished(self) -> int:
        """The number of finished trials, without reading them."""
        return self._from_store(len, 0)

    @cached_property
    def failures(self) -> list[tuple[TrialSpec, TrialResult]]:
        """The failed trials."""
        return self._from_store(Store.failures, [])

    @cached_property
    def study(self) -> StudySpec:
        """The specification of a study."""
        return self._record(StudySpec, SPECIFICATION)

    @cached_property
    def progress(self) -> StudyProgress | None:
        """The progress of a study; None if it is finished."""
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

    def _from_store(self, read: Callable[[Store], T], default: T) -> T:
        path = self.folder / STORE
        if not path.is_file():
            return default
        with _one_line(path), Store(path, for_reading=True) as store:
            return read(store)


def open_folder(folder: str | Path) -> Opened:
    """Return the records of a folder; raise if it contains no result of Frostline."""
    path = Path(folder)
    if path.is_file():
        raise OptionError(f"{path}: is a file; give the folder that contains it")
    if not path.is_dir():
        raise OptionError(f"{path}: no such folder; give one that measure, run, tune or study has written")
    if (path / "frostline.json").is_file():
        about = read_record(FolderInfo, path / "frostline.json")
        return Opened(folder=path, kind=about.kind, about=about)
    if (path / SPECIFICATION).is_file():
        return Opened(folder=path, kind="study", about=None)
    raise OptionError(f"{path}: contains no result; give a folder that measure, run, tune or study has written")


def read_record(kind: type[R], path: Path) -> R:
    """Return the record in a file; an error names the file and the field."""
    with _one_line(path):
        return kind.from_file(path)


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turn errors on a missing or wrong file into one line with a remedy."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: is missing; run the command that wrote the folder again") from None
    except RecordError as error:
        raise UserError(f"{error}; run the command that wrote the folder again") from None
