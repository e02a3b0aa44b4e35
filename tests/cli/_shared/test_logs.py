"""What commands print of the log, and what they write to a file of it: the same three flags for every command."""

from __future__ import annotations

import json
import logging
import re

import pytest
from tests.cli.commands import command_names, flags_of
from tests.tiny import save_tiny

from frostline.cli import invoke
from frostline.cli._shared import screen
from frostline.cli._shared.logs import LogOptions, listening
from frostline.errors import OptionError, TrialError
from frostline.progress import Step, logger

# What each command does in an instant; the others are asked for a file that is not there.
INSTANT = {
    "measure": ["--list-scores"],
    "tune": ["--list-plans"],
    "study": ["--list"],
    "cache": [],
    "encoders": [],
    "tasks": [],
    "doctor": [],
}
MISSING = {"predict": ["missing", "missing.csv"], "evaluate": ["missing", "missing.csv"]}
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) +\S.*")


def arguments_of(command: str) -> list[str]:
    return [command, *(INSTANT[command] if command in INSTANT else MISSING.get(command, ["missing.csv"]))]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    path.write_text("text,label\n" + "".join(f"text {row},{'warm' if row % 2 else 'cold'}\n" for row in range(40)))
    return str(path)


# Every command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", command_names())
def test_every_command_has_the_flags(command):
    assert {"--verbose", "--quiet", "--log-file"} <= set(flags_of(command))


@pytest.mark.parametrize("command", command_names())
def test_every_command_appends_what_happens_to_the_file_with_times(command, tmp_path, capsys):
    path = tmp_path / "all.log"
    path.write_text("from before\n")
    code = invoke([*arguments_of(command), "--log-file", str(path)])
    said = capsys.readouterr().err
    before, first, *rest = path.read_text().splitlines()
    assert before == "from before"
    assert LINE.fullmatch(first) and f"frostline {command}: " in first
    assert all(LINE.fullmatch(line) for line in rest)
    if code:
        assert rest[-1].endswith(said.removeprefix("frostline: ").rstrip())
        assert " ERROR " in rest[-1]
    assert logger.handlers == []


@pytest.mark.parametrize("command", command_names())
def test_every_command_prints_the_same_results_when_it_is_quiet(command, capsys):
    code = invoke(arguments_of(command))
    usual = capsys.readouterr()
    assert invoke([*arguments_of(command), "--quiet"]) == code
    assert capsys.readouterr() == usual


@pytest.mark.parametrize("command", command_names())
def test_every_command_prints_details_on_standard_error_when_it_is_verbose(command, capsys):
    code = invoke(arguments_of(command))
    usual = capsys.readouterr()
    assert invoke([*arguments_of(command), "--verbose"]) == code
    out, err = capsys.readouterr()
    assert out == usual.out
    assert err.startswith(f"frostline {command}: ")
    assert err.endswith(usual.err)


@pytest.mark.parametrize("command", INSTANT)
def test_with_json_standard_output_is_one_object_however_much_is_said(command, tmp_path, capsys):
    for flags in (["--verbose"], ["--quiet"], ["--log-file", str(tmp_path / "log")]):
        assert invoke([*arguments_of(command), "--json", *flags]) == 0
        assert isinstance(json.loads(capsys.readouterr().out), dict)


@pytest.mark.parametrize("command", command_names())
def test_verbose_and_quiet_together_are_refused(command, capsys):
    assert invoke([*arguments_of(command), "--verbose", "--quiet"]) == 2
    assert capsys.readouterr() == ("", "frostline: --verbose and --quiet: give one of them\n")


