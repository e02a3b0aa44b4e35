"""`frostline doctor`: what is here, what is missing, and what is going to fail."""

from __future__ import annotations

import json
from importlib import metadata
from typing import Any

import pytest
import torch

from frostline.cli import doctor, invoke
from frostline.files import demo_assets


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


def diagnosis(capsys) -> Any:
    assert invoke(["doctor", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_versions_and_devices_are_those_of_this_process(capsys):
    found = diagnosis(capsys)
    for package in ("torch", "transformers", "peft"):
        assert found["versions"][package] == metadata.version(package)
    assert found["devices"]["cpu"]["threads"] == torch.get_num_threads()
    assert len(found["devices"]["cuda"]) == torch.cuda.device_count()


def test_the_cache_is_measured_where_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE_LIMIT", "7")
    cache = diagnosis(capsys)["cache"]
    assert (cache["folder"], cache["size"], cache["limit"]) == (str(tmp_path / "cache" / "states"), 0, 7_000_000_000)
    assert cache["free"] > 0 and cache["is_writable"]
    assert not (tmp_path / "cache").exists()  # looking makes nothing


def test_the_demo_is_there_only_where_its_files_are_whole(capsys, monkeypatch):
    assert {**diagnosis(capsys)["demo"], "folder": ""} == {"folder": "", "encoder": False, "data": False}
    monkeypatch.setattr(demo_assets, "is_cached", lambda package: package is demo_assets.ENCODER)
    assert {**diagnosis(capsys)["demo"], "folder": ""} == {"folder": "", "encoder": True, "data": False}
    assert invoke(["doctor"]) == 0
    said = capsys.readouterr().out
    assert f"demo encoder  in {demo_assets.cache_folder()}" in said
    assert "demo data     downloaded on first use" in said


def test_what_is_fine_has_no_problems_and_the_table_names_every_package(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_LITTLE", 0)
    assert diagnosis(capsys)["problems"] == []
    assert invoke(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for package in (*doctor._PACKAGES, "python"):
        assert f"\n{package} " in out


def test_a_missing_package_is_a_problem_unless_it_is_optional(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_LITTLE", 0)
    names = {"peft": "no-such-package", "ray": "no-such-package"}
    version = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: version(names.get(name, name)))
    assert invoke(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert "ray           not installed (for trials on several machines)" in out
    assert err == "warning: peft is not installed; reinstall Frostline\n"


def test_a_full_disk_and_a_folder_that_cannot_be_written_are_problems(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_LITTLE", 10**18)
    (problem,) = diagnosis(capsys)["problems"]
    assert "of disk space are free; free some, or set FROSTLINE_CACHE" in problem
    monkeypatch.setenv("FROSTLINE_CACHE", "/proc")
    (problem,) = diagnosis(capsys)["problems"]
    assert problem == "/proc/states: cannot be written; set FROSTLINE_CACHE to another folder"
