from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from frostline.tasks import Split, Task

CHOICES = Split(
    texts=("Why?", "Who?"),
    choices=(("because", "so", "thus"), ("me", "you", "us")),
    labels=(2, 0),
    rows=(4, 9),
)
SPLIT = Split(texts=("a", "b", "c"), pairs=("x", "y", "z"), labels=(0, 1, 0), groups=("g", "g", "h"), rows=(2, 3, 5))


def task(**changes: Any) -> Task:
    fields: dict[str, Any] = {
        "name": "t",
        "kind": "classification",
        "label_names": ("no", "yes"),
        "train": SPLIT,
        "validation": None,
        "test": None,
        "metrics": ("accuracy",),
        "source": "here",
    }
    return Task(**{**fields, **changes})


def test_take_keeps_every_column_together_in_the_order_given():
    taken = SPLIT.take([2, 0])
    assert (taken.texts, taken.pairs, taken.labels) == (("c", "a"), ("z", "x"), (0, 0))
    assert (taken.groups, taken.rows, len(taken)) == (("h", "g"), (5, 2), 2)


def test_a_question_becomes_a_row_per_choice_labelled_right_or_wrong():
    rows = CHOICES.as_rows()
    assert rows.texts == ("Why?",) * 3 + ("Who?",) * 3
    assert rows.pairs == ("because", "so", "thus", "me", "you", "us")
    assert rows.labels == (0, 0, 1, 1, 0, 0)
    assert rows.groups == ("question 4",) * 3 + ("question 9",) * 3
    assert rows.rows == (4, 4, 4, 9, 9, 9)
    assert rows.choices is None


def test_rows_of_other_splits_are_themselves():
    assert SPLIT.as_rows() is SPLIT


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"labels": (0, 1)}, "3 texts but 2 labels"),
        ({"rows": (1, 2, 3, 4)}, "3 texts but 4 rows"),
        ({"pairs": ("x",)}, "3 texts but 1 pairs"),
        ({"choices": (("a", "b"),) * 3}, "pairs or choices, not both"),
        ({"pairs": None, "choices": (("a",),) * 3}, "two or more choices"),
        ({"pairs": None, "choices": (("a", "b"),) * 3, "labels": (0, 1, 2)}, "a label among them"),
    ],
)
def test_a_split_that_does_not_add_up_is_refused(changes: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match=problem):
        dataclasses.replace(SPLIT, **changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kind": "ranking"}, "kind must be one of"),
        ({"metrics": ()}, "needs a metric"),
        ({"label_names": ()}, "label names belong"),
        ({"kind": "regression"}, "label names belong"),
        ({"label_names": ("yes", "yes")}, "label names repeat"),
        ({"label_names": ("yes",)}, "labels without a name"),
        ({"kind": "multiple choice"}, "does not fit the kind"),
        ({"test": SPLIT.take([])}, "the test split is empty"),
        ({"more_tests": {"elsewhere": SPLIT.take([])}}, "the elsewhere split is empty"),
        ({"more_tests": {"validation": SPLIT}}, "further test rows cannot be named 'validation'"),
    ],
)
def test_a_task_that_does_not_add_up_is_refused(changes: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match=problem):
        task(**changes)


def test_records_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SPLIT.texts = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        task().name = "other"


def test_the_fingerprint_is_pinned():
    assert task().fingerprint == "1c6435a3dab55c70d909d5f54d9fa64c803dcfd256118841ee8b8eeb57cbfc79"


@pytest.mark.parametrize(
    "changes",
    [
        {"label_names": ("no", "maybe")},
        {"train": dataclasses.replace(SPLIT, texts=("a", "b", "d"))},
        {"train": dataclasses.replace(SPLIT, texts=("ab", "", "c"))},
        {"train": dataclasses.replace(SPLIT, pairs=("x", "y", "w"))},
        {"train": dataclasses.replace(SPLIT, pairs=None)},
        {"train": dataclasses.replace(SPLIT, labels=(1, 1, 0))},
        {"train": SPLIT.take([1, 0, 2])},
        {"test": SPLIT},
        {"validation": SPLIT},
        {"more_tests": {"elsewhere": SPLIT}},
    ],
)
def test_the_fingerprint_changes_with_the_data(changes: dict[str, Any]):
    assert task(**changes).fingerprint != task().fingerprint


def test_further_test_rows_are_splits_that_are_read_at_the_end():
    more = task(test=SPLIT, more_tests={"elsewhere": SPLIT.take([0, 1])})
    assert list(more.splits) == ["train", "test", "elsewhere"]
    assert more.tests == ("test", "elsewhere")
    assert task(test=SPLIT).tests == ("test",)
    assert task(more_tests={}).fingerprint == task().fingerprint
    assert more.fingerprint != task(test=SPLIT, more_tests={"another": SPLIT.take([0, 1])}).fingerprint


def test_the_fingerprint_ignores_where_rows_lay():
    moved = dataclasses.replace(SPLIT, rows=(7, 8, 9), groups=None)
    assert task(train=moved, name="other", source="there").fingerprint == task().fingerprint


def test_regression_labels_fingerprint_alike_as_whole_numbers_and_floats():
    whole = dataclasses.replace(SPLIT, labels=(0, 1, 3))
    floats = dataclasses.replace(SPLIT, labels=(0.0, 1.0, 3.0))
    of = [task(kind="regression", label_names=(), train=s).fingerprint for s in (whole, floats)]
    assert of[0] == of[1]
