"""Options that a user sets by name, of scores, strategies, methods and studies: values, or words of a command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from frostline.errors import OptionError, did_you_mean

_WORDS = {"yes": True, "no": False, "true": True, "false": False}
_KINDS = {bool: "yes or no", int: "a whole number", float: "a number", str: "a word"}


def read_options(owner: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """All options with their values, refusing unknown ones and values of another kind than the default's.

    Args:
        owner: who has the options, in messages, as in 'strategy top-k'.
        defaults: the options and what they are unless set.
        given: those that are set.
    """
    for name in given:
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise OptionError(f"{owner}: unknown option {name!r}{did_you_mean(name, defaults)}; known: {known}")
    return {**defaults, **{name: _value(owner, name, defaults[name], value) for name, value in given.items()}}


def _value(owner: str, name: str, default: Any, given: Any) -> Any:
    value, kind = given, type(default)
    if isinstance(given, str) and kind is bool:
        value = _WORDS.get(given.lower(), given)
    elif isinstance(given, str) and kind in (int, float):
        try:
            value = kind(given)
        except ValueError:
            value = given
    elif type(given) is int and kind is float:
        value = float(given)
    if type(value) is not kind:
        raise OptionError(f"{owner}: {name} {given!r} must be {_KINDS[kind]}")
    if kind is float and not isfinite(value):
        raise OptionError(f"{owner}: {name} {given!r} must be finite")
    return value


def parse_options(pieces: Iterable[str], *, where: str) -> dict[str, str]:
    """Words by name from pieces such as 'rank=8', refusing other forms and a name that comes twice.

    Args:
        pieces: each 'name=value'.
        where: what they are given to, in messages.
    """
    options: dict[str, str] = {}
    for piece in pieces:
        name, sign, value = (part.strip() for part in piece.partition("="))
        if not sign or not name:
            raise OptionError(f"{where}: {piece!r} is not of the form name=value")
        if name in options:
            raise OptionError(f"{where}: {name} is given twice; give it once")
        options[name] = value
    return options


def in_words(options: Mapping[str, object]) -> str:
    """Options as they are written behind a strategy or a method: 'layers=2,keep_top=yes'."""
    return ",".join(f"{name}={as_word(value)}" for name, value in options.items())


def as_word(value: object) -> str:
    """The value as it is written on a command line."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
