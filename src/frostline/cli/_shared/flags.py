"""Names of flags instead of parameters in the library's messages."""

from __future__ import annotations

import re

_PARAMETER = re.compile(r"`([a-z][a-z_]*)(?:=([^`]*))?`")
_QUOTES = "'\""

# Parameters whose flags have other names.
_OTHER = {"encoder": "--model", "task": "--data", "form": "--format", "scheme": "--theme"}


def with_flags(text: str) -> str:
    """Return the message with a flag for every parameter: '--max-latency 2' for '`max_latency=2`'."""
    return _PARAMETER.sub(lambda match: _flag(match[1], match[2]), text)


def _flag(name: str, value: str | None) -> str:
    if name == "goal" and value:
        return f"--{value.strip(_QUOTES)}"
    flag = _OTHER.get(name, f"--{name.replace('_', '-')}")
    return flag if value in (None, "True") else f"{flag} {value.strip(_QUOTES)}"
