"""Options of scores, strategies, methods and studies that a user sets by name, as values or as command-line words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any

from frostline.errors import OptionError, did_you_mean

_WORDS = {"yes": True, "no": False, "true": True, "false": False}
_KINDS = {bool: "yes or no", int: "a whole number", float: "a number", str: "a word"}


def read_options(owner: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options with their values; refuse unknown options and values whose type is not the default's.

    Args:
        owner: the owner of the options in messages, such as 'strategy top-k'.
        defaults: all options with their default values.
        given: the options that the user set.
    """
    for name in given:
        if name not in defaults:
            names = ", ".join(defaults) or "none"
            raise OptionError(f"{owner}: unknown option {name!r}{did_you_mean(name, defaults)}; known: {names}")
    return {**defaults, **{name: _read_value(owner, name, defaults[name], value) for name, value in given.items()}}


def _read_value(owner: str, name: str, default: Any, raw: Any) -> Any:
    value, kind = raw, type(default)
    if isinstance(raw, str) and kind is bool:
        value = _WORDS.get(raw.lower(), raw)
    elif (isinstance(raw, str) and kind in (int, float)) or (type(raw) is int and kind is float):
        with suppress(ValueError):
            value = kind(raw)
    if type(value) is not kind:
        raise OptionError(f"{owner}: {name} {raw!r} must be {_KINDS[kind]}")
    if kind is float and not isfinite(value):
        raise OptionError(f"{owner}: {name} {raw!r} must be finite")
    return value


def parse_options(pieces: Iterable[str], *, where: str) -> dict[str, str]:
    """Return the options in pieces such as 'rank=8' as words by name; refuse other forms and repeated names.

    Args:
        pieces: words of the form 'name=value'.
        where: the owner of the options, which begins every message.
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
    """Return options as users write them after a strategy or a method: 'layers=2,keep_top=yes'."""
    return ",".join(f"{name}={as_word(value)}" for name, value in options.items())


def as_word(value: object) -> str:
    """Return the value as it is written on a command line."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
