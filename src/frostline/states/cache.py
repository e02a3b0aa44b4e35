"""Token states at one layer, computed once and kept on disk.

What lies below the lowest tuned layer never changes, so its output is computed once for every text and read from then
on. An entry is a folder: one flat file of states, unpadded, and a description with a checksum, written last and moved
into place whole. It is named after everything that its content depends on, so that runs share entries and never a wrong
one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from frostline.errors import OptionError
from frostline.files import demo_assets as embedded
from frostline.files.atomic import read_json, remove_leftovers, sync_file, work_folder
from frostline.files.checksums import bits_of, file_checksum
from frostline.files.disk_arrays import array_in
from frostline.kernels.batch_layout import Ints, Reads
from frostline.progress import Progress, Step, silent
from frostline.states.frozen import DType, FrozenStates, StatesAt, compute, rounded

if TYPE_CHECKING:
    from frostline.encoders.encoder import Encoder
    from frostline.encoders.tokens import Tokens


FORMAT = 2
DEFAULT_LIMIT = 32_000_000_000
_STATES, _ABOUT = "states.bin", "about.json"
_SPARE = 256 << 20  # bytes of disk that are always left free
# As entries are named; the first two have been written since there were no others.
_READS = {Reads.ALL: False, Reads.FIRST: True, Reads.LAST: "last"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of the cache, as `frostline cache` lists it."""

    folder: Path
    about: dict[str, Any]
    size: int
    last_used: float


def cache_folder() -> Path:
    """Where entries are kept: in FROSTLINE_CACHE, or where the embedded default is kept too."""
    given = os.environ.get("FROSTLINE_CACHE")
    return (Path(given) if given else embedded.cache_folder()) / "states"


def cache_limit() -> int:
    """Bytes that all entries together may take: FROSTLINE_CACHE_LIMIT in GB, or 32."""
    given = os.environ.get("FROSTLINE_CACHE_LIMIT")
    if not given:
        return DEFAULT_LIMIT
    try:
        limit = float(given)
        if not limit >= 0:
            raise ValueError
    except ValueError:
        raise OptionError(f"FROSTLINE_CACHE_LIMIT {given!r}: must be a number of gigabytes") from None
    return int(limit * 1e9)


def open_together(
    encoder: Encoder,
    tokens: Tokens,
    wanted: Sequence[StatesAt],
    *,
    dtype: DType = "float16",
    keep: bool = True,
    progress: Progress = silent,
) -> tuple[list[FrozenStates], list[str]]:
    """The states of texts at several layers; those that have to be built are built in one pass.

    Args:
        encoder: in eval mode.
        tokens: of the texts.
        wanted: layers, and which tokens are kept.
        dtype: of the states on disk.
        keep: use the disk.
        progress: progress callback.
    """
    made = [FrozenStates(encoder, tokens, at.layer, dtype=dtype, reads=at.reads) for at in wanted]
    if not keep:
        return made, []
    cache_limit()  # refuses a wrong one also where nothing has to be built
    notes = []
    missing: list[tuple[FrozenStates, Path]] = []
    for states in made:
        entry = cache_folder() / f"{_key(states)}-{dtype}"
        states.kept, broken = _open(entry, states)
        if broken:
            shutil.rmtree(entry, ignore_errors=True)
            notes.append(f"a cached file was damaged ({broken}) and is built again")
        if not states.is_kept:
            missing.append((states, entry))
    return made, [*notes, *_build(missing, progress)]


def _build(missing: Sequence[tuple[FrozenStates, Path]], progress: Progress) -> list[str]:
    """Compute states into new entries; what does not fit is said, and left to be computed when it is asked for."""
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        new: list[_New] = []
        for states, entry in missing:
            try:
                if reason := _make_place(states, entry.parent, taken=sum(other.states.size for other in new)):
                    notes.append(f"{reason}: recomputing them")
                    continue
                folder = stack.enter_context(work_folder(entry.parent))
                new.append(_New(states=states, entry=entry, folder=folder, array=_allocate(states, folder / _STATES)))
            except OSError as error:
                notes.append(f"frozen states cannot be kept in {entry.parent} ({error.strerror}): recomputing them")
        _fill(new, progress)
        for one in new:
            if not one.overflows:
                notes += _finish(one)
    too_large = [one for one in new if one.overflows]
    for one in too_large:
        one.states.dtype = "float32"
    if too_large:
        notes.append("float16 cannot hold these states (values beyond 65,504): they are kept as float32")
        notes += _build([(one.states, one.entry) for one in too_large], progress)
    return notes


@dataclass(kw_only=True)
class _New:
    """An entry that is being built."""

    states: FrozenStates
    entry: Path
    folder: Path
    array: np.ndarray[Any, Any]
    overflows: bool = False  # float16 cannot hold it


def _make_place(states: FrozenStates, root: Path, *, taken: int) -> str | None:
    """Make room for an entry beside others that are being built; why that cannot be, or None."""
    limit = cache_limit()
    if states.size + taken > limit:
        return f"frozen states take {_gigabytes(states.size + taken)}, more than the cache's {_gigabytes(limit)}"
    root.mkdir(parents=True, exist_ok=True)
    remove_leftovers(root)
    _make_room(root, states.size + taken, limit)
    free = shutil.disk_usage(root).free
    if states.size + _SPARE > free:
        return f"frozen states take {_gigabytes(states.size)}, the disk has {_gigabytes(free)} left"
    return None


