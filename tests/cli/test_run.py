"""`frostline run` on the command line: the table, the reasons, impossible budgets, stopping and going on."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from tests.search.race_tools import SPEED, made_up_proposal, save_shallow, write_rows

from frostline.cli import invoke
from frostline.records import LayerScores, Plan
from frostline.search import planning
from frostline.search import run as running
from frostline.search.planning import OnePass
from frostline.tasks import load_task

# Two rounds of two plans: what is tested here is what is said about them.
FLAGS = ["--epochs", "3", "--batch", "16", "--threads", "1", "--max-layers", "1"]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_shallow(tmp_path_factory.mktemp("models") / "shallow"))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return str(write_rows(tmp_path_factory.mktemp("data") / "letters.csv"))


@pytest.fixture(scope="module")
def proposed():
    """The plans of every run here, whose arithmetic takes longest to count: the first run counts it."""
    return []


@pytest.fixture(scope="module")
def finished(model, rows, tmp_path_factory, proposed):
    """The folder of a run, and what it printed."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    out, err = io.StringIO(), io.StringIO()
    propose = planning.propose

    def remember(*given, **options):
        proposed.append(propose(*given, **options))
        return proposed[0]

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(planning, "propose", remember)
        assert invoke(["run", rows, "--model", model, "--output", str(folder), *FLAGS]) == 0
    assert err.getvalue() == ""
    return folder, out.getvalue()


def refused(capsys, *arguments: str) -> str:
    assert invoke(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return str(err)


# What it prints ------------------------------------------------------------------------------------------------------


def test_it_says_what_was_raced_what_was_chosen_and_why_and_where_the_model_is(finished, model):
    folder, out = finished
    said = json.loads((folder / "run.json").read_text())
    parts = [
        "note: 3 plans whose models only Frostline can load",
        "note: --max-layers 1 excludes 6 of 8 plans, including full fine-tuning",
        f"{model} (2 layers) on letters",
        f"{len(said['proposals'])} plans raced in {len(said['race'])} round",
        "difference to best (95%)",
        *said["decision"]["why"],
        *(f"- {line}" for line in said["given_up"]),
        "On the test rows, which were read once:",
        "measuring ",
        f"model:   {folder}/model",
        f"report:  {folder}/report.html",
        'load it: from transformers import pipeline; pipeline("text-classification"',
    ]
    plain = " ".join(out.split())  # long lines are folded
    absent = [part for part in parts if " ".join(part.split()) not in plain]
    assert not absent
    places = [plain.index(" ".join(part.split())) for part in parts]
    assert places == sorted(places)


def test_the_table_has_a_line_for_each_complete_trial_and_marks_the_choice(finished):
    folder, out = finished
    said = json.loads((folder / "run.json").read_text())
    start = out.index("difference to best (95%)")
    table = out[start : out.index("\n\n", start)].splitlines()[1:]
    assert len(table) == len(said["race"][-1])
    for line, entry in zip(table, said["race"][-1], strict=True):
        assert line.startswith("▶") == (entry["trial"] == said["decision"]["chosen"])
        assert f" {100 * entry['validation']['accuracy']:.1f} " in line
        gap = said["decision"]["against_best"][entry["trial"]]
        assert f"{gap['value']:+.1f} ({gap['low']:+.1f} to {gap['high']:+.1f})" in line
        assert entry["sources"][0].split(":")[0] in line


def test_the_tests_are_shown_with_their_intervals(finished):
    folder, out = finished
    tests = json.loads((folder / "run.json").read_text())["tests"]
    lines = out[out.index("which were read once:") :].splitlines()[2 : 2 + len(tests)]
    for line, test in zip(lines, tests, strict=True):
        assert line.startswith(test["name"])
        numbers = f"{100 * test['metrics']['accuracy']:.1f} {100 * test['low']:.1f} to {100 * test['high']:.1f}"
        assert numbers in " ".join(line.split())


# Budgets and folders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--minutes", "0"], "--minutes 0: must be above 0"),
        (["--minutes", "nan"], "--minutes nan: must be above 0"),
        (["--max-layers", "0"], "--max-layers 0: must be above 0"),
        (["--max-latency", "2"], "--max-latency 2: is a share of the whole encoder's time"),
        (["--max-latency", "half"], "--max-latency 'half': must be a share"),
        (["--max-trainable", "many"], "--max-trainable 'many': must be a number of parameters"),
        (["--max-memory", "-1"], "--max-memory -1: must be above 0"),
        (["--margin", "-1"], "--margin -1: must be 0 or more points"),
        (["--smallest", "--best"], "--smallest and --best: choose one"),
        (["--smallest", "--fastest", "--best"], "--smallest and --fastest and --best: choose one"),
        (["--epochs", "0"], "epochs 0: must be a whole number, 1 or more"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_budget_that_makes_no_sense_is_one_line_before_anything_is_read(capsys, tmp_path, flags, said):
    place = tmp_path / "run"
    assert said in refused(capsys, "run", "missing.csv", "--output", str(place), *flags)
    assert not place.exists()


def test_a_budget_that_no_plan_fits_is_one_line_that_says_which_would_do(
    finished, model, rows, tmp_path, capsys, monkeypatch
):
    folder, _ = finished
    scores = LayerScores.from_json(json.loads((folder / "scores.json").read_text()))
    proposals = [
        made_up_proposal(Plan.full(2), trainable=5000, latency=1.0),
        made_up_proposal(Plan.span(2, 2, 2), trainable=1234, latency=0.5),
    ]
    monkeypatch.setattr(running, "measure_for_plans", lambda *given, **options: OnePass(scores=scores, head="family"))
    monkeypatch.setattr(planning, "calibrate", lambda *given, **more: SPEED)
    monkeypatch.setattr(planning, "propose", lambda *given, **options: (proposals, []))
    arguments = ["run", rows, "--model", model, "--output", str(tmp_path / "run"), "--max-trainable", "0.5k"]
    said = refused(capsys, *arguments)
    assert "no plan fits: --max-trainable 500 excludes 2 of 2 heads alone, the cheapest plans" in said
    assert "A plan would fit with --max-trainable 1130" in said
    said = refused(capsys, *arguments[:-1], "1200")
    assert "no plan fits: --max-trainable 1200 excludes 2 of 2 plans, including full fine-tuning" in said
    assert "A plan would fit with --max-trainable 1240" in said


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--metric", "nonsense"], "nonsense"),
        (["--validation", "/nope.csv"], "--validation: not with the preset movies"),
        (["--text", "body"], "--text: not with the preset movies"),
    ],
    ids=["metric", "validation", "text"],
)
def test_flags_about_data_count_without_data_too(capsys, tmp_path, monkeypatch, command, flags, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, command, *flags)


