"""Which rows plans are judged on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frostline.records import TrialResult
from frostline.search.judging import FOLDS, Judging, divided_for_search
from frostline.tasks import Split, Task


def split(rows, *, first=0):
    numbers = range(first, first + rows)
    return Split(texts=tuple(f"ice {n}" for n in numbers), labels=tuple(n % 2 for n in numbers), rows=tuple(numbers))


def task(train, validation, *, carved=("validation", "test"), test=None):
    return Task(
        name="a test", kind="classification", label_names=("no", "yes"), train=split(train),
        validation=split(validation, first=train) if validation else None, test=test, metrics=("accuracy",),
        source="a test", carved=carved,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (task(299, 34), {}, FOLDS),
        (task(300, 34), {}, None),
        (task(20, 4), {}, FOLDS),
        (task(299, 33, carved=("test",)), {}, None),
        (task(299, 33), {"refit": False}, None),
        (task(299, 33), {"goal": "best"}, None),
        (task(299, 33), {"goal": "smallest"}, FOLDS),
    ],
    ids=["few", "enough", "very few", "given", "no refit", "all plans", "small"],
)
def test_few_labelled_rows_are_judged_in_folds(rows, options, expected):
    divided, folds = divided_for_search(rows, **{"refit": True, "goal": "cheapest", **options})
    assert folds == expected
    assert sorted(divided.labelled.rows) == sorted(rows.labelled.rows)


def test_validation_rows_that_are_the_test_rows_are_judged_on_as_they_are():
    rows = task(40, 20)
    both = replace(rows, test=rows.validation)
    assert divided_for_search(both, refit=True, goal="cheapest") == (both, None)


def test_the_rows_are_those_for_validation_or_all_labelled_ones_in_their_order():
    rows = task(6, 4)
    assert Judging(rows).rows == rows.validation
    assert Judging(rows, 4).rows.texts == (*rows.train.texts, *rows.validation.texts)
    assert (Judging(rows).in_words, Judging(rows, 4).in_words) == ("4 validation rows", "10 labelled rows in 4 folds")


def test_a_difference_is_that_of_the_accuracies_on_these_rows():
    rows = task(60, 40)
    labels = [*rows.train.labels, *rows.validation.labels]
    right = TrialResult(status="done", predictions={"validation": tuple(labels)})
    guesses = (*labels[:50], *(1 - label for label in labels[50:]))
    half = TrialResult(status="done", predictions={"validation": guesses})
    difference = Judging(rows, 4).difference(right, half)
    assert difference.value == pytest.approx(50)
    assert 38 < difference.low < 50 < difference.high < 62
