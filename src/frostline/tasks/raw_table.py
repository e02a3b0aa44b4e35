"""The record that every reader returns: named columns of uninterpreted cells with the row numbers of their source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from frostline.errors import DataError


class Missing:
    """The cell of a key that a JSON row does not have."""

    def __repr__(self) -> str:
        return "(no such key)"


MISSING: Final = Missing()


@dataclass(frozen=True, kw_only=True)
class RawTable:
    """Columns of cells as read.

    Args:
        name: the source as the user gave it; begins every message.
        columns: cells by column name.
        rows: 1-based line (text files) or row (others) of every cell.
        cells: 'text' for formats with strings only (CSV, TSV), 'typed' for formats that distinguish numbers.
        class_names: class names of columns that hold class numbers.
        dropped: rows of the source that were left out because they are known to be damaged.
    """

    name: str
    columns: Mapping[str, Sequence[object]]
    rows: Sequence[int]
    cells: Literal["text", "typed"]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dropped: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def with_columns(self, columns: Mapping[str, Sequence[object]]) -> RawTable:
        """Return the table with these columns added, or replaced."""
        return replace(self, columns={**self.columns, **columns})

    def error(self, index: int, column: str, problem: str) -> DataError:
        """Return a one-line error about the cell at a row (position from 0) and column."""
        return DataError(f"{self.name}:{self.rows[index]}: column {show(column)}: {problem}")


def show(value: object, *, width: int = 60) -> str:
    """Return a value as one short line, quoted if it is a string."""
    line = repr(value)
    if len(line) <= width:
        return line
    return f"{line[: width - 4]}...{line[0]}" if line[0] in "'\"" else f"{line[:width]}..."


def is_missing(cell: object) -> bool:
    """Whether a cell is empty: no key, null, NaN, or a blank string."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or cell is MISSING or (isinstance(cell, float) and math.isnan(cell))


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: '1 row', '2,000 rows'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[object], *, most: int = 8) -> str:
    """Return the first few names, separated by commas, and the number of further ones."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
