"""`frostline report` as a user sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.report.report_tools import make_measurement, make_study

from frostline.cli import invoke


def test_it_writes_the_page_into_the_folder_and_says_where(tmp_path, capsys):
    folder = make_measurement(tmp_path / "scores")
    assert invoke(["report", str(folder)]) == 0
    assert f"report:   {folder / 'report.html'}" in capsys.readouterr().out
    assert (folder / "report.html").stat().st_size > 100_000


def test_it_writes_figures_too_and_json_says_all_files(tmp_path, capsys):
    folder = make_study(tmp_path / "freeze", "freeze")
    page, figures = tmp_path / "out" / "page.html", tmp_path / "figures"
    given = ["report", str(folder), "--output", str(page), "--figures", str(figures), "--format", "svg", "--json"]
    assert invoke(given) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(page)
    assert sorted(told["figures"]) == sorted(map(str, figures.iterdir()))
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--format", "gif", "--figures", "figs"], "--format gif: must be one of png, svg, pdf"),
        (["--format", "pdf"], "--format: applies to chart files; add --figures DIR"),
        (["--no-titles"], "--no-titles: applies to chart files"),
        (["--output", "page.pdf"], "page.pdf: must end in .html"),
        (["--watch", "--figures", "figs"], "--watch: serves the page and writes nothing"),
        (["--port", "99999", "--watch"], "99999"),
        (["--output", "."], "is a folder"),
    ],
)
def test_a_mistake_is_one_line(more, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(["report", str(make_measurement(tmp_path / "scores")), *more]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not (tmp_path / "scores" / "report.html").exists()  # nothing is done before all of it is known to be right


def test_a_folder_that_is_none_of_ours_is_one_line(tmp_path, capsys):
    assert invoke(["report", str(tmp_path)]) == 2
    assert "contains no result" in capsys.readouterr().err


def test_watching_serves_the_page_until_it_is_interrupted(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze", is_over=False)
    command = [sys.executable, "-m", "frostline", "report", str(folder), "--watch"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert line.startswith("http://127.0.0.1:")
    assert "stopped" in rest
    assert (process.returncode, errors) == (0, "")
