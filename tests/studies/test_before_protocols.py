"""Studies that were run before their protocols became the papers': they open, and none of their trials is used again.

The folders in before_protocols hold quick studies of a tiny encoder of two layers on 80 rows; full_size.json holds ids
of full-size trials of that time, some of each protocol.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from docs.full_size import points_of
from tests.search.race_tools import write_rows
from tests.studies.protocols import PROTOCOLS
from tests.studies.study_tools import Nothing, save_tiny, study_with
from tests.studies.test_protocols import fits

from frostline.cli import invoke
from frostline.errors import OptionError
from frostline.records.study import StudySpec
from frostline.report.pages import page_of
from frostline.report.result_folder import open_folder
from frostline.studies._engine.results import read_tables
from frostline.trials.store import Store

BEFORE = Path(__file__).parent / "before_protocols"
STUDIES = sorted(path.name for path in BEFORE.iterdir() if path.is_dir())
CHANGED = [name for name in STUDIES if name != "strategies"]  # its fine-tuning on wide encoders was the paper's already
FULL_SIZE = json.loads((BEFORE / "full_size.json").read_text())
# Options that the folders were made with, besides those of a quick look.
OPTIONS = {"probing": {"scores": "variability,probe.linear,probe.head"}, "robustness": {"sizes": "40,20"}}


def ids(folder):
    with Store(folder / "store.sqlite", for_reading=True) as store:
        return {spec.id for spec, _ in store}


def same_as_before(name, folder, output):
    """The study once more on the same encoder and rows, with what the study does now; nothing is trained."""
    encoder, data = save_tiny(folder / "tiny", layers=2), write_rows(folder / "letters.csv", 80)
    return study_with(
        name, encoders=[str(encoder)], tasks=[str(data)], quick=True, seeds=1, recipe={"epochs": 1, "batch": 32},
        options=OPTIONS.get(name, {}), executor=Nothing, estimate=False, cache=False, output=output,
    )  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_before_opens_and_shows_its_tables(name, tmp_path, capsys):
    folder = shutil.copytree(BEFORE / name, tmp_path / name)
    assert invoke(["results", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert all(table.title in shown for table in read_tables(folder))
    assert invoke(["report", str(folder)]) == 0
    assert page_of(open_folder(folder)).figures


@pytest.mark.parametrize("name", CHANGED)
def test_trials_of_before_are_not_used_again(name, tmp_path):
    found = same_as_before(name, tmp_path, tmp_path / "anew")
    before = StudySpec.from_file(BEFORE / name / "study.json")
    assert {point.spec.encoder.revision for point in found.points} == set(before.encoders.values())
    assert {point.spec.task.fingerprint for point in found.points} == {rows for rows, *_ in before.tasks.values()}
    assert not {point.spec.id for point in found.points} & ids(BEFORE / name)


@pytest.mark.parametrize("name", CHANGED)
def test_a_folder_of_before_is_not_continued(name, tmp_path):
    folder = shutil.copytree(BEFORE / name, tmp_path / name)
    with pytest.raises(OptionError, match="another specification") as refused:
        same_as_before(name, tmp_path, folder)
    assert "\n" not in str(refused.value)
    assert ids(folder) == ids(BEFORE / name)


@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_trials_of_before_are_not_used_again(name):
    now = {point.spec.id for point in points_of(PROTOCOLS[name].command)}
    assert not now & set(FULL_SIZE[name])


def sample_of(name):
    """Ids of the protocol's own arms, some of them, as they are written to full_size.json."""
    arms = [arms for arms in PROTOCOLS[name].arms if not arms.is_ours]
    points = points_of(PROTOCOLS[name].command)
    own = {point.spec.id for point in points if any(fits(one, point) for one in arms)}
    return sorted(own)[:40]
