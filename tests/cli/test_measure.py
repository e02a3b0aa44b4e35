"""`frostline measure` on the command line: results on stdout, one line per mistake, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from tests.tiny import save_tiny

from frostline.cli import invoke

WORDS = ["ice", "snow", "frost", "sleet", "hail", "sun", "heat", "noon", "July", "sand"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "weather.csv"
    lines = [f"{WORDS[row % 10]} number {row},{'warm' if row % 10 > 4 else 'cold'}" for row in range(100)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return str(path)


def measured(capsys, *arguments: str):
    assert invoke(["measure", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_json_is_one_object_with_the_promised_names(model, weather, capsys):
    found = measured(capsys, weather, "--model", model)
    assert found["pooling"] == "mean"
    score = found["scores"]["variability"]
    assert len(score["values"]) == 5
    assert score["best"] == 1 + min(range(4), key=lambda layer: score["values"][layer + 1])
    assert found["encoder"]["layers"] == 4
    assert found["task"]["labels"] == ["cold", "warm"]
    assert found["examples"] == 72  # 100 rows without the test fifth and the validation tenth of the rest


def test_an_undefined_layer_is_null(model, weather, capsys):
    found = measured(capsys, weather, "--model", model, "--pooling", "first")
    assert found["pooling"] == "first"
    assert found["scores"]["variability"]["values"][0] is None
    assert found["scores"]["variability"]["best"] >= 1


def test_options_of_scores_are_set_by_score_and_name(model, weather, capsys):
    """The recipe of Xie et al. 2022 for the head as a probe, from the command line alone."""
    given = ["--model", model, "--scores", "variability,probe.head", "--no-intervals"]
    recipe = ["epochs=2", "batch=8", "schedule=linear", "warmup=0.06", "dropout=0.1", "learning_rate=3e-3"]
    words = [word for piece in recipe for word in ("--option", f"probe.head.{piece}")]
    found = measured(capsys, weather, *given, *words)
    assert f"probe.head with {', '.join(piece.replace('=', ' ') for piece in recipe)}" in found["notes"]
    assert (
        found["scores"]["probe.head"]["values"] != measured(capsys, weather, *given)["scores"]["probe.head"]["values"]
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("clusters=5", "--option: clusters=5 names no score; write SCORE.clusters=5"),
        ("cca.samples=2", "options of 'cca': it is not one of the measured scores"),
        ("probe.linear.penalt=2", "score probe.linear: unknown option 'penalt' (did you mean penalty?)"),
        ("probe.linear.penalty", "--option: 'probe.linear.penalty' is not of the form name=value"),
    ],
)
def test_a_wrong_option_of_a_score_is_one_line(model, weather, capsys, option, message):
    assert invoke(["measure", weather, "--model", model, "--option", option]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_data_may_be_positional_or_a_flag(model, weather, capsys):
    one = measured(capsys, weather, "--model", model)
    two = measured(capsys, "--data", weather, "--model", model)
    for name, score in one["scores"].items():
        assert {**score, "seconds": 0} == {**two["scores"][name], "seconds": 0}


def test_options_reach_the_measurement(model, weather, capsys):
    found = measured(capsys, weather, "--model", model, "--examples", "30", "--max-length", "5", "--seed", "3")
    assert found["examples"] == 30
    assert found["max_length"] == 5
    assert found["truncated"] == 30
    assert found["seed"] == 3


def test_the_table_marks_the_best_layer_and_says_what_was_guessed(model, weather, capsys):
    assert invoke(["measure", weather, "--model", model]) == 0
    out = capsys.readouterr().out
    best = measured(capsys, weather, "--model", model)["scores"]["variability"]["best"]
    row = next(line for line in out.splitlines() if line.split()[:1] == [str(best)])
    assert "◀" in row
    assert f"variability: layer {best} is the best" in out
    assert "cold, warm" in out
    assert "note:" in out
    assert re.search(r"^embeddings +\d", "\n".join(line.strip() for line in out.splitlines()), re.MULTILINE)


def test_an_undefined_layer_says_so_in_the_table(model, weather, capsys):
    assert invoke(["measure", weather, "--model", model, "--pooling", "first"]) == 0
    assert re.search(r"embeddings\s+undefined", capsys.readouterr().out)


def test_the_program_runs_as_a_process_of_its_own(model, weather):
    command = [sys.executable, "-c", "from frostline.cli import main; main()", "measure", weather, "--model", model]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["kind"] == "measurement"


def test_colours_and_escape_codes_never_reach_a_file(model, weather):
    command = [sys.executable, "-c", "from frostline.cli import main; main()", "measure", weather, "--model", model]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr


def test_a_reader_that_goes_away_is_no_error(model, weather):
    command = f"{sys.executable} -c 'from frostline.cli import main; main()' tasks | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"


def test_an_interrupt_ends_with_130(model, weather, monkeypatch, capsys):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("frostline.api._measure.measure", interrupt)
    assert invoke(["measure", weather, "--model", model]) == 130
    assert capsys.readouterr().err == "frostline: interrupted\n"


def test_a_bug_keeps_its_traceback(model, weather, monkeypatch):
    def fail(*_args, **_options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("frostline.api._measure.measure", fail)
    with pytest.raises(ZeroDivisionError):
        invoke(["measure", weather, "--model", model])


@pytest.mark.embedded
def test_the_real_encoder_on_a_real_preset_with_official_files(shared, capsys):
    found = measured(capsys, "glue/cola", "--data-dir", str(shared / "glue"), "--examples", "200", "--threads", "1")
    assert found["encoder"]["name"] == "all-MiniLM-L6-v2"
    assert found["task"]["labels"] == ["unacceptable", "acceptable"]
    assert found["task"]["metric"] == "matthews"


def test_scores_are_listed_and_explained(capsys):
    assert invoke(["measure", "--list-scores"]) == 0
    out = capsys.readouterr().out
    assert "Computed by default: " in out
    assert "\ncca " in out
    assert invoke(["measure", "--list-scores", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["scores"]
    assert {row["name"] for row in rows if row["default"]} == {
        "variability",
        "label_similarity",
        "change",
        "probe.linear",
    }


def test_scores_can_be_chosen(model, weather, capsys):
    found = measured(capsys, weather, "--model", model, "--scores", "rank, hscore", "--no-intervals")
    assert list(found["scores"]) == ["rank", "hscore"]
    assert found["scores"]["rank"]["low"] is None


def test_intervals_and_similarity_are_in_the_json(model, weather, capsys):
    found = measured(capsys, weather, "--model", model)
    score = found["scores"]["variability"]
    assert len(score["low"]) == len(score["high"]) == 5
    assert len(found["similarity"]["first"]) == len(found["similarity"]["mean"]) == 5


def test_saved_results_can_be_read_back(model, weather, tmp_path, capsys):
    from frostline.records import LayerScores

    folder = tmp_path / "deep" / "measured"
    found = measured(capsys, weather, "--model", model, "--save", str(folder))
    saved = json.loads((folder / "scores.json").read_text())
    about = json.loads((folder / "frostline.json").read_text())
    assert saved == found
    assert LayerScores.from_json(saved).to_json() == found
    assert about["kind"] == "measurement"
    assert about["versions"]["torch"]
    assert sorted(path.name for path in folder.iterdir()) == ["frostline.json", "scores.json"]
    measured(capsys, weather, "--model", model, "--save", str(folder))  # a folder of our own may be written again


def test_a_large_sample_can_be_streamed(model, weather, capsys):
    found = measured(capsys, weather, "--model", model, "--stream")
    assert set(found["scores"]) == {"variability", "label_similarity"}


def test_labels_that_look_like_markup_are_printed_as_they_are(model, tmp_path, capsys):
    path = tmp_path / "odd.csv"
    rows = [f"{WORDS[row % 10]} {row},{'[/bold]' if row % 2 else '[red]'}" for row in range(80)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    assert invoke(["measure", str(path), "--model", model, "--scores", "variability"]) == 0
    assert "classes [/bold], [red]" in capsys.readouterr().out


def test_one_text_per_class_is_undefined_and_no_crash(model, weather, capsys):
    assert invoke(["measure", weather, "--model", model, "--examples", "2"]) == 0
    assert "variability: undefined at every layer." in capsys.readouterr().out


def test_a_terminal_that_knows_no_arrows_shows_something_else(model, weather):
    command = [sys.executable, "-c", "from frostline.cli import main; main()", "measure", weather, "--model", model]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_one_line(model, weather):
    command = f"{sys.executable} -c 'from frostline.cli import main; main()' tasks > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_an_interrupt_while_starting_ends_at_once(model, weather):
    program = "from frostline.cli import main; print('ready', flush=True); main()"
    command = [sys.executable, "-c", program, "measure", weather, "--model", model]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    time.sleep(0.7)  # in the middle of importing torch, or of what comes after
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == "frostline: interrupted\n"
