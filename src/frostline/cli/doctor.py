"""`frostline doctor`: what this installation has: a first look when something fails, and for bug reports."""

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
    """Show versions, devices, the cache and the demo's files on this machine; nothing is fetched.

    Attach it to a bug report. Whether the hub can be reached is not tried.
    """
    with screen.starting():
        found = {"versions": _versions(), "devices": _devices(), "cache": _cache(), "demo": _demo()}
    problems = _problems(found)
    if as_json:
        screen.print_json({**found, "problems": problems})
    else:
        _show(found)
    for problem in problems:
        logger.warning("%s", problem)


def _versions() -> dict[str, str | None]:
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


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

    packages = {"encoder": demo_assets.ENCODER, "data": demo_assets.RATINGS}
    there = {name: demo_assets.is_at_hand(package) for name, package in packages.items()}
    return {"folder": str(demo_assets.cache_folder()), **there}


def _problems(found: Mapping[str, Any]) -> list[str]:
    """Return what is going to fail, each with what to do."""
    missing = [name for name, version in found["versions"].items() if version is None and name not in _OPTIONAL]
    problems = [f"{name} is not installed; install Frostline again" for name in missing]
    cache = found["cache"]
    if not cache["is_writable"]:
        problems.append(f"{cache['folder']}: cannot be written; set FROSTLINE_CACHE to another folder")
    elif cache["free"] < _LITTLE:
        free = screen.size_in_words(cache["free"])
        problems.append(f"{cache['folder']}: {free} of disk are free; make room, or set FROSTLINE_CACHE")
    return problems


def _show(found: Mapping[str, Any]) -> None:
    versions, devices, cache, demo = found["versions"], found["devices"], found["cache"], found["demo"]
    rows = [[name, version or f"not installed ({_OPTIONAL.get(name, 'needed')})"] for name, version in versions.items()]
    cpu = devices["cpu"]
    rows += [
        ["system", devices["platform"]],
        ["cpu", f"{cpu['cores']} cores, {cpu['threads']} threads used"],
        ["cuda", ", ".join(devices["cuda"]) or "none"],
        ["mps", "yes" if devices["mps"] else "none"],
        ["cache", cache["folder"]],
        ["", f"{screen.size_in_words(cache['size'])} of at most {screen.size_in_words(cache['limit'])}"],
        ["", f"{screen.size_in_words(cache['free'])} of disk free"],
        ["demo encoder", _demo_in_words(demo, "encoder")],
        ["demo data", _demo_in_words(demo, "data")],
    ]
    screen.out().print(screen.table(["what", "here"], rows))


def _demo_in_words(demo: Mapping[str, Any], part: str) -> str:
    return f"in {demo['folder']}" if demo[part] else "fetched when it is first needed"
