"""A command as typer reads it: one flag for each field of its groups of options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any, get_type_hints


def expand_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with the fields of its groups as parameters.

    typer makes a flag of every parameter. Options that several commands share are a dataclass; a command takes it as
    one parameter, which is replaced by the dataclass's fields here and filled from them when the command is called.
    """
    own = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation for name, parameter in own.items() if is_dataclass(parameter.annotation)
    }
    flags: list[Parameter] = []
    for name, parameter in own.items():
        flags += _flags(groups[name]) if name in groups else [parameter.replace(kind=Parameter.KEYWORD_ONLY)]

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


def _flags(group: type[Any]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [field.replace(annotation=hints[name]) for name, field in inspect.signature(group).parameters.items()]
