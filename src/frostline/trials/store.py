"""The store of trials: one SQLite file, to which every finished trial is written atomically."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from frostline.errors import RecordError, UserError
from frostline.records import TrialResult, TrialSpec

# Format 1, before studies: trials without kind, surgery, options and values; in 2 a task had a single metric.
FORMAT = 3
_PATIENCE = 60.0  # seconds to wait for a file that another program has locked
_TABLES = """
CREATE TABLE IF NOT EXISTS about (format INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS trials (
    id TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    status TEXT NOT NULL,
    result TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
"""


class Store:
    """Finished trials by their id. One process writes; any may read."""

    def __init__(self, path: Path, *, for_reading: bool = False) -> None:
        """Open the file.

        Args:
            path: the SQLite file.
            for_reading: change nothing, so that a read-only folder will do; the file must exist. Otherwise a missing
                file is created, and one of an older format is migrated.
        """
        self.path = path
        try:
            version = self._open_for_reading() if for_reading else self._open()
        except sqlite3.Error as error:
            if (user_error := _user_error(path, error)) is not None:
                raise user_error from None
            remedy = "give another folder" if for_reading else "move it away or give another folder"
            raise UserError(f"{path}: is not a trial database ({error}); {remedy}") from None
        if version is not None and version > FORMAT:
            self.close()
            raise UserError(f"{path}: was written by a newer Frostline (format {version}); update this one")

    def _open(self) -> int | None:
        """Open or create the file; return its format, None for a new file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(self.path, isolation_level=None, timeout=_PATIENCE)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")  # what is recorded survives a power cut
        self._file.executescript(_TABLES)
        version = self._format()
        if version is None:
            self._file.execute("INSERT INTO about VALUES (?)", (FORMAT,))
        elif version < FORMAT:
            self._migrate()
        return version

    def _open_for_reading(self) -> int | None:
        """Open the file and return its format; older formats are readable as they are."""
        # Without a log file nobody has the store open: it is opened as immutable, so that SQLite does not create its
        # two extra files, which it could not do in a read-only folder.
        is_closed = not self.path.with_name(f"{self.path.name}-wal").exists()
        address = f"{self.path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_closed else ''}"
        self._file = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_PATIENCE)
        return self._format()

    def _format(self) -> int | None:
        (version,) = self._file.execute("SELECT max(format) FROM about").fetchone()
        return None if version is None else int(version)

    def _migrate(self) -> None:
        """Rewrite every trial in the current format, all of them or, if interrupted, none."""
        self._file.execute("BEGIN IMMEDIATE")
        try:
            rows = self._file.execute("SELECT spec, result, finished FROM trials ORDER BY rowid").fetchall()
            self._file.execute("DELETE FROM trials")
            for spec_text, result_text, finished in rows:
                spec, result = self._trial(spec_text, result_text)
                self._file.execute(
                    "INSERT OR REPLACE INTO trials (id, spec, status, result, finished) VALUES (?, ?, ?, ?, ?)",
                    (*_row(spec, result), finished),
                )
            self._file.execute("UPDATE about SET format = ?", (FORMAT,))
        except BaseException:
            if self._file.in_transaction:  # a full disk has ended it already
                self._file.execute("ROLLBACK")
            self.close()
            raise
        self._file.execute("COMMIT")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def get(self, spec: TrialSpec) -> TrialResult | None:
        """Return the result of the trial, or None if it has not finished."""
        row = self._file.execute("SELECT result FROM trials WHERE id = ?", (spec.id,)).fetchone()
        return None if row is None else TrialResult.from_text(row[0])

    def put(self, spec: TrialSpec, result: TrialResult) -> None:
        """Record a trial; one of the same id is replaced."""
        try:
            self._file.execute(
                "INSERT OR REPLACE INTO trials (id, spec, status, result) VALUES (?, ?, ?, ?)", _row(spec, result)
            )
        except sqlite3.OperationalError as error:
            raise (_user_error(self.path, error) or error) from None

    def copy_to(self, path: Path) -> None:
        """Write a copy as one file; the store itself may have some of its trials in SQLite's log file."""
        self._file.execute("VACUUM INTO ?", (str(path),))

    def failures(self) -> list[tuple[TrialSpec, TrialResult]]:
        """Return the trials that failed, with their results."""
        rows = self._file.execute("SELECT spec, result FROM trials WHERE status = 'failed' ORDER BY rowid").fetchall()
        return [self._trial(*row) for row in rows]

    def __len__(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM trials").fetchone()[0])

    def __iter__(self) -> Iterator[tuple[TrialSpec, TrialResult]]:
        rows = self._file.execute("SELECT spec, result FROM trials ORDER BY rowid").fetchall()
        for row in rows:
            yield self._trial(*row)

    def _trial(self, spec: str, result: str) -> tuple[TrialSpec, TrialResult]:
        try:
            return TrialSpec.from_text(spec), TrialResult.from_text(result)
        except RecordError as error:
            raise RecordError(f"{self.path}: contains a trial that cannot be read ({error})") from None


def _row(spec: TrialSpec, result: TrialResult) -> tuple[str, str, str, str]:
    return spec.id, json.dumps(spec.to_json()), result.status, json.dumps(result.to_json(), allow_nan=False)


def _user_error(path: Path, error: sqlite3.Error) -> UserError | None:
    """Return the message for a full disk or a locked file, or None for other errors."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return UserError(f"{path}: the disk is full; free some space and run the same command again, it continues")
    if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UserError(f"{path}: another program has locked it; close that program and run the command again")
    return None
