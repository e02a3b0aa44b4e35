"""`frostline predict` on the command line: predictions as CSV, JSON lines and JSON, and one line per mistake."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.cli.commands import as_json, refused

from frostline.cli import invoke


def test_predictions_come_as_csv(tuned, weather, capsys):
    assert invoke(["predict", str(tuned), weather]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 60
    assert list(rows[0]) == ["row", "text", "prediction", "probability_cold", "probability_warm"]
    assert float(rows[0]["probability_cold"]) + float(rows[0]["probability_warm"]) == pytest.approx(1)
    assert err == "note: columns guessed from their names: text = 'text'\n"


def test_predictions_go_to_a_file(tuned, weather, tmp_path, capsys):
    for name in ("out.csv", "out.jsonl"):
        assert (
            invoke(["predict", str(tuned / "model"), weather, "--text", "text", "--output", str(tmp_path / name)]) == 0
        )
    assert capsys.readouterr().out == ""
    table = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in table] == [line["prediction"] for line in lines]
    found = as_json(capsys, "predict", str(tuned), weather, "--text", "text")
    assert found["rows"] == lines


def test_what_is_wrong_with_a_prediction_is_one_line(tuned, weather, model, tmp_path, capsys):
    assert "must end in .csv or .jsonl" in refused(capsys, "predict", str(tuned), weather, "--output", "out.txt")
    nowhere = str(tmp_path / "no" / "out.csv")
    assert "cannot be written" in refused(capsys, "predict", str(tuned), weather, "--output", nowhere)
    assert "no such folder" in refused(capsys, "predict", str(tmp_path / "missing"), weather)
    assert "is not a tuned classifier" in refused(capsys, "predict", model, weather)
    assert "no such file" in refused(capsys, "predict", str(tuned), "missing.csv")
