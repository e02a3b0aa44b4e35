"""Texts without labels, for predictions: from a file, a frame, a dataset or a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from frostline.errors import DataError
from frostline.tasks import Split
from frostline.tasks.columns import check_columns, choose_columns, list_columns
from frostline.tasks.raw_table import RawTable, show
from frostline.tasks.readers.arrow import read_in_memory
from frostline.tasks.readers.files import has_known_suffix, read_file
from frostline.tasks.texts import parse_rows

_STAND_IN = "(no label)"


def read_unlabelled(
    data: Any,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    choices: str | Sequence[str] | None = None,
) -> tuple[Split, tuple[str, ...]]:
    """Return the texts as rows with meaningless labels, and notes about the columns that were guessed.

    Args:
        data: a file, DataFrame, Dataset, or a list of texts, of pairs (text, second text) or of (text, [choices]).
        text: the column with the text.
        text_pair: the column with the second text.
        choices: the column or columns with the choices of multiple choice.
    """
    table = _read_table(data)
    if table is None:
        return read_list(data), ()
    check_columns(table, text=text, text_pair=text_pair, choices=choices)
    labelled = table.with_columns({_STAND_IN: [0] * len(table)})  # a label column may be missing
    try:
        columns = choose_columns(labelled, text=text, text_pair=text_pair, label=_STAND_IN, choices=choices)
    except DataError:
        names = list_columns(table)
        raise DataError(
            f"{table.name}: cannot tell which column contains the text; choose it with `text` from {names}"
        ) from None
    texts, pairs, candidates = parse_rows(table, columns)
    rows = Split(texts=texts, pairs=pairs, choices=candidates, labels=(0,) * len(texts), rows=tuple(table.rows))
    return rows, columns.notes


def read_list(data: Iterable[Any]) -> Split:
    """Return a list of texts, of pairs, or of questions with their choices as rows with meaningless labels."""
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise DataError(f"{show(data)}: is not a list; give a list of texts, or a file")
    items = list(data)
    if not items:
        raise DataError("no texts to predict")
    texts: list[str] = []
    seconds: list[Any] = []
    for number, item in enumerate(items, start=1):
        first, second = _take_apart(item)
        if not isinstance(first, str) or not first.strip():
            raise DataError(f"text {number}: {show(item)} is not a text, a pair of texts, or a text with its choices")
        texts.append(str(first))
        seconds.append(second)
    shapes = {type(second) for second in seconds}
    if len(shapes) > 1:
        raise DataError("some of the texts are single and some are pairs; give all of them in one form")
    return Split(
        texts=tuple(texts),
        pairs=tuple(seconds) if shapes == {str} else None,
        choices=tuple(seconds) if shapes == {tuple} else None,
        labels=(0,) * len(texts),
        rows=tuple(range(1, len(texts) + 1)),
    )


def _take_apart(item: Any) -> tuple[Any, str | tuple[str, ...] | None]:
    """Return the text, and its second text or its choices if it has any."""
    if isinstance(item, dict):  # the form of pairs in transformers' pipeline
        item = (item.get("text"), item["text_pair"]) if "text_pair" in item else item.get("text")
    if isinstance(item, str) or not hasattr(item, "__len__") or len(item) != 2:
        return item, None
    first, second = item
    if isinstance(second, str) and second.strip():
        return first, str(second)  # numpy's strings become plain ones
    if isinstance(second, list | tuple) and len(second) > 1 and all(isinstance(choice, str) for choice in second):
        return first, tuple(second)
    return None, None


def _read_table(data: Any) -> RawTable | None:
    if isinstance(data, str | Path):
        if not Path(data).exists() and not has_known_suffix(data):
            raise DataError(
                f"{show(str(data))}: no such file; give one with a column of texts (or, from Python, a list of texts)"
            )
        return read_file(data)
    return read_in_memory(type(data).__name__, data)
