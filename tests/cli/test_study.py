"""`frostline study` and `frostline results` as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.search.race_tools import write_rows
from tests.studies.study_tools import save_tiny

from frostline.cli import invoke
from frostline.studies import STUDIES


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return str(save_tiny(folder / "tiny", layers=2)), str(write_rows(folder / "letters.csv", 90))


@pytest.fixture(scope="module")
def arguments(made, tmp_path_factory):
    """A quick study of one seed."""
    encoder, data = made
    output = str(tmp_path_factory.mktemp("out") / "study")
    return ["study", "freeze", "--quick", "--encoder", encoder, "--tasks", data, "--seeds", "1", "--epochs", "1",
            "--no-cache", "--no-estimate", "--output", output]  # fmt: skip


def test_a_study_prints_its_tables_and_where_they_lie_and_goes_on_where_it_was(arguments, capsys):
    assert invoke(arguments) == 0
    first = capsys.readouterr().out
    assert "Quality by the number of frozen layers" in first
    assert "1 of 1 trials to run" in first
    assert "the best constant answer has" in first
    assert f"again:   frostline results {arguments[-1]}; its trials: --trials" in first
    assert "letters: columns guessed from their names: text = 'text', label = 'label'" in first
    assert invoke(arguments) == 0
    again = capsys.readouterr().out
    assert "trials to run" not in again
    tables = again.partition("'label'\n")[2]
    assert tables and tables in first  # the same tables


def test_json_is_one_object_with_the_tables(arguments, capsys):
    invoke(arguments)
    capsys.readouterr()
    assert invoke([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["study"], found["trials"], found["failed"]) == ("freeze", 3, [])
    assert [table["name"] for table in found["tables"]] == ["quality", "share", "mean_share", "parameters"]


def test_results_prints_the_tables_or_the_trials_and_exports(arguments, capsys, tmp_path):
    invoke(arguments)
    capsys.readouterr()
    assert invoke(["results", arguments[-1]]) == 0
    assert "Quality by the number of frozen layers" in capsys.readouterr().out
    assert invoke(["results", arguments[-1], "--trials"]) == 0
    assert "3 trials" in capsys.readouterr().out
    assert invoke(["results", arguments[-1], "--export", str(tmp_path / "trials.csv")]) == 0
    assert "3 trials written to" in capsys.readouterr().out
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 4
    assert invoke(["results", str(tmp_path)]) == 2
    assert "contains no trials" in capsys.readouterr().err


def test_the_list_has_every_study_with_its_paper_and_question(capsys):
    for arguments in (["study"], ["study", "--list"]):
        assert invoke(arguments) == 0
        out = capsys.readouterr().out
        for name, one in STUDIES.items():
            assert name in out
            assert one.question[:40] in out
    assert invoke(["study", "--list", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)["studies"]}
    assert set(listed) == set(STUDIES)
    for name, one in STUDIES.items():
        assert (listed[name]["recipe"], listed[name]["unstated"]) == (dict(one.recipe), dict(one.unstated))
    assert "under --protocol paper." in listed["freeze"]["selection"]


def test_flags_of_the_recipe_and_the_metric_reach_every_trial(made, tmp_path, capsys):
    encoder, data = made
    flags = ["--select", "best", "--warmup", "0.25", "--schedule", "constant", "--head", "mean", "--dropout-frozen"]
    study = ["study", "freeze", "--quick", "--encoder", encoder, "--tasks", data, "--seeds", "1", "--epochs", "1"]
    more = ["--metric", "macro_f1", "--no-estimate", "--output", str(tmp_path / "out")]
    assert invoke([*study, *flags, *more]) == 0
    capsys.readouterr()
    assert invoke(["results", str(tmp_path / "out"), "--export", str(tmp_path / "trials.json")]) == 0
    trials = json.loads((tmp_path / "trials.json").read_text())
    asked = {"select": "best", "warmup": 0.25, "schedule": "constant", "head": "mean", "lower_dropout": True}
    assert len(trials) == 3
    for trial in trials:
        assert {name: trial["recipe"][name] for name in asked} == asked
        assert trial["task"]["metrics"][0] == "macro_f1"
    assert invoke([*study, *flags, *more[2:]]) == 2
    assert "has the metrics macro_f1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"freeze": "freze"}, "unknown study 'freze' (did you mean freeze?)"),
        ({"--seeds": "0"}, "seeds 0: must be 1 or more"),
        ({"--tasks": ","}, "--tasks '': names no task; omit it to use the study's default tasks"),
        ({"--rows": "0"}, "rows 0: must be 1 or more"),
        ({"--option": "step"}, "--option: 'step' is not of the form name=value"),
        ({"--option": "stepp=2"}, "unknown option 'stepp' (did you mean step?)"),
        ({"--tasks": "glue/sst9"}, "sst9"),
        ({"--workers": "0"}, "workers 0: must be a whole number, 1 or more"),
        ({"--protocol": "none"}, "unknown protocol 'none'"),
        ({"--epochs": "0"}, "recipe epochs 0"),
    ],
)
def test_a_mistake_is_one_line(arguments, changed, message, capsys, tmp_path):
    given = [*arguments[:-1], str(tmp_path / "out")]
    for flag, value in changed.items():
        if flag == "freeze":
            given[1] = value
        elif flag in given:
            given[given.index(flag) + 1] = value
        else:
            given += [flag, value]
    assert invoke(given) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "out" / "store.sqlite").exists()


def test_a_folder_with_another_specification_is_refused_with_the_difference(arguments, capsys):
    invoke(arguments)
    capsys.readouterr()
    given = list(arguments)
    given[given.index("--epochs") + 1] = "2"
    assert invoke(given) == 2
    assert "recipe epochs 1 there, 2 here" in capsys.readouterr().err


def test_a_study_of_which_trials_failed_ends_with_3_and_says_which(made, tmp_path, capsys):
    encoder, data = made
    given = ["study", "reinitialise", "--quick", "--encoder", encoder, "--tasks", data, "--seeds", "1", "--epochs", "1",
             "--option", "width=1", "--no-cache", "--no-estimate", "--output", str(tmp_path / "out"),
             "--option", "new_layer_rate=1e38"]  # fmt: skip
    assert invoke(given) == 3
    told = capsys.readouterr()
    assert "trials failed, the first:" in told.err
    assert "--retry-failed" in told.err
    assert invoke(["results", str(tmp_path / "out"), "--trials"]) == 0
    assert "failed" in capsys.readouterr().out


def test_a_dry_run_says_the_cost_and_starts_nothing(made, tmp_path, capsys):
    encoder, data = made
    given = ["study", "freeze", "--quick", "--encoder", encoder, "--tasks", data, "--seeds", "1", "--dry-run",
             "--output", str(tmp_path / "study")]  # fmt: skip
    assert invoke(given) == 0
    said = capsys.readouterr().out
    assert "1 of 1 trials to run, 2 will follow from their results: about" in said
    assert "no trial was run; repeat the command without --dry-run" in said
    assert invoke([*given, "--json"]) == 2
    assert "--dry-run prints one line, not tables" in capsys.readouterr().err
    assert invoke([*given, "--no-estimate"]) == 0
    assert "1 of 1 trials to run, 2 will follow from their results\n" in capsys.readouterr().out


def test_columns_can_be_named(made, tmp_path, capsys):
    encoder, data = made
    other = tmp_path / "other.csv"
    other.write_text(Path(data).read_text().replace("text,label", "a,b", 1))
    given = ["study", "freeze", "--quick", "--encoder", encoder, "--tasks", str(other), "--dry-run", "--output",
             str(tmp_path / "study")]  # fmt: skip
    assert invoke(given) == 2
    assert "--text and --label" in capsys.readouterr().err
    assert invoke([*given, "--text", "a", "--label", "b"]) == 0
    assert "guessed" not in capsys.readouterr().out


def test_an_option_that_is_given_twice_is_refused(arguments, capsys):
    assert invoke([*arguments, "--option", "step=1", "--option", "step=2"]) == 2
    assert capsys.readouterr().err == "frostline: --option: step is given twice; give it once\n"
