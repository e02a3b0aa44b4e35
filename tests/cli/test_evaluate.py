"""`frostline evaluate` on the command line: the metrics of a run, and one line per mistake."""

from __future__ import annotations

import json

import pytest
from tests.cli.commands import as_json, refused, write_weather

from frostline.cli import invoke


def test_evaluation_gives_the_metrics_of_the_run(tuned, weather, capsys):
    result = json.loads((tuned / "result.json").read_text())
    found = as_json(capsys, "evaluate", str(tuned), weather)
    assert found["metrics"] == pytest.approx(result["metrics"]["test"])
    assert found["rows"] == 12
    assert as_json(capsys, "evaluate", str(tuned), weather, "--split", "all")["rows"] == 60
    assert invoke(["evaluate", str(tuned), weather, "--metric", "macro_f1"]) == 0
    assert "macro_f1" in capsys.readouterr().out


def test_rows_to_judge_on_that_are_not_given_or_not_there_are_one_line(tuned, capsys):
    assert "give the labelled rows to evaluate it on" in refused(capsys, "evaluate", str(tuned))
    assert "missing.csv: no such file" in refused(capsys, "evaluate", str(tuned), "missing.csv")


def test_unseen_labels_at_evaluation_are_one_line(tuned, tmp_path, capsys):
    other = write_weather(tmp_path / "other.csv", warm="tepid")
    said = refused(capsys, "evaluate", str(tuned), other)
    assert "label 'tepid': is not a label of" in said
    assert "which has cold, warm" in said
