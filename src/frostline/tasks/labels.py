"""Cells -> labels: the kind of task, the class names, and an error for every malformed label.

The rule for numbers: a fraction anywhere means regression; whole numbers are classes, unless there are more than 20
different ones and they are more than a tenth of the rows. Strings and booleans are classes. Class names are sorted,
numbers by value and strings alphabetically; columns with their own class names (`ClassLabel`) keep their order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from frostline.errors import DataError, OptionError, did_you_mean
from frostline.tasks.raw_table import MISSING, RawTable, counted, is_missing, listed, show
from frostline.tasks.task import Kind, Labels

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.ASCII | re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?", re.ASCII)
_WRITTEN_MISSING = {"nan", "<na>"}
MOST_WHOLE_NUMBER_CLASSES = 20

Value = bool | int | float | str


@dataclass(frozen=True, kw_only=True)
class LabelColumn:
    """A parsed label column: the kind of task, the class names, the labels, and notes for the user."""

    kind: Kind
    names: tuple[str, ...]
    labels: Labels
    notes: tuple[str, ...] = ()


def parse_labels(table: RawTable, column: str, *, kind: Kind | None = None, may_be_one: bool = False) -> LabelColumn:
    """Return the labels of the training rows, whose kind and classes are not known yet.

    Args:
        table: the training rows.
        column: the column with the labels.
        kind: classification or regression, if the user chose one.
        may_be_one: whether a single class is allowed: for rows to evaluate a model on, not for training rows.
    """
    if column in table.class_names:
        return _read_class_label(table, column, kind)
    values, notes = _read_values(table, column)
    is_numeric = _refuse_mixture(table, column, values, kind)
    decided, reason = (kind, "") if kind in ("classification", "regression") else _decide(values, is_numeric)
    if decided == "regression":
        if not is_numeric:
            raise table.error(0, column, f"{show(values[0])} is not a number; regression needs numbers")
        numbers = _to_finite(table, column, values)
        if len(set(numbers)) == 1:
            raise DataError(
                f"{table.name}: column {show(column)}: every one of {counted(len(numbers), 'row')} is {numbers[0]:g}; "
                "there is nothing to predict"
            )
        if reason:
            notes += (f"column {show(column)} is taken as numbers to predict (regression): {reason}",)
        return LabelColumn(kind="regression", names=(), labels=numbers, notes=notes)
    if is_numeric:
        _to_finite(table, column, values)
    names = _class_names(table, column, values, is_numeric, is_asked=kind == "classification", may_be_one=may_be_one)
    number_of = {name: number for number, name in enumerate(names)}
    labels = tuple([number_of[name_of(value, is_numeric)] for value in values])
    return LabelColumn(kind="classification", names=names, labels=labels, notes=notes)


def parse_known_labels(table: RawTable, column: str, known: LabelColumn) -> Labels:
    """Return the labels of further rows (validation, test) of a task whose classes are known."""
    if known.kind == "regression":
        return _to_finite(table, column, _read_values(table, column)[0])
    numbers = {name: number for number, name in enumerate(known.names)}
    if column in table.class_names:
        names = table.class_names[column]
        values: list[Value] = [names[number] for number in _check_class_numbers(table, column)]
    else:
        values, _ = _read_values(table, column)
    number_of: dict[tuple[type, Value], int] = {}
    for index, value in enumerate(values):
        if (type(value), value) not in number_of:
            name = next((n for n in (str(value), name_of(value, True)) if n in numbers), None)
            if name is None:
                hint = did_you_mean(str(value), known.names)
                raise table.error(index, column, f"{show(value)} is not one of {listed(known.names, most=20)}{hint}")
            number_of[type(value), value] = numbers[name]
    return tuple([number_of[type(value), value] for value in values])


def parse_choice_labels(table: RawTable, column: str, choices: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return the number of the right choice in every row, counted from 0."""
    values, _ = _read_values(table, column)
    labels = []
    for index, (value, candidates) in enumerate(zip(values, choices, strict=True)):
        number = _as_number(value)
        if number is None or not (0 <= number < len(candidates) and number == int(number)):
            raise table.error(
                index,
                column,
                f"{show(value)} is not the number of a choice, 0 to {len(candidates) - 1} (counted from 0)",
            )
        labels.append(int(number))
    return tuple(labels)


def name_of(value: Value, is_numeric: bool) -> str:
    """Return the class name of a value: 1, 1.0 and '1' are one class if all labels are numbers."""
    number = _as_number(value) if is_numeric else None
    if number is None:
        return str(value)
    return str(int(number)) if math.isfinite(number) and number == int(number) else repr(float(number))


def _read_values(table: RawTable, column: str) -> tuple[list[Value], tuple[str, ...]]:
    """Return the cells without surrounding spaces, each a single value, and a note about removed spaces."""
    values: list[Value] = []
    missing: list[int] = []
    cut = 0
    for index, cell in enumerate(table.columns[column]):
        if is_missing(cell) or (isinstance(cell, str) and cell.strip().lower() in _WRITTEN_MISSING):
            missing.append(index)
        elif isinstance(cell, str):
            values.append(cell.strip())
            cut += values[-1] != cell
        elif isinstance(cell, bool | int | float):
            values.append(cell)
        else:
            raise table.error(index, column, _not_a_label(table, index, cell))
    if missing:
        raise _missing_labels(table, column, missing)
    notes = (f"spaces around {counted(cut, 'label')} in column {show(column)} were removed",) if cut else ()
    return values, notes


def _missing_labels(table: RawTable, column: str, missing: list[int]) -> DataError:
    problem = "no such key" if table.columns[column][missing[0]] is MISSING else "no label"
    rows = f" ({counted(len(missing), 'row')} of {len(table):,}: {listed([table.rows[i] for i in missing])})"
    return table.error(missing[0], column, f"{problem}{rows if len(missing) > 1 else ''}; label the row or remove it")