def _allocate(states: FrozenStates, path: Path) -> np.ndarray[Any, Any]:
    with path.open("w+b") as file:
        return array_in(file, (int(states.lengths.sum()), states.encoder.width), states.dtype)


def _fill(new: Sequence[_New], progress: Progress) -> None:
    """Write all states, in one pass over the texts."""
    done = 0
    for rows, found in compute([one.states for one in new]) if new else ():
        for one, batch in zip(new, found, strict=True):
            kept = rounded(batch, one.states.dtype).cpu()
            one.overflows |= str(kept.dtype) != f"torch.{one.states.dtype}"
            if not one.overflows:
                _write(one, rows, kept.numpy())
        if all(one.overflows for one in new):
            return
        done += len(rows)
        progress(Step(stage="frozen states", done=done, total=len(new[0].states.tokens)))


def _write(one: _New, rows: Ints, values: np.ndarray[Any, Any]) -> None:
    at = 0
    for row in rows:
        place = one.states.place(int(row))
        one.array[place] = values[at : at + place.stop - place.start]
        at += place.stop - place.start


def _finish(one: _New) -> list[str]:
    """Describe an entry that is filled and move it into its place."""
    states, path = one.states, one.folder / _STATES
    try:
        one.array.flush()  # type: ignore[attr-defined]
        sync_file(path)
        about = {
            "format": FORMAT,
            "encoder": states.encoder.name,
            "layer": states.layer,
            "texts": len(states.tokens),
            "tokens": int(states.lengths.sum()),
            "width": states.encoder.width,
            "dtype": states.dtype,
            "checksum": file_checksum(path),
        }
        (one.folder / _ABOUT).write_text(json.dumps(about, indent=2), encoding="utf-8")
        with contextlib.suppress(OSError):  # another process was faster: its entry is the same
            one.folder.rename(one.entry)
        states.kept, _ = _open(one.entry, states)
    except OSError as error:
        states.kept = None
        return [f"frozen states cannot be kept in {one.entry.parent} ({error.strerror}): recomputing them"]
    return []


def _open(folder: Path, states: FrozenStates) -> tuple[np.ndarray[Any, Any] | None, str]:
    """The entry's states, and what is wrong with an entry that is there but cannot be used."""
    if not folder.is_dir():
        return None, ""
    try:
        about = read_json(folder / _ABOUT)
        path = folder / _STATES
        if about["dtype"] not in ("float16", "float32"):
            raise ValueError(about["dtype"])
        asked, states.dtype = states.dtype, about["dtype"]  # float32 where float16 was asked for and could not be had
        size_fits = path.stat().st_size == max(1, states.size)
        if not size_fits or about["format"] != FORMAT or about["checksum"] != file_checksum(path):
            states.dtype = asked
            return None, "its checksum is wrong" if size_fits else "its size is wrong"
        os.utime(folder / _ABOUT)  # says when it was last used
        shape = (int(states.lengths.sum()), states.encoder.width)
        return np.memmap(path, dtype=states.dtype, mode="r", shape=shape), ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, "it cannot be read" if isinstance(error, OSError) else "its description is broken"


def _key(states: FrozenStates) -> str:
    """A hash over everything that changes the states, except the number format they are kept in."""
    encoder, tokens = states.encoder, states.tokens
    digest = hashlib.sha256()
    unread = encoder.family.upper_keys
    config = {key: value for key, value in encoder.config.to_dict().items() if key not in unread}
    about = [
        FORMAT, states.layer, _READS[states.reads], config, encoder.order[: states.layer],
        (getattr(encoder.config, "layer_types", None) or [])[: states.layer],
        torch.__version__, torch.get_num_threads(), encoder.device.type,
    ]  # fmt: skip
    digest.update(json.dumps(about, sort_keys=True, default=str).encode())
    parts = encoder.parts()
    named = {
        **parts.embeddings,
        **{name: value for layer in parts.layers[: states.layer] for name, value in layer.items()},
    }
    for name, value in sorted(named.items()):
        digest.update(f"{name} {tuple(value.shape)}".encode())
        digest.update(bits_of(value))
    for array in (tokens.ids, tokens.types, tokens.lengths):
        digest.update(bits_of(array))
    return digest.hexdigest()[:32]


def list_entries() -> list[Entry]:
    """The entries of the cache, the most recently used first."""
    found = []
    root = cache_folder()
    for path in root.glob(f"*/{_ABOUT}") if root.is_dir() else ():
        with contextlib.suppress(OSError, ValueError):
            about = read_json(path)
            size = sum(file.stat().st_size for file in path.parent.iterdir())
            found.append(Entry(folder=path.parent, about=about, size=size, last_used=path.stat().st_mtime))
    return sorted(found, key=lambda entry: -entry.last_used)


def clear_entries() -> int:
    """Remove all entries; the bytes that were freed."""
    root = cache_folder()
    files = [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else []
    size = sum(path.stat().st_size for path in files)
    shutil.rmtree(root, ignore_errors=True)  # damaged and half-built ones too
    return size


def _make_room(root: Path, size: int, limit: int) -> None:
    """Remove the entries that were not used for longest until there is room for `size` more bytes."""
    entries = [entry for entry in list_entries() if entry.folder.parent == root]
    while entries:
        taken = sum(entry.size for entry in entries)
        if taken + size <= limit and size + _SPARE <= shutil.disk_usage(root).free:
            return
        shutil.rmtree(entries.pop().folder, ignore_errors=True)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
