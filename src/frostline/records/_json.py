"""Records as JSON and back, in one way for all of them.

Writing is plain recursion over the fields. Reading is pydantic's, over the frozen dataclasses as they are: strict about
types, with the path of the field that is wrong, and the source of the JSON schemas. (cattrs makes no schemas; msgspec
cannot refuse unknown fields of a dataclass.) pydantic is imported by the first record that is read, never before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeVar

from frostline.errors import RecordError, UserError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT_VERSION: Final[Literal[1]] = 1  # of every file that Frostline writes
Number = int | float  # kept as it is written: 1 and 1.0 have different hashes
T = TypeVar("T")


class Record:
    """A frozen dataclass that is written as JSON and read back as it was."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"strict": True, "extra": "forbid", "allow_inf_nan": False}

    left_out_at_default: ClassVar[Sequence[str]] = ()  # fields that are written only if they were set

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        assert is_dataclass(self)  # noqa: S101 (every record is one)
        return {
            field.name: plain(getattr(self, field.name))
            for field in fields(self)
            if field.name not in self.left_out_at_default or getattr(self, field.name) != default_of(field)
        }

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return the record that `to_json` wrote; a `RecordError` explains what is wrong with anything else."""
        return read(cls, json.dumps(plain(data)))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the record in a JSON text."""
        return read(cls, text)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Return the record in a JSON file; the message of an error begins with the file."""
        return read_file(cls, path)


def plain(value: Any) -> Any:
    """Return the value as JSON gives it back: lists for tuples, plain dicts for mappings and records."""
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, tuple | list) else value


def read(kind: type[T], text: str) -> T:
    """Return the value in a JSON text: a record, or any type that is made of records.

    A record with older versions has a class method `upgraded`, from their JSON values to those of this version.

    Args:
        kind: a record, or a type such as `tuple[Table, ...]`.
        text: JSON.
    """
    from pydantic import ValidationError

    upgraded = getattr(kind, "upgraded", None)
    if upgraded is not None:
        # Anything that is not an older version either is read as it is, and the error explains what is wrong with it.
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            text = json.dumps(upgraded(json.loads(text)))
    try:
        value: T = adapter(kind).validate_json(text)  # type: ignore[arg-type]  # types can be hashed
        return value
    except ValidationError as error:
        raise RecordError(_first_problem(error, text)) from None
    except UserError as error:  # raised by the record itself
        raise RecordError(str(error)) from None


def read_file(kind: type[T], path: Path) -> T:
    """Return the value in a JSON file, as `read` does; the message of an error begins with the file.

    Args:
        kind: a record, or a type such as `tuple[Table, ...]`.
        path: path of the file.
    """
    with _in_file(path):
        return read(kind, path.read_text(encoding="utf-8"))


def read_lines(kind: type[T], path: Path) -> list[T]:
    """Return the values in a file with a JSON text in every line.

    Args:
        kind: type of a line's value.
        path: path of the file.
    """
    values = []
    with _in_file(path):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line:
                with _in_file(f"line {number}"):
                    values.append(read(kind, line))
    return values


@contextmanager
def _in_file(path: Path | str) -> Iterator[None]:
    """Begin the message of an error with the file, or with a part of it."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: is not text ({error.reason})") from None
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from None


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a type."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _first_problem(error: Any, text: str) -> str:
    """Return the first problem in one line that begins with the path of the field."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"is not JSON ({first['ctx']['error']})"
    path, value = "", json.loads(text)
    for step in first["loc"]:
        if not isinstance(value, dict | list):
            break  # the rest names a member of a union
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
        value = value[step] if isinstance(value, list) else value.get(step)
    problem = {
        "missing": "is missing",
        "unexpected_keyword_argument": "is unknown",
        "value_error": str(first["msg"]).removeprefix("Value error, "),
    }.get(first["type"])
    if problem is None:
        wanted = str(first["msg"]).replace("Input should be", "must be")
        shown = json.dumps(value, ensure_ascii=False)
        problem = f"{wanted}, not {shown if len(shown) <= 40 else f'{shown[:37]}...'}"
    return f"{path}: {problem}" if path else problem


def default_of(field: Field[Any]) -> Any:
    """Return the default value of a record's field."""
    return field.default if field.default_factory is MISSING else field.default_factory()