@pytest.mark.parametrize("place", ["", "no/such/folder/log"])
def test_a_file_that_cannot_be_written_is_one_line(place, tmp_path, capsys):
    assert invoke(["tasks", "--log-file", str(tmp_path / place)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"frostline: --log-file {tmp_path / place}: cannot be written (")
    assert err.count("\n") == 1


# A command that works ------------------------------------------------------------------------------------------------


def test_tuning_prints_the_plan_unless_it_is_quiet_and_writes_it_to_the_file_anyway(rows, model, tmp_path, capsys):
    arguments = ["tune", rows, "--model", model, "--plan", "4,4,4", "--epochs", "1"]
    assert invoke(arguments) == 0
    usual = capsys.readouterr()
    assert usual.err == "" and usual.out.startswith("plan (4, 4, 4), method full")
    assert invoke([*arguments, "--quiet", "--log-file", str(tmp_path / "log")]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == "" and quiet.out.startswith("audit: ")
    written = (tmp_path / "log").read_text()
    assert re.search(r" INFO +plan \(4, 4, 4\), method full", written)
    assert [line.split("stage: ")[1] for line in written.splitlines() if "stage: " in line][-2:] == [
        "training",
        "predicting",
    ]


def test_with_json_and_verbose_all_lines_go_to_standard_error(rows, model, capsys):
    arguments = ["tune", rows, "--model", model, "--plan", "4,4,4", "--epochs", "1", "--json", "--verbose"]
    assert invoke(arguments) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["kind"] == "tuned"
    assert "plan (4, 4, 4), method full" in err and "stage: training" in err


def test_a_bug_in_a_trial_is_one_line_and_its_traceback_with_verbose(rows, model, tmp_path, capsys, monkeypatch):
    def fail(*given, **options):
        raise TrialError("trial 12ab (plan (4, 4, 4)) failed: KeyError: 'x'", "Traceback from elsewhere\nKeyError: 'x'")

    monkeypatch.setattr("frostline.api._run.run", fail)
    arguments = ["run", rows, "--model", model, "--output", str(tmp_path / "run")]
    assert invoke(arguments) == 1
    line = "frostline: trial 12ab (plan (4, 4, 4)) failed: KeyError: 'x'\n"
    assert capsys.readouterr() == ("", line)
    assert invoke([*arguments, "--verbose"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"\nTraceback from elsewhere\nKeyError: 'x'\n{line}")


def test_a_bug_of_ours_is_in_the_file_with_its_traceback(tmp_path, monkeypatch):
    def fail(*given):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(screen, "table", fail)
    with pytest.raises(ZeroDivisionError):
        invoke(["tasks", "--log-file", str(tmp_path / "log")])
    written = (tmp_path / "log").read_text()
    assert "ERROR   a bug\nTraceback (most recent call last):" in written
    assert written.endswith("ZeroDivisionError: a bug\n")


# Levels and streams --------------------------------------------------------------------------------------------------


def say_all() -> None:
    logger.debug("a detail")
    logger.info("some information")
    logger.warning("a warning")


@pytest.mark.parametrize(
    ("options", "is_json", "out", "err"),
    [
        (LogOptions(), False, "some information\n", "warning: a warning\n"),
        (LogOptions(), True, "", "warning: a warning\n"),
        (LogOptions(quiet=True), False, "", "warning: a warning\n"),
        (LogOptions(quiet=True), True, "", "warning: a warning\n"),
        (LogOptions(verbose=True), False, "some information\n", "a detail\nwarning: a warning\n"),
        (LogOptions(verbose=True), True, "", "a detail\nsome information\nwarning: a warning\n"),
    ],
)
def test_information_goes_to_standard_output_and_the_rest_to_standard_error(options, is_json, out, err, capsys):
    with listening(options, is_json=is_json):
        say_all()
    assert capsys.readouterr() == (out, err)


def test_a_warning_with_a_traceback_shows_it_among_the_details(capsys):
    with listening(LogOptions(verbose=True)):
        try:
            raise KeyError("x")
        except KeyError:
            logger.debug("it failed", exc_info=True)
    assert re.fullmatch(r"it failed\nTraceback [\s\S]*\nKeyError: 'x'\n", capsys.readouterr().err)


def test_the_file_has_all_levels_whatever_is_printed(tmp_path, capsys):
    with listening(LogOptions(quiet=True, log_file=tmp_path / "log")):
        say_all()
    said = [line.split(maxsplit=2)[2] for line in (tmp_path / "log").read_text().splitlines()]
    assert said == ["DEBUG   a detail", "INFO    some information", "WARNING a warning"]


def test_the_lines_that_were_printed_are_known_while_the_command_runs(capsys):
    assert screen.printed_lines() == []
    with listening(LogOptions()):
        say_all()
        assert screen.printed_lines() == ["some information"]
    with listening(LogOptions(quiet=True)):
        say_all()
        assert screen.printed_lines() == []


def test_the_logger_is_as_it_was_when_the_command_is_over(tmp_path):
    before = logger.level
    with pytest.raises(OptionError), listening(LogOptions(log_file=tmp_path / "log")):
        assert logger.level == logging.DEBUG and len(logger.handlers) == 2
        raise OptionError("no")
    assert (logger.level, logger.handlers) == (before, [])


def test_a_quiet_terminal_sees_no_bar_and_no_spinner(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, that is a terminal
    with listening(LogOptions(quiet=True)), screen.waiting("waiting"), screen.stages() as progress:
        progress(Step(stage="training", done=1, total=2))
    assert capsys.readouterr() == ("", "")


def test_a_line_on_standard_error_stands_above_the_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with listening(LogOptions()), screen.stages() as progress:
        progress(Step(stage="training", detail="epoch 1", done=1, total=2))
        logger.warning("something is odd")
        progress(Step(stage="training", detail="epoch 2", done=2, total=2))
    err = capsys.readouterr().err
    assert err.index("something is odd") < err.rindex("epoch 2")
