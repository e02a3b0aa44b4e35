"""Texts without labels, to be predicted: from a file, a frame, a dataset or a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from frostline.errors import DataError
from frostline.tasks import Split
from frostline.tasks.arrow import read_dataset, read_frame
from frostline.tasks.columns import Columns, check_column, choose_columns
from frostline.tasks.files import has_known_suffix, read_file
from frostline.tasks.raw_table import Table, listed, show
from frostline.tasks.texts import parse_choices, parse_texts

_STAND_IN = "(no label)"


def read_unlabelled(
    data: Any,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    choices: str | Sequence[str] | None = None,
) -> tuple[Split, tuple[str, ...]]:
    """Texts as rows whose labels mean nothing, and what was guessed about their columns.

    Args:
        data: a file, DataFrame, Dataset, or a list of texts, of pairs (text, second text) or of (text, [choices]).
        text: the column with the text.
        text_pair: the column with the second text.
        choices: the column or columns with the candidates of multiple choice.
    """
    table = _table(data)
    if table is None:
        return rows_of(data), ()
    columns = _columns(table, text, text_pair, choices)
    texts = parse_texts(table, columns.text)
    pairs = parse_texts(table, columns.pair) if columns.pair else None
    candidates = None
    if columns.choices:
        candidates = parse_choices(table, columns.choices)
        texts = texts if pairs is None else tuple([f"{a} {b}" for a, b in zip(texts, pairs, strict=True)])
        pairs = None
    rows = Split(texts=texts, pairs=pairs, choices=candidates, labels=(0,) * len(texts), rows=tuple(table.rows))
    return rows, columns.notes


def rows_of(data: Iterable[Any]) -> Split:
    """A list of texts, of pairs, or of questions with their choices, as rows whose labels mean nothing."""
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise DataError(f"{show(data)}: is no list; give a list of texts, or a file")
    items = list(data)
    if not items:
        raise DataError("no texts to predict")
    texts: list[str] = []
    seconds: list[Any] = []
    for number, item in enumerate(items, start=1):
        first, second = _taken_apart(item)
        if not isinstance(first, str) or not first.strip():
            raise DataError(f"text {number}: {show(item)} is not a text, a pair of texts, or a text with its choices")
        texts.append(str(first))
        seconds.append(second)
    shapes = {type(second) for second in seconds}
    if len(shapes) > 1:
        raise DataError("some of the texts are single and some are pairs; give all of them in one form")
    has_pairs, has_choices = shapes == {str}, shapes == {tuple}
    return Split(
        texts=tuple(texts),
        pairs=tuple(seconds) if has_pairs else None,
        choices=tuple(seconds) if has_choices else None,
        labels=(0,) * len(texts),
        rows=tuple(range(1, len(texts) + 1)),
    )


def _taken_apart(item: Any) -> tuple[Any, str | tuple[str, ...] | None]:
    """The text, and its second text or its choices if it has any."""
    if isinstance(item, dict):  # as transformers' pipeline takes pairs
        item = (item.get("text"), item["text_pair"]) if "text_pair" in item else item.get("text")
    if isinstance(item, str) or not hasattr(item, "__len__") or len(item) != 2:
        return item, None
    first, second = item
    if isinstance(second, str) and second.strip():
        return first, str(second)  # an array's own kind of string becomes a plain one
    if isinstance(second, list | tuple) and len(second) > 1 and all(isinstance(each, str) for each in second):
        return first, tuple(second)
    return None, None


def _table(data: Any) -> Table | None:
    if isinstance(data, str | Path):
        if not Path(data).exists() and not has_known_suffix(data):
            raise DataError(
                f"{show(str(data))}: no such file; give one with a column of texts (or, from Python, a list of texts)"
            )
        return read_file(data)
    kind = type(data).__name__
    if kind == "DataFrame":
        return read_frame(kind, data)
    return read_dataset(kind, data) if kind == "Dataset" else None


def _columns(table: Table, text: str | None, pair: str | None, choices: str | Sequence[str] | None) -> Columns:
    """The columns as a task would have them; the label, which need not be there, is a stand-in."""
    given = choices.split(",") if isinstance(choices, str) else choices or ()
    chosen = [("`text`", text), ("`text_pair`", pair), *(("`choices`", name.strip()) for name in given)]
    for given_by, column in chosen:
        if column is not None:
            check_column(table, column, given_by)
    whole = replace(table, columns={**table.columns, _STAND_IN: [0] * len(table)})
    try:
        return choose_columns(whole, text=text, text_pair=pair, label=_STAND_IN, choices=choices)
    except DataError:
        known = listed([show(column, width=40) for column in table.columns], most=12)
        raise DataError(
            f"{table.name}: cannot tell which column holds the text; choose it with `text` from {known}"
        ) from None
