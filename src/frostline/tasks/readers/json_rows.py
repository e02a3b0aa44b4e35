"""Readers of JSON lines and of JSON files with a list of objects."""

from __future__ import annotations

import json

from frostline.errors import DataError
from frostline.tasks.raw_table import MISSING, RawTable, show


def read_json_lines(name: str, text: str) -> RawTable:
    """Return the table in a text with one JSON object per line; blank lines are skipped."""
    objects: list[tuple[int, dict[str, object]]] = []
    for row, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as problem:
            raise DataError(f"{name}:{row}: broken JSON at character {problem.pos + 1}: {problem.msg}") from None
        except (RecursionError, ValueError):
            raise DataError(f"{name}:{row}: JSON nested too deeply, or a number too long, to be read") from None
        objects.append((row, _object(name, row, value)))
    return _table(name, objects)


def read_json(name: str, text: str) -> RawTable:
    """Return the table in a JSON list of objects (rows count from 1), or in JSON lines with the suffix .json."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as problem:
        if problem.msg == "Extra data" and text.lstrip().startswith("{"):
            return read_json_lines(name, text)
        if not text.strip():
            raise DataError(f"{name}: empty file") from None
        raise DataError(f"{name}:{problem.lineno}: broken JSON at character {problem.colno}: {problem.msg}") from None
    except (RecursionError, ValueError):
        raise DataError(f"{name}: JSON nested too deeply, or a number too long, to be read") from None
    if isinstance(value, dict) and "\n" not in text.strip() and not any(isinstance(x, list) for x in value.values()):
        return read_json_lines(name, text)
    if not isinstance(value, list):
        raise DataError(f"{name}: contains one JSON {_kind(value)}, expected a list of objects, one per row")
    return _table(name, [(row, _object(name, row, item)) for row, item in enumerate(value, start=1)])


def _object(name: str, row: int, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        hint = "; if the file is one list, name it .json" if isinstance(value, list) else ""
        raise DataError(
            f'{name}:{row}: a JSON {_kind(value)}, expected an object such as {{"text": ..., "label": ...}}{hint}'
        )
    return value


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds.get(type(value), "null")


def _table(name: str, objects: list[tuple[int, dict[str, object]]]) -> RawTable:
    if not objects:
        raise DataError(f"{name}: empty file")
    columns = dict.fromkeys(key for _, item in objects for key in item)
    for column in columns:
        if not column.strip():
            row = next(row for row, item in objects if column in item)
            raise DataError(f"{name}:{row}: a key has no name ({show(column)})")
    return RawTable(
        name=name,
        columns={column: [item.get(column, MISSING) for _, item in objects] for column in columns},
        rows=[row for row, _ in objects],
        cells="typed",
    )
