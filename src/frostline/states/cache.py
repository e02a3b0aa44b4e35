"""Token states at one layer, computed once and kept on disk.

The layers below the lowest tuned one never change, so their output is computed once for every text and read from then
on. An entry is a folder with one flat file of unpadded states and a description with a checksum, which is written last;
the finished folder is moved to its place. Its name is a hash over everything that its content depends on, so runs share
entries and never read a wrong one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.errors import OptionError
from frostline.files import demo_assets as embedded
from frostline.files.atomic import read_json, remove_leftovers, sync_file, work_folder
from frostline.files.checksums import bits_of, file_checksum
from frostline.files.disk_arrays import array_in
from frostline.kernels.batch_layout import Reads
from frostline.progress import Progress, Step, silent
from frostline.states.frozen import DType, FrozenStates, StatesAt, round_states
from frostline.states.layer_pass import TextBatch, each_layer
from frostline.states.pooled import STAGE, PooledStates

FORMAT = 2
_DEFAULT_LIMIT = "32"  # GB
_STATES, _ABOUT = "states.bin", "about.json"
_SPARE = 256 << 20  # bytes of disk that always stay free
# In names of entries; the first two are older than the third.
_READS = {Reads.ALL: False, Reads.FIRST: True, Reads.LAST: "last"}


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """One entry of the cache, for `frostline cache`."""

    folder: Path
    about: dict[str, Any]
    size: int
    last_used: float


def cache_folder() -> Path:
    """Return the folder of all entries: in FROSTLINE_CACHE, or beside the embedded default."""
    root = os.environ.get("FROSTLINE_CACHE")
    return (Path(root) if root else embedded.cache_folder()) / "states"


def cache_limit() -> int:
    """Return the largest size of all entries together in bytes: FROSTLINE_CACHE_LIMIT in GB, or 32."""
    gigabytes = os.environ.get("FROSTLINE_CACHE_LIMIT") or _DEFAULT_LIMIT
    try:
        limit = float(gigabytes)
    except ValueError:
        limit = -1
    if not limit >= 0:
        raise OptionError(f"FROSTLINE_CACHE_LIMIT {gigabytes!r}: must be a number of gigabytes")
    return int(limit * 1e9)


def open_together(
    encoder: Encoder,
    tokens: Tokens,
    places: Sequence[StatesAt],
    *,
    dtype: DType = "float16",
    keep: bool = True,
    pooled: PooledStates | None = None,
    progress: Progress = silent,
) -> tuple[list[FrozenStates], list[str]]:
    """Return the states of texts at several layers, and notes; missing entries are built in one pass.

    The same pass collects pooled states where they are asked for, even if no entry is missing.

    Args:
        encoder: the encoder, in eval mode.
        tokens: tokens of the texts.
        places: layers, and the tokens to keep.
        dtype: number format of the states on disk.
        keep: whether to use the disk.
        pooled: pooled states of the same texts, to be collected from the same pass.
        progress: progress callback.
    """
    all_states = [FrozenStates(encoder, tokens, at.layer, dtype=dtype, reads=at.reads) for at in places]
    if not keep:
        _fill([], pooled, progress)
        return all_states, []
    cache_limit()  # refuses a wrong limit even if nothing has to be built
    notes = []
    missing: list[tuple[FrozenStates, Path]] = []
    for states in all_states:
        entry = cache_folder() / f"{_key(states)}-{dtype}"
        states.kept, broken = _open(entry, states)
        if broken:
            shutil.rmtree(entry, ignore_errors=True)
            notes.append(f"a cached file was damaged ({broken}) and is rebuilt")
        if not states.is_kept:
            missing.append((states, entry))
    return all_states, [*notes, *_build(missing, pooled, progress)]


def _build(missing: Sequence[tuple[FrozenStates, Path]], pooled: PooledStates | None, progress: Progress) -> list[str]:
    """Compute states into new entries, and return notes about those that do not fit, which are computed on demand."""
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        new: list[_New] = []
        for states, entry in missing:
            try:
                if reason := _reserve(states, entry.parent, taken=sum(other.states.size for other in new)):
                    notes.append(f"{reason}: recomputing them")
                    continue
                folder = stack.enter_context(work_folder(entry.parent))
                with (folder / _STATES).open("w+b") as file:
                    array = array_in(file, (int(states.lengths.sum()), states.encoder.width), states.dtype)
                new.append(_New(states=states, entry=entry, folder=folder, array=array))
            except OSError as error:
                notes.append(f"frozen states cannot be kept in {entry.parent} ({error.strerror}): recomputing them")
        _fill(new, pooled, progress)
        for built in new:
            if not built.overflows:
                notes += _finish(built)
    too_large = [(built.states, built.entry) for built in new if built.overflows]
    for states, _ in too_large:
        states.dtype = "float32"
    if too_large:
        notes.append("float16 cannot hold these states (values beyond 65,504): they are kept as float32")
        notes += _build(too_large, None, progress)
    return notes


@dataclass(kw_only=True)
class _New:
    """An entry that is being built."""

    states: FrozenStates
    entry: Path
    folder: Path
    array: np.ndarray[Any, Any]
    overflows: bool = False  # float16 cannot hold it

    def add(self, batch: TextBatch, states: torch.Tensor) -> None:
        """Write the states of a batch, unless their number format cannot hold them."""
        kept = round_states(batch.layout.read(states, self.states.reads), self.states.dtype).cpu()
        self.overflows = str(kept.dtype) != f"torch.{self.states.dtype}"
        if not self.overflows:
            self.array[self.states.positions(batch.rows)] = kept.numpy()


def _reserve(states: FrozenStates, root: Path, *, taken: int) -> str | None:
    """Make room for an entry beside others that are being built; return why that is impossible, or None."""
    limit, needed = cache_limit(), states.size + taken
    if needed > limit:
        return f"frozen states need {_gigabytes(needed)}, more than the cache's limit of {_gigabytes(limit)}"
    root.mkdir(parents=True, exist_ok=True)
    remove_leftovers(root)
    entries = list_entries()
    while entries and (
        sum(entry.size for entry in entries) + needed > limit or shutil.disk_usage(root).free < needed + _SPARE
    ):
        shutil.rmtree(entries.pop().folder, ignore_errors=True)  # the least recently used
    free = shutil.disk_usage(root).free
    if states.size + _SPARE > free:
        return f"frozen states need {_gigabytes(states.size)}, but the disk has {_gigabytes(free)} free"
    return None


def _fill(new: Sequence[_New], pooled: PooledStates | None, progress: Progress) -> None:
    """Write all states, and collect pooled ones, in one pass over the texts."""
    if not new:
        if pooled is not None:
            pooled.run(progress)
        return
    encoder, tokens, done = new[0].states.encoder, new[0].states.tokens, 0
    last = max(entry.states.layer for entry in new) if pooled is None else encoder.depth
    for batch, layer, states in each_layer(encoder, tokens, last=last):
        for entry in new:
            if entry.states.layer == layer and not entry.overflows:
                entry.add(batch, states)
        if pooled is not None:
            pooled.add(batch, layer, states)
        elif all(entry.overflows for entry in new):
            return
        if layer == last:
            done += len(batch.rows)
            progress(Step(stage="frozen states" if pooled is None else STAGE, done=done, total=len(tokens)))


def _finish(entry: _New) -> list[str]:
    """Describe a complete entry and move it to its place."""
    states, path = entry.states, entry.folder / _STATES
    try:
        entry.array.flush()  # type: ignore[attr-defined]
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
        (entry.folder / _ABOUT).write_text(json.dumps(about, indent=2), encoding="utf-8")
        with contextlib.suppress(OSError):  # another process was faster: its entry is the same
            entry.folder.rename(entry.entry)
        states.kept, _ = _open(entry.entry, states)
    except OSError as error:
        states.kept = None
        return [f"frozen states cannot be kept in {entry.entry.parent} ({error.strerror}): recomputing them"]
    return []


def _open(folder: Path, states: FrozenStates) -> tuple[np.ndarray[Any, Any] | None, str]:
    """Return the entry's states, and the problem of an entry that exists but cannot be used."""
    if not folder.is_dir():
        return None, ""
    try:
        about = read_json(folder / _ABOUT)
        path = folder / _STATES
        if about["dtype"] not in ("float16", "float32"):
            raise ValueError(about["dtype"])
        shape = (int(states.lengths.sum()), states.encoder.width)
        size_fits = path.stat().st_size == max(1, math.prod(shape) * np.dtype(about["dtype"]).itemsize)
        if not size_fits or about["format"] != FORMAT or about["checksum"] != file_checksum(path):
            return None, "its checksum is wrong" if size_fits else "its size is wrong"
        os.utime(folder / _ABOUT)  # the time of the last use
        states.dtype = about["dtype"]  # float32 if float16 was asked for and overflowed
        return np.memmap(path, dtype=states.dtype, mode="r", shape=shape), ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, "it cannot be read" if isinstance(error, OSError) else "its description is broken"


def _key(states: FrozenStates) -> str:
    """Return a hash over everything that the states depend on, except their number format."""
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


def list_entries() -> list[CacheEntry]:
    """Return the entries of the cache, the most recently used first."""
    entries = []
    for path in cache_folder().glob(f"*/{_ABOUT}"):
        with contextlib.suppress(OSError, ValueError):
            about = read_json(path)
            size = sum(file.stat().st_size for file in path.parent.iterdir())
            entries.append(CacheEntry(folder=path.parent, about=about, size=size, last_used=path.stat().st_mtime))
    return sorted(entries, key=lambda entry: -entry.last_used)


def clear_entries() -> int:
    """Remove all entries, and return the number of freed bytes."""
    root = cache_folder()
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    shutil.rmtree(root, ignore_errors=True)  # also damaged and incomplete entries
    return size


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
