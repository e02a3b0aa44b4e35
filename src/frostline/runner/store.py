"""The store of trials: one SQLite file, in which every finished trial is whole or not there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from frostline.errors import UserError
from frostline.records import TrialResult, TrialSpec

FORMAT = 1
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

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")  # what is recorded survives a power cut
            self._file.executescript(_TABLES)
            (known,) = self._file.execute("SELECT max(format) FROM about").fetchone()
            if known is None:
                self._file.execute("INSERT INTO about VALUES (?)", (FORMAT,))
        except sqlite3.Error as error:
            raise UserError(f"{path}: is no store of trials ({error}); remove it or give another folder") from None
        if known is not None and known > FORMAT:
            self.close()
            raise UserError(f"{path}: was written by a newer Frostline (format {known}); update this one")

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
        return None if found is None else TrialResult.from_json(json.loads(found[0]))

    def put(self, spec: TrialSpec, result: TrialResult) -> None:
        """Record a trial; one of the same id is replaced."""
        row = (spec.id, json.dumps(spec.to_json()), result.status, json.dumps(result.to_json(), allow_nan=False))
        self._file.execute("INSERT OR REPLACE INTO trials (id, spec, status, result) VALUES (?, ?, ?, ?)", row)

    def copy_to(self, path: Path) -> None:
        """Write a copy as one file; the store itself may have a part of its trials in a second one while it is read."""
        self._file.execute("VACUUM INTO ?", (str(path),))

    def __len__(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM trials").fetchone()[0])

    def __iter__(self) -> Iterator[tuple[TrialSpec, TrialResult]]:
        rows = self._file.execute("SELECT spec, result FROM trials ORDER BY rowid").fetchall()
        for spec, result in rows:
            yield TrialSpec.from_json(json.loads(spec)), TrialResult.from_json(json.loads(result))
