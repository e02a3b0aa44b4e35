"""What every reader returns: named columns with the row numbers of their source, nothing interpreted yet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from frostline.errors import DataError


class Missing:
    """Stands in a cell for a key that a JSON row does not have."""

    def __repr__(self) -> str:
        return "(no such key)"


MISSING: Final = Missing()


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns of cells as read.

    Args:
        name: the source as the user gave it; begins every message.
        columns: the cells by column name.
        rows: 1-based line (text files) or row (others) of every cell.
        cells: 'text' where the format knows only strings (CSV, TSV), 'typed' where it tells numbers from strings.
        class_names: for columns that hold class numbers with known names, those names.
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

    def error(self, index: int, column: str, problem: str) -> DataError:
        """A one-line error at a row (position from 0) and column."""
        return DataError(f"{self.name}:{self.rows[index]}: column {show(column)}: {problem}")


def show(value: object, *, width: int = 60) -> str:
    """A value as one short line, quoted if it is a string."""
    line = repr(value)
    return (
        line if len(line) <= width else f"{line[: width - 4]}...{line[0]}" if line[0] in "'\"" else f"{line[:width]}..."
    )


def is_missing(cell: object) -> bool:
    """Whether a cell holds nothing: no key, null, NaN, or an empty string."""
    if cell is None or cell is MISSING:
        return True
    if isinstance(cell, float):
        return math.isnan(cell)
    return isinstance(cell, str) and not cell.strip()


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """'1 row', '2,000 rows'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[object], *, most: int = 8) -> str:
    """The first few names, comma-separated, and how many more there are."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
