"""A command as typer reads it: one flag for each field of its groups of options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def expand_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with the fields of its groups as parameters.

    typer makes a flag of every parameter. Options that several commands share are a dataclass; a command takes it as
    one parameter, which is replaced by the dataclass's fields here and filled from them when the command is called.
    """
    own = inspect.signature(function, eval_str=True).parameters
    groups = {name: one.annotation for name, one in own.items() if _is_group(one.annotation)}
    flags = [
        flag for name, one in own.items() for flag in (_flags(groups[name]) if name in groups else (_keyword(one),))
    ]

    @functools.wraps(function)
    def call(**given: Any) -> None:
        filled = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        function(**given, **filled)

    call.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    call.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return call


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)


def _flags(group: type[Any]) -> tuple[inspect.Parameter, ...]:
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in fields(group)
    )


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _keyword(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
