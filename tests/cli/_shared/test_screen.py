"""Tables and progress, on a terminal and without one."""

from __future__ import annotations

from frostline.cli._shared import screen
from frostline.progress import Step
from frostline.records.table import table_of


def show_progress():
    standing = table_of("race", "round 1", [{"plan": "(2, 2, 2)"}])
    with screen.stages() as progress:
        progress(Step(stage="training", detail="epoch 1/3, loss 0.5", done=1, total=9))
        progress(Step(stage="race", table=standing))
        progress(Step(stage="training", detail="epoch 2/3, loss 0.4", done=2, total=9))


def test_what_is_not_a_terminal_sees_no_progress(capsys):
    show_progress()
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_the_table_above_the_bar_on_standard_error(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, that is a terminal
    show_progress()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.rindex("(2, 2, 2)") < err.rindex("epoch 2/3, loss 0.4") < err.rindex("2/9")


def test_a_table_says_once_what_is_the_same_in_all_rows_and_joins_the_ends_of_intervals(capsys):
    rows = [
        {
            "task": "letters",
            "arm": "full",
            "mean": 80.0,
            "low": 79.0,
            "high": 81.0,
            "rows_low": None,
            "rows_high": None,
        },
        {"task": "letters", "arm": "half", "mean": 70.0, "low": None, "high": None, "rows_low": -1.5, "rows_high": 2.0},
    ]
    screen.show_table(table_of("quality", "Quality [of all]", rows, notes=["a note"]))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:5] == [
        "Quality [of all]",
        "task letters",
        "arm mean 95% interval 95% over rows",
        "full 80 79 to 81",
        "half 70 -1.5 to 2",
    ]
    assert lines[5] == "note: a note"


def test_what_is_no_in_all_rows_is_said(capsys):
    made = table_of("quality", "Quality", [{"arm": "full", "informative": False, "failed": 0}] * 2)
    screen.show_table(made)
    said = capsys.readouterr().out
    assert "informative no" in said
    assert "failed" not in said


def test_without_a_terminal_a_line_is_said_once_in_a_while(monkeypatch, capsys):
    now = iter([0.0, 10.0, 31.0, 31.0, 40.0, 61.0, 61.0])
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(now))
    with screen.stages() as progress:
        for done in (1, 2, 3):
            progress(Step(stage="skip: trials", done=done, total=7))
        progress(Step(stage="reading"))
    assert capsys.readouterr() == ("", "skip: trials 2 of 7\nreading\n")


def test_intervals_say_what_they_are_of(capsys):
    one = {
        "mean": 1.0,
        "low": 0.5,
        "high": 1.5,
        "seeds_low": 0.0,
        "seeds_high": 1.0,
        "share_low": 0.1,
        "share_high": 0.2,
    }
    screen.show_table(table_of("some", "Some", [one, {**one, "low": 0.6, "seeds_low": 0.1, "share_low": 0.15}]))
    head = " ".join(capsys.readouterr().out.splitlines()[2].split())
    assert head == "95% interval 95% over seeds share 95%"
