"""How long the plans of a search train."""

from itertools import islice

import pytest

from frostline.plans.lengths import is_converged, is_mark, last_mark, marks, round_steps, steps_for
from frostline.records import Plan

TUNED, HEAD = Plan.span(1, 2, 4), Plan(layers=(), head=4)


def history(*pairs, losses=()):
    losses = losses or (1.0,) * len(pairs)
    return [
        {"step": step, "validation_accuracy": value, "validation_loss": loss}
        for (step, value), loss in zip(pairs, losses, strict=True)
    ]


def test_marks_double():
    assert list(islice(marks(), 5)) == [40, 80, 160, 320, 640]
    assert [step for step in range(1, 170) if is_mark(step)] == [40, 80, 160]
    assert last_mark(159.9) == 80


def test_rounds_double_the_steps_up_to_five_epochs_of_many_rows_or_320_steps_of_few():
    assert round_steps(10) == [40, 80, 160, 320]
    assert round_steps(100) == [40, 80, 160, 320, 500]


def test_many_classes_have_more_steps():
    assert round_steps(10, classes=77) == [40, 80, 160, 320, 616]


@pytest.mark.parametrize(("most", "rounds"), [(100, [40, 80, 100]), (40, [40]), (7, [7])])
def test_the_users_limit_ends_the_rounds(most, rounds):
    assert round_steps(10, most=most) == rounds


def test_a_cheap_plan_takes_more_steps_but_not_more_than_four_times_as_many():
    assert [steps_for(TUNED, 40, ratio) for ratio in (0.5, 1, 2, 3, 4, 9)] == [40, 40, 80, 80, 160, 160]


def test_a_head_alone_takes_eight_times_as_many_steps():
    assert steps_for(HEAD, 40) == 320


def test_steps_below_the_first_mark_stay_as_they_are():
    assert steps_for(TUNED, 7) == 7


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(40, 0.5), (80, 0.6), (160, 0.604)], True),
        ([(40, 0.5), (80, 0.6), (160, 0.605)], False),
        ([(40, 0.5), (80, 0.6), (113, 0.7), (160, 0.6)], False),
        ([(40, 0.5), (80, 0.5)], False),
        ([(160, 0.5)], False),
    ],
    ids=["little gained", "enough gained", "gained in between", "too few steps", "no first half"],
)
def test_a_plan_has_converged_when_the_second_half_of_its_steps_brought_little(values, expected):
    assert is_converged(history(*values), "accuracy", gain=1, worth=0.005, least=160) == expected


@pytest.mark.parametrize(
    ("values", "losses", "expected"),
    [
        (((80, 0.7), (160, 0.7)), (0.6, 0.58), False),
        (((80, 0.7), (160, 0.7)), (0.6, 0.595), True),
        (((80, 0.7), (160, 0.8)), (0.6, 0.74), False),
        (((80, 0.7), (160, 0.8)), (0.6, 0.76), True),
        (((40, 0.5), (80, 0.6), (160, 0.7)), (0.4, 0.45, 0.55), True),
    ],
    ids=["the loss falls", "it falls by little", "it rises by little", "it rises by much", "it rose before"],
)
def test_the_loss_tells_whether_more_steps_may_help(values, losses, expected):
    assert is_converged(history(*values, losses=losses), "accuracy", gain=1, worth=0.005, least=160) == expected


def test_a_loss_that_falls_is_an_improvement_where_lower_is_better():
    falling = history((80, 0.6), (160, 0.5))
    assert not is_converged(falling, "accuracy", gain=-1, worth=0.005, least=160)
    assert is_converged(falling, "accuracy", gain=1, worth=0.005, least=160)
