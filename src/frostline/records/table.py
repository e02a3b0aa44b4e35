"""Tables: named columns and rows of plain values, as they are printed, exported and drawn."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, TypeVar

from frostline.records._json import Record

Cell = str | int | float | bool | None
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Table(Record):
    """Named columns and rows of plain values.

    Args:
        name: short, for files.
        title: what it shows, in a line.
        columns: their names; those that start with 'seconds' depend on the machine.
        rows: a value for each column.
        notes: what has to be known to read it, a sentence each; for people alone.
        settings: what its values depend on besides the trials, by name, as plain JSON values; such as the margin.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: {len(self.columns)} columns but a row of {len(row)}")

    def records(self) -> list[dict[str, Cell]]:
        """A mapping for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def without(self, *columns: str) -> Table:
        """Return the table without some columns; those that it does not have are no mistake."""
        kept = [place for place, name in enumerate(self.columns) if name not in columns]
        return replace(
            self,
            columns=tuple(self.columns[place] for place in kept),
            rows=tuple(tuple(row[place] for place in kept) for row in self.rows),
        )

    def to_csv(self) -> str:
        """The table as CSV, undefined values empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()


def table_of(
    name: str,
    title: str,
    records: Iterable[Mapping[str, Cell]],
    *,
    notes: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
    rounds: bool = True,
) -> Table:
    """The table of these rows; a column for every name that occurs, in the order of the first rows that have it.

    Args:
        name: of the table.
        title: of the table.
        records: a mapping for each row.
        notes: what has to be known to read it.
        settings: what its values depend on besides the trials.
        rounds: numbers to six digits.
    """
    rows = list(records)
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    return Table(
        name=name,
        title=title,
        columns=columns,
        rows=tuple(tuple(_rounded(value) if rounds else value for value in map(row.get, columns)) for row in rows),
        notes=tuple(notes),
        settings=settings or {},
    )


def _rounded(value: Cell) -> Cell:
    """Numbers with six digits: what lies behind them differs between machines."""
    if isinstance(value, float):
        return float(f"{value:.6g}") + 0.0 if isfinite(value) else None  # no sign before 0
    return value


def cell_in_words(cell: object) -> str:
    """A cell as people read it: numbers with four digits, truth values in a word, nothing where there is no value."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their key, keys and items in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
