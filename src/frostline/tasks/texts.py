"""Cells -> texts and choices; refuses cells that an encoder cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.tasks.columns import Columns
from frostline.tasks.raw_table import MISSING, RawTable, counted, is_missing, listed, show

Texts = tuple[str, ...]


def parse_rows(table: RawTable, columns: Columns) -> tuple[Texts, Texts | None, tuple[Texts, ...] | None]:
    """Return the texts, second texts and choices of all rows; a question and its second text become one text."""
    texts = parse_texts(table, columns.text)
    pairs = parse_texts(table, columns.pair) if columns.pair else None
    if not columns.choices:
        return texts, pairs, None
    if pairs is not None:
        texts = tuple([f"{text} {pair}" for text, pair in zip(texts, pairs, strict=True)])
    return texts, None, parse_choices(table, columns.choices)


def parse_texts(table: RawTable, column: str) -> Texts:
    """Return the texts of a column unchanged; refuse cells that are not strings, or that are empty."""
    cells = table.columns[column]
    for index, cell in enumerate(cells):
        if not isinstance(cell, str) and not is_missing(cell):
            raise table.error(index, column, _not_a_text(cell))
    empty = [index for index, cell in enumerate(cells) if is_missing(cell)]
    if empty:
        problem = "has no such key" if cells[empty[0]] is MISSING else "empty text"
        rows = f" ({counted(len(empty), 'row')}: {listed([table.rows[i] for i in empty])})" if len(empty) > 1 else ""
        raise table.error(empty[0], column, f"{problem}{rows}; fill it in or remove the row")
    texts = tuple([cell for cell in cells if isinstance(cell, str)])
    check_unicode(table, column, texts)
    return texts


def check_unicode(table: RawTable, column: str, texts: Sequence[str]) -> None:
    """Refuse lone surrogates: JSON can contain them, but tokenizers cannot read them."""
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError:
        bad = next(i for i, text in enumerate(texts) if any("\ud800" <= c <= "\udfff" for c in text))
        raise table.error(bad, column, "contains a lone surrogate (invalid Unicode); fix the escape") from None


def parse_choices(table: RawTable, columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the choices of every row, from one column of lists or from one column per choice."""
    if len(columns) > 1:
        return tuple(zip(*[parse_texts(table, column) for column in columns], strict=True))
    column = columns[0]
    choices: list[tuple[str, ...]] = []
    for index, cell in enumerate(table.columns[column]):
        if not isinstance(cell, list | tuple):
            raise table.error(index, column, f"{show(cell)} is not a list of choices")
        if len(cell) < 2 or any(not isinstance(c, str) or not c.strip() for c in cell):
            raise table.error(index, column, "needs two or more choices, each a text that is not empty")
        if choices and len(cell) != len(choices[0]):
            raise table.error(index, column, f"{len(cell)} choices, but {len(choices[0])} in the first row")
        choices.append(tuple(cell))
    check_unicode(table, column, ["".join(texts) for texts in choices])
    return tuple(choices)


def _not_a_text(cell: object) -> str:
    if isinstance(cell, list | tuple):
        return f"a list ({show(cell, width=40)}), not a text; join its parts into one string"
    if isinstance(cell, dict):
        return f"a nested object ({show(cell, width=40)}), not a text; move the text to a separate column"
    kind = {bool: "boolean", int: "number", float: "number"}.get(type(cell), type(cell).__name__)
    return f"{show(cell)} is a {kind}, not a text; is this the right column?"
