"""Cells -> texts and choices, refusing what an encoder cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.tasks.raw_table import MISSING, Table, counted, is_missing, listed, show


def parse_texts(table: Table, column: str) -> tuple[str, ...]:
    """The texts of a column, as they stand; every one a string with something in it."""
    cells = table.columns[column]
    for index, cell in enumerate(cells):
        if not isinstance(cell, str) and not is_missing(cell):
            raise table.error(index, column, _not_a_text(cell))
    empty = [index for index, cell in enumerate(cells) if is_missing(cell)]
    if empty:
        what = "has no such key" if cells[empty[0]] is MISSING else "empty text"
        rest = f" ({counted(len(empty), 'row')}: {listed([table.rows[i] for i in empty])})" if len(empty) > 1 else ""
        raise table.error(empty[0], column, f"{what}{rest}; fill it in or remove the row")
    texts = tuple([cell for cell in cells if isinstance(cell, str)])
    check_unicode(table, column, texts)
    return texts


def check_unicode(table: Table, column: str, texts: Sequence[str]) -> None:
    """Refuse half surrogate pairs: JSON can spell them, and no tokenizer takes them."""
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError:
        bad = next(i for i, text in enumerate(texts) if any("\ud800" <= c <= "\udfff" for c in text))
        raise table.error(bad, column, "half a surrogate pair, which is no Unicode text; mend the escape") from None


def parse_choices(table: Table, columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The candidates of every row: from one column of lists, or from one column per candidate."""
    if len(columns) > 1:
        return tuple(zip(*[parse_texts(table, column) for column in columns], strict=True))
    column = columns[0]
    found: list[tuple[str, ...]] = []
    for index, cell in enumerate(table.columns[column]):
        if not isinstance(cell, list | tuple):
            raise table.error(index, column, f"{show(cell)} is not a list of choices")
        if len(cell) < 2 or any(not isinstance(c, str) or not c.strip() for c in cell):
            raise table.error(index, column, "needs two choices or more, each a text that is not empty")
        if found and len(cell) != len(found[0]):
            raise table.error(index, column, f"{len(cell)} choices, but {len(found[0])} in the first row")
        found.append(tuple(cell))
    check_unicode(table, column, ["".join(candidates) for candidates in found])
    return tuple(found)


def _not_a_text(cell: object) -> str:
    if isinstance(cell, list | tuple):
        return f"a list ({show(cell, width=40)}), not a text; join its parts into one string"
    if isinstance(cell, dict):
        return f"a nested object ({show(cell, width=40)}), not a text; move the text to a column of its own"
    what = {bool: "boolean", int: "number", float: "number"}.get(type(cell), type(cell).__name__)
    return f"{show(cell)} is a {what}, not a text; is this the right column?"
