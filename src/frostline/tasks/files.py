"""Files -> `Table`: which reader a name asks for, and whether the bytes are what the name says."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from frostline.errors import DataError
from frostline.tasks.arrow import read_parquet
from frostline.tasks.delimited import read_csv, read_tsv
from frostline.tasks.json_rows import read_json, read_json_lines
from frostline.tasks.raw_table import Table, listed

_TEXT_READERS: dict[str, Callable[[str, str], Table]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
}
SUFFIXES = (*_TEXT_READERS, ".parquet")

# What the first bytes betray about a file under the wrong name.
_SIGNATURES = (
    (b"\x1f\x8b", "is compressed with gzip; add .gz to its name"),
    (b"PAR1", "is a Parquet file; name it .parquet"),
    (b"PK\x03\x04", "is a zip archive or spreadsheet; export it as CSV"),
    (b"\xff\xfe", "is UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text; save it as UTF-8"),
)


def has_known_suffix(path: str | Path) -> bool:
    """Whether the name ends as one of the formats that can be read, .gz or not."""
    return format_of(path) in SUFFIXES


def format_of(path: str | Path) -> str:
    """The suffix that decides the format: '.csv' for both reviews.csv and reviews.csv.gz."""
    name = Path(path).name.lower().removesuffix(".gz")
    return Path(name).suffix


def read_file(path: str | Path) -> Table:
    """The rows of a CSV, TSV, JSON lines, JSON or Parquet file, plain or .gz."""
    suffix = format_of(path)
    if Path(path).is_dir():
        raise DataError(f"{path}: is a folder; give a file in it, or a preset with `data_dir={path}`")
    if suffix not in SUFFIXES:
        if not Path(path).exists():
            raise missing_file(Path(path))
        raise DataError(f"{path}: unknown kind of file {suffix!r}; known: {', '.join(SUFFIXES)}, each also with .gz")
    if suffix == ".parquet":
        return read_parquet(str(path), read_bytes(path))
    return _TEXT_READERS[suffix](str(path), read_text(path))


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
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
            raise DataError(f"{path}: broken gzip file ({problem}); fetch or write it again") from None
    if not content:
        raise DataError(f"{path}: empty file")
    return content


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without its byte order mark if it has one."""
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
        # A byte order mark is cut off before decoding, and with it three bytes of the position.
        offset = problem.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        row = content.count(b"\n", 0, offset) + 1
        raise DataError(
            f"{path}:{row}: not UTF-8 (byte 0x{content[offset]:02x} at offset {offset}); save the file as UTF-8"
        ) from None


def missing_file(path: Path) -> DataError:
    """The error for a file that is not there, naming its nearest neighbours in the folder."""
    folder = path.parent
    if not folder.is_dir():
        return DataError(f"{path}: no such file: there is no folder {folder}")
    there = sorted(entry.name for entry in folder.iterdir() if entry.is_file() and has_known_suffix(entry))
    near = get_close_matches(path.name, there, n=3, cutoff=0.7)
    if near:
        return DataError(f"{path}: no such file (did you mean {' or '.join(str(folder / name) for name in near)}?)")
    return DataError(f"{path}: no such file" + (f"; there are {listed(there)}" if there else ""))