def test_what_is_wrong_with_the_folder_is_one_line_before_anything_is_read(finished, tmp_path, capsys):
    folder, _ = finished
    nowhere = ("run", "missing.csv", "--output")
    assert "contains an earlier result; pass --overwrite" in refused(capsys, *nowhere, str(folder))
    (tmp_path / "thesis.txt").write_text("mine")
    assert "contains other files" in refused(capsys, *nowhere, str(tmp_path))
    assert "is a file" in refused(capsys, *nowhere, str(tmp_path / "thesis.txt"))


def test_missing_data_and_missing_validation_rows_are_one_line(rows, tmp_path, capsys, monkeypatch):
    place = ("--output", str(tmp_path / "run"))
    assert "no such file" in refused(capsys, "run", "missing.csv", *place)
    task = replace(load_task(rows), validation=None)
    monkeypatch.setattr("frostline.tasks.load_task", lambda *given, **options: task)
    assert "letters: has no validation rows" in refused(capsys, "run", rows, *place)
    assert not (tmp_path / "run").exists()


def test_it_explains_itself(capsys):
    assert invoke(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: frostline run" in out
    for flag in ("--minutes", "--max-trainable", "--max-latency", "--margin", "--smallest", "--overwrite", "--json"):
        assert flag in out


# Stopping and going on -----------------------------------------------------------------------------------------------


def count_trials(store):
    """How many trials are recorded while another process writes."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as file:
            return file.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_an_interrupted_run_says_how_to_go_on_and_the_same_command_then_finishes(
    finished, proposed, model, rows, tmp_path, capsys, monkeypatch
):
    whole, _ = finished
    place = tmp_path / "run"
    arguments = ["run", rows, "--model", model, "--output", str(place), *FLAGS, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from frostline.cli import main; main()", *arguments, "--quiet"],  # no lines of progress
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    patience = time.monotonic() + 120
    while count_trials(place / "checkpoints" / "store.sqlite") < 1:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < patience
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    *saving, last = err.splitlines()
    assert last == f"frostline: interrupted; the same command continues the run in {place}"
    assert all("no model was ready yet" in line or "saving the best model so far" in line for line in saving)
    recorded = count_trials(place / "checkpoints" / "store.sqlite")

    monkeypatch.setattr(planning, "propose", lambda *given, **options: proposed[0])
    assert invoke(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)  # one object, and nothing else
    assert found["kind"] == "run"
    assert found["folder"] == str(place)
    expected = json.loads((whole / "run.json").read_text())
    for key in ("plan", "recipe", "decision", "tests"):
        assert found[key] == expected[key]
    assert 1 <= recorded < count_trials(place / "store.sqlite") == count_trials(whole / "store.sqlite")
    assert not (place / "checkpoints").exists()


def test_an_interrupted_run_that_overwrites_says_that_overwriting_again_would_start_anew(
    model, rows, tmp_path, capsys, monkeypatch
):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "measure_for_plans", interrupted)
    assert invoke(["run", rows, "--model", model, "--output", str(tmp_path / "run"), "--overwrite"]) == 130
    assert capsys.readouterr().err == (
        f"frostline: interrupted; the same command without --overwrite continues the run in {tmp_path}/run\n"
    )