def _not_a_label(table: RawTable, index: int, cell: object) -> str:
    if not isinstance(cell, list | tuple):
        return f"{show(cell)} is not a label; give a string or a number"
    for name, cells in table.columns.items():
        value = cells[index]
        tokens = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        if value is not cell and len(cell) > 1 and len(tokens) == len(cell) and name:
            return f"a list of {len(cell)} labels, one per token of {show(name)}; token labels are not supported"
    return f"a list ({show(cell, width=40)}); multi-label rows are not supported, give one label per row"


def _refuse_mixture(table: RawTable, column: str, values: list[Value], kind: Kind | None) -> bool:
    """Whether all labels are numbers; refuse a mixture of numbers and names, at a row of the rarer kind."""
    kinds = [_kind_of(value, table.cells) for value in values]
    counts = Counter(kinds).most_common()
    if len(counts) > 1 and (kind != "classification" or table.cells == "typed"):
        usual, rare = counts[0][0], counts[-1][0]
        odd = kinds.index(rare)
        count = f"{counts[0][1]:,} of {len(values):,} labels are {usual}s"
        problem, remedy = f"is a {rare}", "fix it, or make all labels names"
        if kind == "regression" or usual == "number":
            problem, remedy = "is not a number", "fix or remove the row"
        raise table.error(odd, column, f"{show(values[odd])} {problem}, but {count}; {remedy}")
    return len(counts) == 1 and counts[0][0] == "number"


def _kind_of(value: Value, cells: str) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float) or (cells == "text" and _NUMBER.fullmatch(value)):
        return "number"
    return "name"


def _as_number(value: Value) -> int | float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value) if not value.lstrip("+-").isdigit() or len(value) > 400 else int(value)
    return None if isinstance(value, str | bool) else value


def _to_finite(table: RawTable, column: str, values: Sequence[Value]) -> tuple[float, ...]:
    numbers = []
    for index, value in enumerate(values):
        number = _as_number(value)
        if number is None:
            raise table.error(index, column, f"{show(value)} is not a number; this column is a regression target")
        try:
            numbers.append(float(number))
        except OverflowError:
            numbers.append(math.inf)
        if not math.isfinite(numbers[-1]):
            raise table.error(index, column, f"{show(value)} is not a finite number; fix or remove the row")
    return tuple(numbers)


def _decide(values: list[Value], is_numeric: bool) -> tuple[Kind, str]:
    if not is_numeric:
        return "classification", ""
    numbers = [n for n in map(_as_number, values) if n is not None]
    if any(isinstance(n, float) and math.isfinite(n) and n != int(n) for n in numbers):
        return "regression", "it contains fractions"
    distinct = len(set(numbers))
    if distinct > MOST_WHOLE_NUMBER_CLASSES and distinct * 10 > len(numbers):
        return "regression", f"it contains {distinct:,} different whole numbers in {len(numbers):,} rows"
    return "classification", ""


def _class_names(
    table: RawTable, column: str, values: list[Value], is_numeric: bool, *, is_asked: bool, may_be_one: bool
) -> tuple[str, ...]:
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        first.setdefault(name_of(value, is_numeric), index)
    if len(first) == 1 and not may_be_one:
        raise _single_class(table, column, next(iter(first)))
    if len(first) > 2 and len(first) * 2 > len(values) and not is_numeric and not is_asked:
        many = f"{table.name}: column {show(column)}: {len(first):,} different values in {len(values):,} rows; "
        if all(_DECIMAL_COMMA.fullmatch(name) for name in first):
            like = next(iter(first))
            raise DataError(f"{many}numbers are written with a point: {like.replace(',', '.')}, not {like}")
        raise DataError(
            f"{many}this looks like text, not labels (choose the column with `label`, or pass `kind='classification'`)"
        )
    folded: dict[str, str] = {}
    for name, index in first.items():
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise table.error(
                index,
                column,
                f"{show(name)} and {show(other)} (row {table.rows[first[other]]}) differ only in case; make them one",
            )
    return tuple(sorted(first, key=float)) if is_numeric else tuple(sorted(first))


def _single_class(table: RawTable, column: str, name: str) -> DataError:
    return DataError(
        f"{table.name}: column {show(column)}: only one class ({show(name)}) in {counted(len(table), 'row')}; "
        "two or more are needed"
    )


def _read_class_label(table: RawTable, column: str, kind: Kind | None) -> LabelColumn:
    if kind == "regression":
        raise OptionError(
            f"{table.name}: column {show(column)} contains classes, not numbers; it cannot be a regression target"
        )
    names = table.class_names[column]
    labels = _check_class_numbers(table, column)
    if len(set(labels)) == 1:
        raise _single_class(table, column, names[labels[0]])
    absent = [name for number, name in enumerate(names) if number not in set(labels)]
    notes = (f"no training row has the label {listed(absent)}",) if absent else ()
    return LabelColumn(kind="classification", names=names, labels=labels, notes=notes)


def _check_class_numbers(table: RawTable, column: str) -> tuple[int, ...]:
    """Return the class numbers of a column with known names; `datasets` writes -1 for 'no label'."""
    cells = table.columns[column]
    missing = [index for index, cell in enumerate(cells) if is_missing(cell) or cell == -1]
    if missing:
        raise _missing_labels(table, column, missing)
    names = table.class_names[column]
    labels = []
    for index, cell in enumerate(cells):
        if not isinstance(cell, int) or not 0 <= cell < len(names):
            raise table.error(index, column, f"{show(cell)} is not a class number, 0 to {len(names) - 1}")
        labels.append(int(cell))
    return tuple(labels)
