"""`frostline tune` on the command line: results, and one line per mistake."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.cli.commands import as_json, refused, write_weather
from tests.tiny import save_tiny

from frostline.cli import invoke


def test_it_says_what_trains_then_audits_then_judges_then_where_the_model_is(model, weather, tmp_path, capsys):
    folder = tmp_path / "run"
    arguments = ["tune", weather, "--model", model, "--plan", "2,2,3", "--epochs", "1", "--output", str(folder)]
    assert invoke(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    places = [
        out.index(part)
        for part in (
            "plan (2, 2, 3), method full",
            "audit: ",
            "frozen tensors unchanged to the bit",
            "validation",
            "test ",
            f"model: {folder}/model",
            'load it: from transformers import pipeline; pipeline("text-classification"',
        )
    ]
    assert places == sorted(places)


def test_json_is_the_result_and_nothing_else(model, weather, capsys):
    found = as_json(capsys, "tune", weather, "--model", model, "--plan", "3,4,4", "--epochs", "1", "--seed", "5")
    assert found["kind"] == "tuned"
    assert found["plan"]["layers"] == [3, 4]
    assert found["recipe"]["seed"] == 5
    assert set(found["metrics"]) == {"validation", "test"}
    assert found["folder"] is None


def test_every_option_reaches_the_recipe(model, weather, capsys):
    given = {
        "epochs": 2, "batch": 7, "learning_rate": 0.003, "schedule": "constant", "warmup": 0.1, "weight_decay": 0.01,
        "clip": 0.5, "accumulate": 2, "dropout": 0.0, "head": "mean", "select": "last", "patience": 3,
        "evaluate_every": 2, "precision": "float32", "cache_dtype": "float32", "max_length": 9, "threads": 1, "seed": 3,
    }  # fmt: skip
    flags = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    found = as_json(capsys, "tune", weather, "--model", model, "--plan", "4,4,4", "--no-cache", *flags)
    assert {name: found["recipe"][name] for name in given} == given
    assert any("only Frostline can load" in note for note in found["notes"])


def test_a_soup_has_the_averaged_schedule(model, weather, capsys):
    arguments = ["tune", weather, "--model", model, "--plan", "4,4,4", "--epochs", "1", "--soup"]
    found = as_json(capsys, *arguments, "1,0.5")
    assert (found["recipe"]["soup"], found["recipe"]["schedule"]) == ([1.0, 0.5], "averaged")
    assert refused(capsys, *arguments, "1,a") == "frostline: --soup '1,a': must be numbers above 0 as in 1,1,1\n"
    assert "has the schedule 'linear'" in refused(capsys, *arguments, "1,1", "--schedule", "linear")


@pytest.mark.parametrize(
    ("plan", "layers", "head"),
    [("layers=1+3,head=4", [1, 3], 4), ("freeze=3", [4], 4), ("top-k:k=2", [3, 4], 4), ("layers=none,head=2", [], 2)],
)
def test_plans_in_words(model, weather, capsys, plan, layers, head):
    found = as_json(capsys, "tune", weather, "--model", model, "--plan", plan, "--epochs", "1")
    assert (found["plan"]["layers"], found["plan"]["head"]) == (layers, head)


def test_a_saved_measurement_chooses_the_layers(model, weather, tmp_path, capsys):
    as_json(
        capsys, "measure", weather, "--model", model, "--scores", "variability", "--save", str(tmp_path / "measured")
    )
    scores = json.loads((tmp_path / "measured" / "scores.json").read_text())
    best = scores["scores"]["variability"]["best"]
    arguments = ["tune", weather, "--model", model, "--plan", "best-down:layers=1", "--epochs", "1"]
    found = as_json(capsys, *arguments, "--scores", str(tmp_path / "measured"))
    assert found["plan"]["layers"] == [best]
    other = str(save_tiny(tmp_path / "other", seed=1))
    arguments[3] = other
    capsys.readouterr()  # what transformers says about saving
    assert "were measured on" in refused(capsys, *arguments, "--scores", str(tmp_path / "measured"))


def test_a_strategy_measures_what_it_needs(model, weather, capsys):
    found = as_json(capsys, "tune", weather, "--model", model, "--plan", "best-down:layers=1", "--epochs", "1")
    assert len(found["plan"]["layers"]) == 1
    assert "is the best by variability" in found["plan"]["because"]


def test_a_method_with_options(model, weather, capsys):
    arguments = ["tune", weather, "--model", model, "--plan", "3,4,4", "--method", "lora:rank=2", "--batch", "8"]
    found = as_json(capsys, *arguments, "--epochs", "2")
    assert (found["plan"]["method"], found["plan"]["options"]) == ("lora", {"rank": 2})


def test_plans_and_methods_are_listed(capsys):
    assert invoke(["tune", "--list-plans", "--list-methods"]) == 0
    out = capsys.readouterr().out
    assert "best-down" in out
    assert "keep_top=yes" in out
    assert "norm-and-bias" in out
    found = as_json(capsys, "tune", "--list-plans", "--list-methods")
    assert {"full", "top-k", "freeze-n"} <= {row["name"] for row in found["strategies"]}
    assert {row["name"]: row["is_stock"] for row in found["methods"]}["full"]


def test_what_is_wrong_with_a_plan_is_one_line(model, weather, capsys):
    data = ("tune", weather, "--model", model)
    assert "has layers 1..4" in refused(capsys, *data, "--plan", "3,9,9")
    assert "has layers 1..4" in refused(capsys, *data, "--plan", "layers=2+7,head=7")
    assert "head 2: must not lie below layer 3" in refused(capsys, *data, "--plan", "1,3,2")
    assert "did you mean best-down?" in refused(capsys, *data, "--plan", "best-dwn")
    assert "unknown option 'kk'" in refused(capsys, *data, "--plan", "top-k:kk=3")
    assert "9 layers to tune" in refused(capsys, *data, "--plan", "top-k:k=9")
    assert "no such" in refused(capsys, *data, "--plan", "missing.json").lower()


def test_what_is_wrong_with_options_is_said_before_anything_is_read(weather, capsys):
    nowhere = ("tune", "missing.csv", "--model", "missing")
    assert "did you mean lora?" in refused(capsys, *nowhere, "--method", "lorra")
    assert "unknown option 'ranks'" in refused(capsys, *nowhere, "--method", "lora:ranks=3")
    assert "epochs 0: must be" in refused(capsys, *nowhere, "--epochs", "0")
    assert "schedule 'cosine': must be one of linear, constant" in refused(capsys, *nowhere, "--schedule", "cosine")
    assert "learning rate 0" in refused(capsys, *nowhere, "--learning-rate", "0")
    assert "--output" in refused(capsys, *nowhere, "--resume")
    assert "--scores" in refused(capsys, *nowhere, "--scores", "missing")
    assert "is not JSON" in refused(capsys, *nowhere, "--scores", weather)


def test_an_output_that_cannot_be_written_is_said_before_anything_is_read(weather, tmp_path, capsys):
    nowhere = ("tune", "missing.csv", "--output")
    assert "is a file" in refused(capsys, *nowhere, weather)
    assert "cannot be written" in refused(capsys, *nowhere, f"{weather}/below/a/file")
    assert "cannot be written" in refused(capsys, *nowhere, "/proc/nothing/can/be/made/here")
    (tmp_path / "thesis.txt").write_text("mine")
    assert "contains other files" in refused(capsys, *nowhere, str(tmp_path))


def test_an_earlier_result_is_replaced_only_when_asked(model, weather, tuned, tmp_path, capsys):
    before = (tuned / "result.json").read_text()
    arguments = ["tune", weather, "--model", model, "--plan", "1,1,1", "--epochs", "1", "--output", str(tuned)]
    assert "contains an earlier result; pass --overwrite" in refused(capsys, *arguments)
    assert (tuned / "result.json").read_text() == before
    copy = tmp_path / "run"
    for _ in range(2):
        as_json(capsys, *arguments[:-1], str(copy), "--overwrite")
    assert json.loads((copy / "plan.json").read_text())["head"] == 1


def test_a_stopped_run_goes_on_to_the_same_result(model, weather, tmp_path, capsys, monkeypatch):
    arguments = ["tune", weather, "--model", model, "--plan", "3,4,4", "--epochs", "3", "--learning-rate", "0.01"]
    whole = as_json(capsys, *arguments, "--output", str(tmp_path / "whole"))
    from frostline.training.loop import TrainingRun

    step = TrainingRun._step

    def stop(self, number):
        if number == 4:
            raise KeyboardInterrupt
        step(self, number)

    monkeypatch.setattr(TrainingRun, "_step", stop)
    assert invoke([*arguments, "--output", str(tmp_path / "parts")]) == 130
    assert (tmp_path / "parts" / "checkpoints").is_dir()
    capsys.readouterr()
    assert "--resume" in refused(capsys, "predict", str(tmp_path / "parts"), weather)
    monkeypatch.setattr(TrainingRun, "_step", step)
    parts = as_json(capsys, *arguments, "--output", str(tmp_path / "parts"), "--resume")
    assert parts["metrics"] == whole["metrics"]
    assert parts["audit"] == whole["audit"]
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "parts" / "checkpoints").exists()


def test_few_rows_are_enough(model, tmp_path, capsys):
    """The first step of warm-up has rate 0, and the weights before it may stay the best ones."""
    few = write_weather(tmp_path / "few.csv", rows=20)
    found = as_json(capsys, "tune", few, "--model", model, "--plan", "4,4,4", "--learning-rate", "1e-6")
    assert found["best"]["step"] == 1


def test_a_run_that_was_killed_while_it_saved_goes_on(model, weather, tmp_path, capsys, monkeypatch):
    def kill(building, folder):
        (building / "model").rename(folder / "model")
        raise KeyboardInterrupt

    arguments = [
        "tune",
        weather,
        "--model",
        model,
        "--plan",
        "4,4,4",
        "--epochs",
        "1",
        "--output",
        str(tmp_path / "run"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr("frostline.prediction.export._move_into_place", kill)
        patch.setattr(
            "frostline.prediction.export.shutil.rmtree", lambda *args, **options: None
        )  # killed: nothing is tidied up
        assert invoke(arguments) == 130
    capsys.readouterr()
    assert as_json(capsys, *arguments, "--resume")["kind"] == "tuned"
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_process_of_its_own_prints_nothing_but_json(model, weather, tmp_path):
    command = [sys.executable, "-c", "from frostline.cli import main; main()", "tune", weather, "--model", model]
    flags = ["--plan", "4,4,4", "--epochs", "1", "--output", str(tmp_path / "run"), "--json"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["kind"] == "tuned"


def test_a_recipe_comes_from_a_file_and_flags_override_it(tuned, weather, model, tmp_path, capsys):
    plan, recipe = str(tuned / "plan.json"), str(tuned / "recipe.json")
    arguments = ["tune", weather, "--model", model, "--plan", plan, "--recipe", recipe]
    again = as_json(capsys, *arguments, "--output", str(tmp_path / "again"))
    assert again["recipe"] == json.loads((tuned / "recipe.json").read_text())
    assert (tmp_path / "again" / "model" / "model.safetensors").read_bytes() == (
        tuned / "model" / "model.safetensors"
    ).read_bytes()
    other = as_json(capsys, *arguments, "--batch", "8")
    assert other["recipe"] == {**again["recipe"], "batch": 8}
    assert "No such file" in refused(capsys, *arguments[:-1], str(tmp_path / "none.json"))
