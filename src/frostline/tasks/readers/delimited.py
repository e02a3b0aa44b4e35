"""Comma- and tab-separated text.

CSV follows the usual quoting rules strictly: every quote is closed, and only a comma may follow a closing quote. TSV is
ambiguous in practice: some writers quote as in CSV, others (the GLUE files) never quote and keep stray quotes. A TSV
file in which every line has as many fields as the header is read line by line, and only a field that is quoted
completely and correctly loses its quotes; otherwise the CSV rules are tried, and if they fail too, the error names the
first ragged line. (A quoted cell with a tab and a line break that looks like two complete lines is read as two lines:
stray quotes are far more common.)
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace

from frostline.errors import DataError
from frostline.tasks.raw_table import RawTable, counted, listed, show

Record = tuple[int, list[str]]
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def read_csv(name: str, text: str, *, columns: Sequence[str] | None = None) -> RawTable:
    """Return the table in comma-separated text; the first record names the columns unless they are given."""
    first = text.lstrip("\ufeff").split("\n", 1)[0]
    if columns is None and "," not in first:
        mark = next((mark for mark in ";\t|" if mark in first), None)
        if mark is not None:
            raise DataError(
                f"{name}:1: the columns are separated by {mark!r}, not by commas; "
                "save it with commas, or as .tsv with tabs between the columns"
            )
    return _table(name, _csv_records(name, text, delimiter=","), columns)


def read_tsv(name: str, text: str) -> RawTable:
    """Return the table in tab-separated text, with or without quoting (see the module)."""
    plain = _line_records(text)
    if plain and all(len(fields) == len(plain[0][1]) for _, fields in plain):
        return _table(name, [(row, [_unquote(field) for field in fields]) for row, fields in plain], None)
    try:
        return _table(name, _csv_records(name, text, delimiter="\t"), None)
    except DataError:
        return _table(name, plain, None)


def read_plain_tsv(
    name: str, text: str, *, columns: Sequence[str] | None = None, drops_short_rows: bool = False
) -> RawTable:
    """Return the table in tab-separated text in which a quote is an ordinary character, as in the GLUE files.

    Args:
        name: name of the file in messages.
        text: content of the file.
        columns: column names of a file without a header.
        drops_short_rows: whether to leave out rows with too few fields, which some official files have.
    """
    records = _line_records(text)
    width = len(columns or (records[0][1] if records else ()))
    short = [row for row, fields in records if len(fields) < width] if drops_short_rows else []
    table = _table(name, [record for record in records if record[0] not in set(short)] if short else records, columns)
    return replace(table, dropped=tuple(short))


def _line_records(text: str) -> list[Record]:
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [(row, line.split("\t")) for row, line in enumerate(lines, start=1) if line]


def _unquote(field: str) -> str:
    if field.startswith('"') and _QUOTED.fullmatch(field):
        return field[1:-1].replace('""', '"')
    return field


def _csv_records(name: str, text: str, *, delimiter: str) -> list[Record]:
    records: list[Record] = []
    row = 1
    usual_limit = csv.field_size_limit(max(131_072, len(text) + 1))
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        for fields in reader:
            if fields:
                records.append((row, fields))
            row = reader.line_num + 1
    except csv.Error as problem:
        message = "text follows a closing quote; write a quote inside a quoted field twice"
        if "end of data" in str(problem):
            message = "a quote opens in this row and is never closed; close it or double it"
        raise DataError(f"{name}:{row}: {message}") from None
    finally:
        csv.field_size_limit(usual_limit)
    return records


def _table(name: str, records: list[Record], columns: Sequence[str] | None) -> RawTable:
    if not records:
        raise DataError(f"{name}: empty file")
    header = list(columns) if columns else _header(name, records[0])
    body = records if columns else records[1:]
    if not body:
        raise DataError(f"{name}: has a header but no rows")
    for row, fields in body:
        if len(fields) != len(header):
            source = "as in the official file" if columns else "as in the header"
            raise DataError(f"{name}:{row}: {counted(len(fields), 'field')}, expected {len(header)} {source}")
    cells = zip(*[fields for _, fields in body], strict=True)
    return RawTable(
        name=name,
        columns={column: list(values) for column, values in zip(header, cells, strict=True) if column},
        rows=[row for row, _ in body],
        cells="text",
    )


def _header(name: str, record: Record) -> list[str]:
    row, fields = record
    header = [field.strip() for field in fields]
    for position, column in enumerate(header, start=1):
        if not column and (position > 1 or len(header) == 1):  # pandas writes its index first, without a name
            raise DataError(f"{name}:{row}: the header has no name for column {position}; give it one, or remove it")
    repeated = [column for column in dict.fromkeys(header) if header.count(column) > 1]
    if repeated:
        names = listed([show(column) for column in repeated])
        raise DataError(f"{name}:{row}: the header names {names} more than once; rename one")
    return header
