"""What a study's tables say of one arm against another, and of answers that need no model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from frostline.records.difference import Difference
from frostline.stats.intervals import summarise
from frostline.studies._comparisons import add_holm, interval_columns
from frostline.studies._tables import best_constant, constant_quality, is_informative


def task_of(labels, metric, *, kind="classification"):
    return SimpleNamespace(
        name="t", train=_Rows(labels), test=_Rows(labels), validation=None, metrics=(metric,), kind=kind
    )


class _Rows:
    def __init__(self, labels):
        self.labels, self.groups = labels, None

    def __len__(self):
        return len(self.labels)


def test_the_best_constant_answer_is_the_most_frequent_one_where_rows_are_counted():
    assert best_constant(task_of([2, 0, 2, 1], "accuracy")) == 2
    assert constant_quality(task_of([2, 0, 2, 1], "accuracy")) == pytest.approx(50)


def test_with_f1_it_is_the_class_that_f1_is_about_however_rare():
    rare = task_of([0, 0, 0, 1], "f1")
    assert best_constant(rare) == 1  # always saying no has no F1 at all
    assert constant_quality(rare) == pytest.approx(100 * 2 * 0.25 * 1 / (0.25 + 1))


def test_where_no_constant_answer_is_better_it_is_the_most_frequent_one():
    assert best_constant(task_of([0, 1, 1], "matthews")) == 1


def test_of_numbers_it_is_their_mean():
    assert best_constant(task_of([1.0, 2.0, 6.0], "mse", kind="regression")) == pytest.approx(3.0)


def test_a_task_tells_something_only_where_full_tuning_is_shown_to_beat_the_best_constant_answer():
    labels = [0] * 60 + [1] * 40
    task = task_of(labels, "accuracy")

    def answers(right):
        """A point that gets so many of the 100 rows right; wrong ones are in both classes."""
        said = [label if 37 * place % 100 < right else 1 - label for place, label in enumerate(labels)]
        return SimpleNamespace(is_done=True, result=SimpleNamespace(predictions={"test": tuple(said)}))

    lost = SimpleNamespace(is_done=False, result=None)
    assert is_informative(task, [answers(95), answers(90), lost])
    assert not is_informative(task, [answers(60), answers(62)])  # no better than always the first class
    assert not is_informative(task, [answers(63)])  # better, but not shown with 100 rows
    assert not is_informative(task, [lost])


@pytest.mark.parametrize(
    ("gaps", "rows", "shown"),
    [
        ([0.1, 0.0, 0.2], (-0.5, 0.6), True),
        ([0.1, 0.0, 0.2], (-1.5, 0.6), False),  # the rows do not show it
        ([3.0, -3.0, 0.3], (-0.5, 0.6), False),  # the seeds do not show it
    ],
)
def test_little_is_lost_only_where_seeds_and_rows_both_show_it(gaps, rows, shown):
    over_rows = Difference(value=0.1, low=rows[0], high=rows[1])
    assert interval_columns(summarise(gaps), over_rows, margin=1.0)["non_inferior"] is shown


def test_one_seed_has_no_interval_of_either_kind():
    found = interval_columns(summarise([0.1]), Difference(value=0.1, low=0.0, high=0.2), margin=1.0)
    assert set(found.values()) == {None}


def test_a_comparison_without_a_test_counts_among_those_that_are_corrected():
    records = [
        {"task": "a", "seeds_low": 0.1, "p": 0.02},
        {"task": "a", "seeds_low": -4.0, "p": None},  # the same difference for all seeds
        {"task": "a", "seeds_low": None, "p": None},  # the baseline
        {"task": "b", "seeds_low": 0.1, "p": 0.02},
    ]
    corrected = add_holm(records, ["task"], counts_undefined=True)
    assert [record["p_holm"] for record in corrected] == [pytest.approx(0.04), None, None, pytest.approx(0.02)]
