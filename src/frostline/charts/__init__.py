"""Figures: each has a title that states a finding, a description in words, and the rows it was drawn from.

A figure is a Vega-Lite specification: the report shows it live and `frostline report` prints it. Figures are
drawn from the tables in a folder; no encoder, task or trial is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frostline.records.table import Cell, Table, group_by

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart with its title, description and notes.

    Args:
        name: short name, used for files.
        title: the finding, as a sentence.
        alt: a description of the drawing for readers who cannot see it.
        spec: the Vega-Lite specification, without theme.
        rows: the data behind the chart, shown as its table.
        paper: the corresponding figures of the paper, such as 'Xie et al. 2022, figures 3 and 9'.
        notes: explanations that a reader needs.
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
    """The results of a study that its figures are drawn from.

    Args:
        tables: the study's tables, by name.
        families: the family of each encoder, by the encoder's name.
        options: the study's options, by name.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, name: str) -> list[dict[str, Cell]]:
        """Return the rows of a table; empty if there is no such table."""
        return self.tables[name].records() if name in self.tables else []

    def setting(self, table: str, name: str) -> Any:
        """Return a setting that a table was computed with; None if the table or the setting is missing."""
        return self.tables[table].settings.get(name) if table in self.tables else None


def group_rows(rows: Sequence[Row], *columns: str) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """Yield the rows grouped by the values of these columns, in order of first appearance."""
    yield from group_by(rows, lambda row: tuple(row.get(column) for column in columns)).items()


def name_case(row: Row, rows: Sequence[Row], *columns: str) -> str:
    """Return what distinguishes this row's group, such as 'bert-base on sst2'; empty if there is only one group."""
    return " on ".join(str(row[column]) for column in columns if len({str(other[column]) for other in rows}) > 1)


def pick_columns(rows: Sequence[Row], *columns: str, case: str | None = None) -> list[dict[str, Any]]:
    """Return the rows with these columns only, None where missing.

    Args:
        rows: rows of a table.
        columns: columns to keep.
        case: first column, which names the row's encoder and task where they differ; None for no such column.
    """
    picked = [{column: row.get(column) for column in columns} for row in rows]
    if case is None:
        return picked
    names = {key: name_case(group[0], rows, "encoder", "task") for key, group in group_rows(rows, "encoder", "task")}
    return [{case: names[row["encoder"], row["task"]], **values} for row, values in zip(rows, picked, strict=True)]
