"""`frostline results --failed` as a user sees it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.trials.test_store import RESULT, SPEC, numbered

from frostline.cli import invoke
from frostline.records import Plan, TrialResult
from frostline.trials.store import Store

TRACEBACK = 'Traceback (most recent call last):\n  File "heads.py", line 3, in forward\nIndexError: [too] far\n'
DIVERGED = TrialResult(status="failed", reason="the loss is nan", cause="diverged")
BUG = TrialResult(status="failed", reason="IndexError: [too] far", cause="error", traceback=TRACEBACK)
OLD = TrialResult(status="failed", reason="recorded before causes were")


@pytest.fixture(params=["store.sqlite", "checkpoints/store.sqlite"], ids=["finished", "interrupted"])
def folder(request, tmp_path):
    """A folder with a trial that is done and three that failed."""
    head_only = replace(numbered(3), plan=Plan(layers=(), head=2))
    with Store(tmp_path / request.param) as store:
        store.put(SPEC, RESULT)
        for spec, result in ((numbered(2), DIVERGED), (head_only, BUG), (numbered(4), OLD)):
            store.put(spec, result)
    return tmp_path


def test_failed_trials_are_listed_with_cause_reason_and_traceback(folder, capsys):
    assert invoke(["results", str(folder), "--failed"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    title, *parts = out.split("\n\n")
    assert title == "3 failed trials"
    diverged, bug, old = (part.rstrip("\n").split("\n") for part in parts)
    assert diverged[0].startswith(f"{numbered(2).id}: {SPEC.encoder.name} on {SPEC.task.name}, tune {SPEC.plan.name}")
    assert diverged[0].endswith("seed 2") and diverged[1:] == ["diverged: the loss is nan"]
    assert "tune head only at 2" in bug[0]
    assert bug[1:] == ["error: IndexError: [too] far", *TRACEBACK.rstrip().split("\n")]
    assert old[1:] == ["recorded before causes were"]


def test_as_json_they_are_whole(folder, capsys):
    assert invoke(["results", str(folder), "--failed", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["failed"]
    assert [one["cause"] for one in found] == ["diverged", "error", ""]
    assert found[1]["traceback"] == TRACEBACK
    assert found[0]["id"] == numbered(2).id


def test_where_nothing_failed_that_is_said(tmp_path, capsys):
    with Store(tmp_path / "store.sqlite") as store:
        store.put(SPEC, RESULT)
    assert invoke(["results", str(tmp_path), "--failed"]) == 0
    assert capsys.readouterr().out == "0 failed trials\n"


def test_a_folder_without_trials_is_one_line(tmp_path, capsys):
    assert invoke(["results", str(tmp_path), "--failed"]) == 2
    assert "contains no trials; give the folder of a study or a run" in capsys.readouterr().err


def test_the_trials_of_an_interrupted_run_are_listed_too(folder, capsys):
    assert invoke(["results", str(folder), "--trials", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert len(table["rows"]) == 4
