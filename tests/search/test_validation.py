"""A search chooses on more validation rows than plain tuning, where Frostline itself carved them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.search.race_tools import write_rows

from frostline.search.validation import with_more_validation
from frostline.tasks import Split, Task, load_task


def rows_of(labels, *, first=1, groups=None):
    numbers = range(first, first + len(labels))
    return Split(
        texts=tuple(f"text {number}" for number in numbers), labels=tuple(labels), groups=groups, rows=tuple(numbers)
    )


def made_up(train=180, validation=20, *, carved=("validation",), labels=None, groups=None):
    """A task whose validation rows are the first ones of the source."""
    labels = [row % 2 for row in range(train + validation)] if labels is None else labels
    every = rows_of(labels, groups=groups)
    is_regression = any(isinstance(label, float) for label in labels)
    return Task(
        name="made up",
        kind="regression" if is_regression else "classification",
        label_names=() if is_regression else tuple("abc"[: max(labels) + 1]),
        train=every.take(range(validation, train + validation)),
        validation=every.take(range(validation)),
        test=rows_of([0, 1], first=9001) if not is_regression else None,
        metrics=("pearson",) if is_regression else ("accuracy",),
        source="memory",
        notes=("a note from before",),
        carved=carved,
    )


def sizes(task):
    return len(task.train), len(task.validation)


# How many -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((180, 20), (140, 60)),
        ((9, 1), (7, 3)),
        ((90, 29), (83, 36)),  # 35.7 rows
        ((1600, 60), (1162, 498)),
        ((1607, 60), (1167, 500)),
        ((5000, 100), (4600, 500)),
        ((5000, 498), (4998, 500)),
    ],
    ids=str,
)
def test_validation_grows_to_three_tenths_of_the_labelled_rows_and_at_most_500(before, after):
    assert sizes(with_more_validation(made_up(*before))) == after


@pytest.mark.parametrize("before", [(140, 60), (100, 100), (5000, 500), (9000, 1000), (7, 3)], ids=str)
def test_validation_that_is_already_large_stays(before):
    task = made_up(*before)
    assert with_more_validation(task) is task


@pytest.mark.parametrize("carved", [(), ("test",)], ids=str)
def test_validation_rows_that_were_given_stay(carved):
    task = made_up(carved=carved)
    assert with_more_validation(task) is task


def test_without_validation_rows_nothing_is_carved():
    task = replace(made_up(), validation=None)
    assert with_more_validation(task) is task


def test_rows_that_are_also_the_test_rows_stay():
    task = made_up()
    task = replace(task, test=task.validation, protocol="paper", carved=("validation", "test"))
    assert with_more_validation(task) is task


# Which ----------------------------------------------------------------------------------------------------------------


def contents(*splits):
    return Counter(
        (row, text, label)
        for split in splits
        for row, text, label in zip(split.rows, split.texts, split.labels, strict=True)
    )


def test_all_labelled_rows_are_still_there_and_each_once():
    task = made_up()
    more = with_more_validation(task)
    assert contents(more.train, more.validation) == contents(task.train, task.validation)
    assert max(contents(more.train, more.validation).values()) == 1


def test_the_rows_that_were_carved_before_come_first():
    task = made_up()
    more = with_more_validation(task)
    assert more.validation.take(range(20)) == task.validation
    assert list(more.train.rows) == sorted(more.train.rows)


def test_test_rows_and_all_else_stay():
    task = made_up()
    more = with_more_validation(task)
    assert more.test is task.test
    assert replace(more, train=task.train, validation=task.validation, notes=task.notes) == task


def test_the_task_that_is_given_stays_as_it_was():
    task = made_up()
    before = sizes(task), task.notes
    with_more_validation(task)
    assert (sizes(task), task.notes) == before


def test_groups_stay_whole():
    groups = tuple(f"group {row // 4}" for row in range(200))
    more = with_more_validation(made_up(groups=groups))
    train, validation = (Counter(split.groups) for split in (more.train, more.validation))
    assert not set(train) & set(validation)
    assert set(train.values()) == set(validation.values()) == {4}
    assert sizes(more) == (140, 60)


def test_copies_of_a_text_stay_together():
    task = made_up()
    train = replace(task.train, texts=tuple(f"copy {row // 3}" for row in range(180)))
    more = with_more_validation(replace(task, train=train))
    assert not set(more.train.texts) & set(more.validation.texts)
    assert len(more.validation) == pytest.approx(60, abs=2)


def test_classes_stay_in_proportion():
    labels = [(0, 0, 0, 0, 0, 0, 1, 1, 1, 2)[row % 10] for row in range(400)]
    more = with_more_validation(made_up(360, 40, labels=labels))
    assert Counter(more.validation.labels) == {0: 72, 1: 36, 2: 12}
    assert Counter(more.train.labels) == {0: 168, 1: 84, 2: 28}


def test_values_stay_in_proportion():
    labels = np.random.default_rng(0).permutation(200).astype(float).tolist()
    more = with_more_validation(made_up(labels=labels))
    assert sizes(more) == (140, 60)
    added = more.validation.take(range(20, 60))
    # A tenth of the training values lies in each of ten ranges, and so does a tenth of those that were moved.
    ordered = sorted(made_up(labels=labels).train.labels)
    tenths = np.digitize(added.labels, [ordered[18 * tenth] for tenth in range(1, 10)])
    assert set(Counter(tenths.tolist()).values()) == {4}


def test_the_seed_decides_which_rows_move():
    task = made_up()
    one, same, other = (with_more_validation(task, seed=seed).validation.rows for seed in (0, 0, 1))
    assert one == same != other


# What is said ---------------------------------------------------------------------------------------------------------


def test_a_note_says_how_many_rows_were_moved():
    notes = with_more_validation(made_up()).notes
    assert notes[0] == "a note from before"
    assert len(notes) == 2
    assert notes[1].startswith("plans are chosen on 60 validation rows, 40 more than carved")


def test_rows_that_load_task_carved_grow(tmp_path):
    task = load_task(write_rows(tmp_path / "letters.csv"))
    labelled = len(task.train) + len(task.validation)
    more = with_more_validation(task)
    assert len(more.validation) == round(0.3 * labelled) > len(task.validation)
    assert len(more.train) + len(more.validation) == labelled
    assert more.fingerprint != task.fingerprint
