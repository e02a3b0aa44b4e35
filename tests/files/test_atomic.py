"""Files and folders are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import frostline
from frostline.files import atomic


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# Files ---------------------------------------------------------------------------------------------------------------


def test_json_is_read_as_it_was_written(tmp_path):
    content = {"text": "Frühling ❄", "numbers": [1, 2.5, None], "nested": {"is": True}}
    atomic.write_json(tmp_path / "a.json", content)
    assert atomic.read_json(tmp_path / "a.json") == content
    assert "Frühling ❄" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_what_is_no_number_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic.write_json(tmp_path / "a.json", float("nan"))
    assert names(tmp_path) == []


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path, monkeypatch):
    atomic.write_text(tmp_path / "a.txt", "old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        atomic.write_text(tmp_path / "a.txt", "new")
    assert error.value.filename == str(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "old" and names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe"], ids=["missing", "empty", "cut short", "binary"])
def test_a_file_that_cannot_be_read_gives_the_default_where_there_is_one(content, tmp_path):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    assert atomic.read_json(path, default=None) is None
    assert atomic.read_json(path, default={}) == {}
    with pytest.raises(OSError if content is None else ValueError):
        atomic.read_json(path)


def test_a_default_does_not_stand_for_what_is_there(tmp_path):
    (tmp_path / "a.json").write_text("null")
    assert atomic.read_json(tmp_path / "a.json", default=1) is None


# Folders -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [False, True])
def test_a_folder_takes_the_place_of_the_old_one_as_a_whole(sync, tmp_path):
    target = tmp_path / "deep" / "target"
    for content in ("old", "new"):
        with atomic.build_folder(target, sync=sync) as folder:
            (folder / content).write_text(content)
            assert folder.parent == target.parent
            assert content == "old" or names(target) == ["old"]
    assert names(target) == ["new"]
    assert names(target.parent) == ["target"]


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path):
    target = tmp_path / "target"
    with atomic.build_folder(target) as folder:
        (folder / "old").touch()
    with pytest.raises(KeyboardInterrupt), atomic.build_folder(target) as folder:
        (folder / "new").touch()
        raise KeyboardInterrupt
    assert names(tmp_path) == ["target"] and names(target) == ["old"]


def test_a_folder_has_the_permissions_that_others_get(tmp_path):
    (tmp_path / "usual").mkdir()
    with atomic.build_folder(tmp_path / "target"):
        pass
    assert (tmp_path / "target").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_two_can_build_the_same_folder_at_once(tmp_path):
    with atomic.build_folder(tmp_path / "target") as one, atomic.build_folder(tmp_path / "target") as other:
        assert one != other
        (one / "one").touch()
        (other / "other").touch()
    assert names(tmp_path / "target") == ["one"]  # that was finished last


def test_what_a_killed_process_left_is_no_target_and_goes_a_day_later(tmp_path):
    script = (
        "import os, pathlib, signal, sys\n"
        "from frostline.files import atomic\n"
        "with atomic.build_folder(pathlib.Path(sys.argv[1]) / 'target') as folder:\n"
        "    (folder / 'half').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(Path(frostline.__path__[0]).parent))
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".") and names(left) == ["half"]
    with atomic.build_folder(tmp_path / "target"):
        assert left.exists()  # it may be another process's, at work
    os.utime(left, (time.time() - 100_000,) * 2)
    with atomic.build_folder(tmp_path / "target"):
        assert not left.exists()
    assert names(tmp_path) == ["target"]
