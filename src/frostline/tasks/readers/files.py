"""Files -> `RawTable`: the reader for a file name, and checks that the content fits the name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from frostline.errors import DataError
from frostline.tasks.raw_table import RawTable, listed
from frostline.tasks.readers.arrow import read_parquet
from frostline.tasks.readers.delimited import read_csv, read_tsv
from frostline.tasks.readers.json_rows import read_json, read_json_lines

_TEXT_READERS: dict[str, Callable[[str, str], RawTable]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
}
SUFFIXES = (*_TEXT_READERS, ".parquet")

# The first bytes of files that have the wrong suffix.
_SIGNATURES = (
    (b"\x1f\x8b", "is compressed with gzip; add .gz to its name"),
    (b"PAR1", "is a Parquet file; name it .parquet"),
    (b"PK\x03\x04", "is a zip archive or spreadsheet; export it as CSV"),
    (b"\xff\xfe", "is UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text; save it as UTF-8"),
)


def has_known_suffix(path: str | Path) -> bool:
    """Whether the name has the suffix of a format that can be read, with or without .gz."""
    return format_of(path) in SUFFIXES


def format_of(path: str | Path) -> str:
    """Return the suffix that decides the format: '.csv' for both reviews.csv and reviews.csv.gz."""
    name = Path(path).name.lower().removesuffix(".gz")
    return Path(name).suffix


def read_file(path: str | Path) -> RawTable:
    """Return the rows of a CSV, TSV, JSON lines, JSON or Parquet file, plain or .gz."""
    suffix = format_of(path)
    if Path(path).is_dir():
        raise DataError(f"{path}: is a folder; give a file in it, or a preset with `data_dir={path}`")
    if suffix not in SUFFIXES:
        if not Path(path).exists():
            raise missing_file(Path(path))
        raise DataError(f"{path}: unknown file format {suffix!r}; known: {', '.join(SUFFIXES)}, each also with .gz")
    if suffix == ".parquet":
        return read_parquet(str(path), read_bytes(path))
    return _TEXT_READERS[suffix](str(path), read_text(path))


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in .gz."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise missing_file(path) from None
    except OSError as problem:
        raise DataError(f"{path}: cannot be read: {problem.strerror}") from None
    if path.suffix.lower() == ".gz" and content:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as problem:
            raise DataError(f"{path}: broken gzip file ({problem}); download or write it again") from None
    if not content:
        raise DataError(f"{path}: empty file")
    return content


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file, without its byte order mark if it has one."""
    content = read_bytes(path)
    for signature, problem in _SIGNATURES:
        if content.startswith(signature):
            raise DataError(f"{path}: {problem}")
    nul = content.find(b"\0")
    if nul >= 0:
        row = content.count(b"\n", 0, nul) + 1
        raise DataError(f"{path}:{row}: a binary file, not text (NUL at byte {nul})")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        # A byte order mark is removed before decoding, so the position lacks its three bytes.
        offset = problem.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        row = content.count(b"\n", 0, offset) + 1
        raise DataError(
            f"{path}:{row}: not UTF-8 (byte 0x{content[offset]:02x} at offset {offset}); save the file as UTF-8"
        ) from None


def missing_file(path: Path) -> DataError:
    """Return the error for a missing file, with the files in its folder that have a similar name."""
    folder = path.parent
    if not folder.is_dir():
        return DataError(f"{path}: no such file: there is no folder {folder}")
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file() and has_known_suffix(entry))
    near = get_close_matches(path.name, names, n=3, cutoff=0.7)
    if near:
        return DataError(f"{path}: no such file (did you mean {' or '.join(str(folder / name) for name in near)}?)")
    return DataError(f"{path}: no such file" + (f"; the folder has {listed(names)}" if names else ""))
