"""The store of trials: one SQLite file, in which every finished trial is whole or not there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from frostline.errors import RecordError, UserError
from frostline.records import TrialResult, TrialSpec

# 1 was before studies: trials without kind, surgery, options and values; in 2 the metrics of a task were one word.
FORMAT = 3
_PATIENCE = 60.0  # seconds until a file that another program has locked is given up
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
            path: of the file.
            for_reading: change nothing, also where nothing could be changed; the file must be there. Else it is made
                where it is not, and written anew where it is of an older format.
        """
        self.path = path
        try:
            known = self._open_for_reading() if for_reading else self._open()
        except sqlite3.Error as error:
            if (said := _outside(path, error)) is not None:
                raise said from None
            remedy = "give another folder" if for_reading else "move it away or give another folder"
            raise UserError(f"{path}: is no store of trials ({error}); {remedy}") from None
        if known is not None and known > FORMAT:
            self.close()
            raise UserError(f"{path}: was written by a newer Frostline (format {known}); update this one")

    def _open(self) -> int | None:
        """The format that the file had; None of a new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(self.path, isolation_level=None, timeout=_PATIENCE)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")  # what is recorded survives a power cut
        self._file.executescript(_TABLES)
        known = self._format()
        if known is None:
            self._file.execute("INSERT INTO about VALUES (?)", (FORMAT,))
        elif known < FORMAT:
            self._migrate()
        return known

    def _open_for_reading(self) -> int | None:
        """The format of the file, of which every older one can be read as it is."""
        # Without a log beside it nobody has the file open: it is read without the two files that SQLite would make
        # there, which a folder that cannot be written to has no place for.
        is_closed = not self.path.with_name(f"{self.path.name}-wal").exists()
        address = f"{self.path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_closed else ''}"
        self._file = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_PATIENCE)
        return self._format()

    def _format(self) -> int | None:
        (known,) = self._file.execute("SELECT max(format) FROM about").fetchone()
        return None if known is None else int(known)

    def _migrate(self) -> None:
        """Write every trial as it would be written now, all of them or, if that is interrupted, none."""
        self._file.execute("BEGIN IMMEDIATE")
        try:
            rows = self._file.execute("SELECT spec, result, finished FROM trials ORDER BY rowid").fetchall()
            self._file.execute("DELETE FROM trials")
            for told, found, finished in rows:
                try:
                    spec, result = TrialSpec.from_text(told), TrialResult.from_text(found)
                except RecordError as error:
                    raise UserError(f"{self.path}: holds a trial that cannot be read ({error})") from None
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
        """The result of the trial, or None if it has not been run to its end."""
        found = self._file.execute("SELECT result FROM trials WHERE id = ?", (spec.id,)).fetchone()
        return None if found is None else TrialResult.from_text(found[0])

    def put(self, spec: TrialSpec, result: TrialResult) -> None:
        """Record a trial; one of the same id is replaced."""
        try:
            self._file.execute(
                "INSERT OR REPLACE INTO trials (id, spec, status, result) VALUES (?, ?, ?, ?)", _row(spec, result)
            )
        except sqlite3.OperationalError as error:
            if (said := _outside(self.path, error)) is not None:
                raise said from None
            raise

    def copy_to(self, path: Path) -> None:
        """Write a copy as one file; the store itself may have a part of its trials in a second one while it is read."""
        self._file.execute("VACUUM INTO ?", (str(path),))

    def failures(self) -> list[tuple[TrialSpec, str]]:
        """The trials that failed, and why."""
        rows = self._file.execute("SELECT spec, result FROM trials WHERE status = 'failed' ORDER BY rowid").fetchall()
        return [(TrialSpec.from_text(spec), str(json.loads(found)["reason"])) for spec, found in rows]

    def __len__(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM trials").fetchone()[0])

    def __iter__(self) -> Iterator[tuple[TrialSpec, TrialResult]]:
        rows = self._file.execute("SELECT spec, result FROM trials ORDER BY rowid").fetchall()
        for spec, result in rows:
            yield TrialSpec.from_text(spec), TrialResult.from_text(result)


def _row(spec: TrialSpec, result: TrialResult) -> tuple[str, str, str, str]:
    return spec.id, json.dumps(spec.to_json()), result.status, json.dumps(result.to_json(), allow_nan=False)


def _outside(path: Path, error: sqlite3.Error) -> UserError | None:
    """What is said where neither the file nor the program is at fault."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return UserError(f"{path}: the disk is full; free some space and run the same command again, it continues")
    if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UserError(f"{path}: another program has it locked; close that, and the same command goes on")
    return None
