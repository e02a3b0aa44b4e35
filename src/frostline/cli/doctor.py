"""`frostline doctor`: the state of this installation, for troubleshooting and bug reports."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from frostline.cli._shared import options, screen
from frostline.progress import logger

_PACKAGES = (
    "frostline", "torch", "transformers", "peft", "datasets", "safetensors", "numpy", "scikit-learn", "scipy", "ray",
)  # fmt: skip
_OPTIONAL = {"ray": "for trials on several machines"}
_LITTLE = 5_000_000_000  # bytes of free disk below which the states of a larger encoder may not fit


def command(as_json: options.Json = False) -> None:
    """Print versions, devices and the state of the cache, for bug reports.

    Nothing is downloaded, and the connection to the hub is not tested.
    """
    with screen.starting():
        facts = {"versions": _versions(), "devices": _devices(), "cache": _cache(), "demo": _demo()}
    problems = _problems(facts)
    if as_json:
        screen.print_json({**facts, "problems": problems})
    else:
        _show(facts)
    for problem in problems:
        logger.warning("%s", problem)


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _devices() -> dict[str, Any]:
    import torch

    cuda = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "platform": platform.platform(),
        "cpu": {"cores": os.cpu_count(), "threads": torch.get_num_threads()},
        "cuda": cuda,
        "mps": torch.backends.mps.is_available(),
    }


def _cache() -> dict[str, Any]:
    from frostline.states.cache import cache_folder, cache_limit, list_entries

    folder = cache_folder()
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return {
        "folder": str(folder),
        "size": sum(entry.size for entry in list_entries()),
        "limit": cache_limit(),
        "free": shutil.disk_usage(there).free,
        "is_writable": _is_writable(there),
    }


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell
            return True
    except OSError:
        return False


def _demo() -> dict[str, Any]:
    from frostline.files import demo_assets

    return {
        "folder": str(demo_assets.cache_folder()),
        "encoder": demo_assets.is_cached(demo_assets.ENCODER),
        "data": demo_assets.is_cached(demo_assets.RATINGS),
    }


def _problems(facts: Mapping[str, Any]) -> list[str]:
    """Return the problems, each with what to do."""
    missing = [name for name, version in facts["versions"].items() if version is None and name not in _OPTIONAL]
    problems = [f"{name} is not installed; reinstall Frostline" for name in missing]
    cache = facts["cache"]
    if not cache["is_writable"]:
        problems.append(f"{cache['folder']}: cannot be written; set FROSTLINE_CACHE to another folder")
    elif cache["free"] < _LITTLE:
        free = screen.size_in_words(cache["free"])
        problems.append(f"{cache['folder']}: only {free} of disk space are free; free some, or set FROSTLINE_CACHE")
    return problems


def _show(facts: Mapping[str, Any]) -> None:
    versions, devices, cache, demo = facts["versions"], facts["devices"], facts["cache"], facts["demo"]
    rows = [
        [name, version or f"not installed ({_OPTIONAL.get(name, 'required')})"] for name, version in versions.items()
    ]
    cpu = devices["cpu"]
    rows += [
        ["system", devices["platform"]],
        ["cpu", f"{cpu['cores']} cores, {cpu['threads']} threads used"],
        ["cuda", ", ".join(devices["cuda"]) or "none"],
        ["mps", "yes" if devices["mps"] else "none"],
        ["cache", cache["folder"]],
        ["", f"{screen.size_in_words(cache['size'])} of at most {screen.size_in_words(cache['limit'])}"],
        ["", f"{screen.size_in_words(cache['free'])} of disk space free"],
        ["demo encoder", _demo_in_words(demo, "encoder")],
        ["demo data", _demo_in_words(demo, "data")],
    ]
    screen.out().print(screen.table(["item", "value"], rows))


def _demo_in_words(demo: Mapping[str, Any], part: str) -> str:
    return f"in {demo['folder']}" if demo[part] else "downloaded on first use"
