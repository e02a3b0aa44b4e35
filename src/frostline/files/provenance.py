"""How a result was made: the running command and the versions of the libraries."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

_RECORDED = ("frostline", "torch", "transformers", "numpy", "scikit-learn", "scipy")


def command() -> list[str]:
    """Return the command that is running; empty in a user's own program or notebook."""
    program = Path(sys.argv[0])
    is_ours = program.name.startswith("frostline") or program.parts[-2:] == ("frostline", "__main__.py")
    return ["frostline", *sys.argv[1:]] if is_ours else []


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that a result depends on."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _RECORDED}}
