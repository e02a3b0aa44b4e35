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
        name: short name, for files.
        title: title in one line.
        columns: column names; columns that start with 'seconds' depend on the machine.
        rows: a value for each column.
        notes: remarks for the reader, one sentence each.
        settings: what the values depend on besides the trials, such as the margin, as plain JSON values by name.
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
        """Return the rows as mappings from column to value."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def without(self, *columns: str) -> Table:
        """Return the table without these columns; names that it does not have are ignored."""
        kept = [index for index, name in enumerate(self.columns) if name not in columns]
        return replace(
            self,
            columns=tuple(self.columns[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in self.rows),
        )

    def to_csv(self) -> str:
        """Return the table as CSV; undefined values are empty."""
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
    """Return the table of these rows, with a column for every name, in the order of first occurrence.

    Args:
        name: name of the table.
        title: title of the table.
        records: a mapping for each row.
        notes: remarks for the reader.
        settings: what the values depend on besides the trials.
        rounds: whether to round numbers to six digits.
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
    """Return numbers with six digits: further digits differ between machines."""
    if isinstance(value, float):
        return float(f"{value:.6g}") + 0.0 if isfinite(value) else None  # no sign before 0
    return value


def cell_in_words(cell: object) -> str:
    """Return a cell as text: numbers with four digits, booleans as yes or no, nothing for None."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by key; keys and items keep their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
