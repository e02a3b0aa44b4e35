"""Folders that the first version wrote, before records were read back: they open, and hold what they held.

They are tiny: two layers, 60 rows. Their models and reports are left out.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from frostline.cli import invoke
from frostline.records import LayerScores, Plan, Recipe
from frostline.records.run import RunRecord
from frostline.records.study import StudySpec
from frostline.records.tuned import TuningResult
from frostline.report.pages import page_of
from frostline.report.result_folder import open_folder
from frostline.studies._engine.results import read_tables
from frostline.trials.store import Store

OLD = Path(__file__).parent / "old_folders"


@pytest.mark.parametrize("name", ["run", "measured", "tuned", "study"])
def test_a_folder_of_the_first_version_has_a_report(name, tmp_path, capsys):
    folder = shutil.copytree(OLD / name, tmp_path / name)
    assert invoke(["report", str(folder)]) == 0
    assert (folder / "report.html").is_file()
    assert capsys.readouterr().err == ""
    assert page_of(open_folder(folder)).figures


def test_a_run_of_the_first_version_is_read_whole():
    before = json.loads((OLD / "run" / "run.json").read_text())
    run = RunRecord.from_file(OLD / "run" / "run.json")
    assert run.plan == Plan.from_file(OLD / "run" / "plan.json")
    assert run.recipe == Recipe.from_file(OLD / "run" / "recipe.json")
    assert {trial: gap.value for trial, gap in run.decision.against_best.items()} == {
        trial: gap["points"] for trial, gap in before["decision"]["against_best"].items()
    }
    assert [[entry.trial for entry in rung] for rung in run.race] == [
        [entry["trial"] for entry in rung] for rung in before["race"]
    ]
    # What is written now has everything that was written then, but for the one name that has changed.
    for gap in before["decision"]["against_best"].values():
        gap["value"] = gap.pop("points")
    assert lacks(run.to_json(), before) == []


def lacks(now: object, before: object, path: str = "") -> list[str]:
    """What was there before and is not there now, or is another value."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [one for key in before for one in lacks(now.get(key), before[key], f"{path}.{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [one for place, value in enumerate(before) for one in lacks(now[place], value, f"{path}[{place}]")]
    return [] if now == before else [path]


@pytest.mark.parametrize(
    ("file", "record"),
    [
        ("run/scores.json", LayerScores),
        ("measured/scores.json", LayerScores),
        ("run/result.json", TuningResult),
        ("tuned/result.json", TuningResult),
        ("tuned/plan.json", Plan),
        ("tuned/recipe.json", Recipe),
        ("study/study.json", StudySpec),
    ],
)
def test_what_the_first_version_wrote_is_written_again(file, record):
    before = json.loads((OLD / file).read_text())
    assert lacks(record.from_file(OLD / file).to_json(), before) == []


@pytest.mark.parametrize("name", ["run", "study"])
def test_trials_of_the_first_version_keep_their_ids(name, tmp_path):
    path = tmp_path / "store.sqlite"
    shutil.copyfile(OLD / name / "store.sqlite", path)
    with Store(path, for_reading=True) as store:
        found = {spec.id for spec, _ in store}
    with sqlite3.connect(path) as file:
        assert found == {row[0] for row in file.execute("SELECT id FROM trials")}
    if name == "run":
        assert found >= {entry.trial for rung in RunRecord.from_file(OLD / "run" / "run.json").race for entry in rung}


def test_tables_of_the_first_version_are_read():
    before = json.loads((OLD / "study" / "tables.json").read_text())
    assert [lacks(table.to_json(), old) for table, old in zip(read_tables(OLD / "study"), before, strict=True)] == [
        [] for _ in before
    ]
