"""The rows from which a study measures layer scores: all of them where they can be streamed."""

from __future__ import annotations

import json

import pytest
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly

from frostline.encoders.loading import load_encoder
from frostline.scoring.measurement import MeasureOptions, measure_layers
from frostline.studies._engine.run import _rows_to_measure
from frostline.tasks import load_task


@pytest.fixture
def task(tmp_path):
    return load_task(write_rows(tmp_path / "letters.csv", 120))


@pytest.mark.parametrize(
    ("names", "examples", "limit", "rows"),
    [
        (["variability"], 0, None, ("all", True)),
        (["variability"], 60, None, (60, True)),
        (["variability"], 20, None, (20, False)),
        (["variability"], 60, 30, (50, False)),  # of which there are 30
        (["variability"], 0, 30, (50, False)),
        (["fisher"], 0, None, (50, False)),
        (["variability", "fisher"], 70, None, (50, False)),
        (["variability"], 50, None, (50, False)),
    ],
)
def test_only_scores_that_can_be_streamed_take_more_rows_than_the_sample(
    names, examples, limit, rows, task, monkeypatch
):
    monkeypatch.setattr("frostline.studies._engine.run.EXAMPLES", 50)
    count, streamed = _rows_to_measure(task, names, examples, limit=limit)
    assert (count, streamed) == (len(task.train) if rows[0] == "all" else rows[0], rows[1])


@pytest.mark.parametrize("examples", [0, 30])
def test_the_best_layer_of_strategies_is_measured_on_all_training_rows_or_as_many_as_asked_for(
    examples, tmp_path, monkeypatch
):
    monkeypatch.setattr("frostline.studies._engine.run.EXAMPLES", 40)
    found = run_quickly("strategies", tmp_path, options={"examples": examples}, executor=MadeUp, seeds=1)
    (path,) = (found.folder / "scores").iterdir()
    measured = json.loads(path.read_text())
    task = load_task(tmp_path / "letters.csv")
    assert measured["examples"] == (examples or len(task.train)) > 0
    if not examples:  # as from the states of all rows at once
        options = MeasureOptions(scores=["variability"], similarity=False, uncertainty=False)
        direct = measure_layers(load_encoder(tmp_path / "tiny"), task, options)
        assert measured["scores"]["variability"]["values"] == pytest.approx(
            direct.scores["variability"].values, rel=1e-4
        )
    assert {point["best_layer"] for point in found.points} == {
        min(range(1, len(values)), key=values.__getitem__) for values in [measured["scores"]["variability"]["values"]]
    }
