"""Limits and goals as they are written on the command line."""

from __future__ import annotations

import pytest

from frostline.cli import invoke
from frostline.cli._shared.budgets import BudgetOptions
from frostline.errors import OptionError


def read(*, margin=None, **given):
    return BudgetOptions(**given).budget(margin=margin)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("5M", 5e6),
        ("5m", 5e6),
        ("0.5M", 5e5),
        (".5M", 5e5),
        ("500k", 5e5),
        ("2 k", 2e3),
        ("1B", 1e9),
        ("1234567", 1_234_567),
        ("1,000,000", 1e6),
        ("1_000_000", 1e6),
        ("12,345.5k", 12_345_500),
    ],
)
def test_parameters_are_counted_in_the_usual_words(words, count):
    assert read(max_trainable=words).max_trainable == pytest.approx(count, rel=1e-12)


@pytest.mark.parametrize(
    "words", ["", "M", "five", "5G", "5MM", "-5M", "1.2.3", ".", "5e6", "nan", "1,5M", "10,00", "1,0000", ",5"]
)
def test_what_is_no_number_of_parameters_is_one_line(words):
    with pytest.raises(OptionError) as error:
        read(max_trainable=words)
    assert str(error.value) == f"--max-trainable {words!r}: must be a number of parameters, as in 500k or 5M"


@pytest.mark.parametrize(
    ("words", "share"), [("50%", 0.5), ("50 %", 0.5), ("0.5", 0.5), ("12.5%", 0.125), ("1", 1.0), ("100%", 1.0)]
)
def test_latency_is_a_share_or_a_percentage(words, share):
    assert read(max_latency=words).max_latency == pytest.approx(share)


@pytest.mark.parametrize("words", ["", "%", "half", "0,5", "50 percent"])
def test_what_is_no_share_is_one_line(words):
    with pytest.raises(OptionError) as error:
        read(max_latency=words)
    assert str(error.value) == f"--max-latency {words!r}: must be a share, as in 0.5 or 50%"


@pytest.mark.parametrize("words", ["50", "150%", "0", "0%", "-10%", "nan"])
def test_a_share_that_cannot_be_is_refused_by_its_name(words):
    with pytest.raises(OptionError, match=r"^`max_latency=.*`: "):
        read(max_latency=words)


def test_without_flags_there_is_no_limit_and_the_cheapest_is_wanted():
    budget = read()
    assert (budget.minutes, budget.max_trainable, budget.max_latency, budget.max_memory, budget.max_layers) == 5 * (
        None,
    )
    assert (budget.goal, budget.margin) == ("cheapest", None)


def test_other_limits_are_taken_as_they_are():
    budget = read(minutes=2.5, max_memory=1.5, max_layers=6, margin=0.0)
    assert (budget.minutes, budget.max_memory, budget.max_layers, budget.margin) == (2.5, 1.5, 6, 0.0)


@pytest.mark.parametrize("goal", ["smallest", "fastest", "best"])
def test_a_goal_is_what_its_flag_says(goal):
    assert read(**{goal: True}).goal == goal


def test_two_goals_at_once_are_refused():
    with pytest.raises(OptionError, match=r"^--smallest and --best: choose one$"):
        read(smallest=True, best=True)
    with pytest.raises(OptionError, match=r"^--smallest and --fastest and --best: choose one$"):
        read(smallest=True, fastest=True, best=True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max-trainable", "many"], "--max-trainable 'many': must be a number of parameters"),
        (["--max-latency", "2"], "--max-latency 2: is a share"),
        (["--minutes", "0"], "--minutes 0: must be above 0"),
        (["--max-layers", "0"], "--max-layers 0: must be above 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_limit_is_refused_before_anything_is_read(flags, message, capsys):
    assert invoke(["plan", "no-such-file.csv", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert message in err
