"""Figures: each with a title that states what was found, a description in words, and the table that it was drawn from.

A figure is a Vega-Lite specification, so that the page shows it live and `frostline report --figures` prints it. What
it is drawn from is a table that lies in a folder: no encoder, task or trial is needed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frostline.records.table import Cell, Table

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart and what has to stand around it.

    Args:
        name: short, for files.
        title: what it shows to be the case, a sentence.
        alt: what is drawn, for those who do not see it.
        spec: the Vega-Lite specification, without theme.
        rows: what is drawn, for the table behind the chart.
        paper: the figures of the papers that it corresponds to, as in 'paper 1, figures 3 and 9'.
        notes: what has to be known to read it.
    """

    name: str
    title: str
    alt: str
    spec: Mapping[str, Any]
    rows: tuple[Row, ...]
    paper: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Results:
    """What the figures of a study are drawn from.

    Args:
        tables: of the study, by name.
        families: of its encoders, by name.
        options: that it was run with, by name.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, name: str) -> list[dict[str, Cell]]:
        """The rows of a table; none where there is no such table."""
        found = self.tables.get(name)
        return [] if found is None else found.records()

    def setting(self, table: str, name: str) -> Any:
        """What a table's values depend on; None where the table or the setting is not there."""
        found = self.tables.get(table)
        return None if found is None else found.settings.get(name)


def group_rows(rows: Sequence[Row], *columns: str) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """The rows by the values of these columns, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(column) for column in columns), []).append(row)
    yield from found.items()


def name_case(row: Row, rows: Sequence[Row], *columns: str) -> str:
    """What tells this row's group from others, such as 'bert-base on sst2'; nothing where there is one group only."""
    names = [str(row[column]) for column in columns if len({str(one[column]) for one in rows}) > 1]
    return " on ".join(names)
