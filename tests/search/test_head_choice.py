"""The head of a search: the tokens that tell classes apart decide, where plans may have either head."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny import DEPTH, random_tokens, tiny_encoder

from frostline.records import Recipe
from frostline.records.budget import Budget
from frostline.search import head_choice
from frostline.search.head_choice import choose_head
from frostline.search.planning import Inputs
from frostline.states.pooled import SeenTexts
from frostline.tasks import Split, Task

WIDTH = 32
ROWS = 60


def task_with(labels, kind="classification"):
    labels = tuple(np.asarray(labels).tolist())
    split = Split(
        texts=tuple(f"text {row}" for row in range(len(labels))),
        choices=(("one", "two"),) * len(labels) if kind == "multiple choice" else None,
        labels=labels,
        rows=tuple(range(1, len(labels) + 1)),
    )
    names = () if kind == "regression" else tuple(str(number) for number in range(1 + int(max(labels))))
    return Task(
        name="made up",
        kind=kind,
        label_names=names,
        train=split,
        validation=None,
        test=None,
        metrics=("pearson",) if kind == "regression" else ("accuracy",),
        source="memory",
    )


def seen_texts(labels, *, told_by, layers=range(DEPTH + 1), texts=None):
    """Random states, in which one pooling tells the labels at some layers."""
    numbers = np.arange(len(labels)) if texts is None else texts
    random = np.random.default_rng(0)
    states = {name: random.normal(size=(DEPTH + 1, len(numbers), WIDTH)) for name in ("mean", "first")}
    values = np.asarray(labels)[numbers]
    signs = np.eye(3)[values] if np.issubdtype(values.dtype, np.integer) else values[:, None]
    for layer in layers:
        states[told_by][layer][:, : signs.shape[1]] += 5 * signs
    return SeenTexts(
        tokens=random_tokens((3,) * len(numbers)),
        states={name: torch.as_tensor(value, dtype=torch.float32) for name, value in states.items()},
        texts=numbers,
    )


def classes(count=2, rows=ROWS):
    return np.random.default_rng(1).integers(0, count, rows)


def values(rows=ROWS):
    return np.random.default_rng(1).normal(size=rows)


def chosen(labels, *, name="bert", kind="classification", **seen):
    return choose_head(tiny_encoder(name), task_with(labels, kind), seen_texts(labels, **seen))


# Which tokens tell ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(("told_by", "head"), [("mean", "average"), ("first", "family")])
def test_the_head_reads_what_tells_the_classes_apart(told_by, head, count):
    assert chosen(classes(count), told_by=told_by) == head


@pytest.mark.parametrize(("told_by", "head"), [("mean", "average"), ("first", "family")])
def test_the_head_reads_what_tells_the_values(told_by, head):
    assert chosen(values(), kind="regression", told_by=told_by) == head


@pytest.mark.parametrize("layer", range(DEPTH // 2, DEPTH + 1))
@pytest.mark.parametrize(("told_by", "head"), [("mean", "average"), ("first", "family")])
def test_one_layer_of_the_upper_half_is_enough(told_by, head, layer):
    assert chosen(classes(), told_by=told_by, layers=[layer]) == head


def test_layers_of_the_lower_half_do_not_count():
    labels = classes()
    sign = torch.as_tensor(2.0 * labels - 1.0)[:, None]
    chance = seen_texts(labels, told_by="first", layers=())
    states = {name: value.clone() for name, value in chance.states.items()}
    states["mean"][: DEPTH // 2] += 10.0 * sign  # beyond doubt
    states["first"][DEPTH:] += 0.3 * sign  # better than chance
    seen = SeenTexts(tokens=chance.tokens, states=states, texts=chance.texts)
    assert choose_head(tiny_encoder("bert"), task_with(labels), seen) == "family"


@pytest.mark.parametrize("told_by", ["mean", "first"])
def test_labels_are_those_of_the_texts_that_were_seen(told_by):
    labels = classes(rows=3 * ROWS)
    texts = np.arange(1, 3 * ROWS, 3)
    expected = "average" if told_by == "mean" else "family"
    assert chosen(labels, told_by=told_by, texts=texts) == expected


def test_the_mean_is_read_where_both_tell_the_same():
    labels = classes()
    states = seen_texts(labels, told_by="first").states["first"]
    seen = SeenTexts(
        tokens=random_tokens((3,) * ROWS), states={"mean": states, "first": states.clone()}, texts=np.arange(ROWS)
    )
    assert choose_head(tiny_encoder("bert"), task_with(labels), seen) == "average"


def test_a_file_that_is_sorted_by_class_is_judged_on_all_classes(monkeypatch):
    monkeypatch.setattr(head_choice, "_MOST_ROWS", ROWS)
    labels = np.sort(classes(rows=4 * ROWS))
    assert chosen(labels, told_by="first") == "family"


# Where there is no choice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["albert", "mpnet", "deberta", "deberta-v2", "modernbert"])
def test_a_family_that_cannot_average_keeps_its_own_head(name):
    assert chosen(classes(), name=name, told_by="mean") == "family"


def test_multiple_choice_keeps_the_familys_own_head():
    task = task_with(classes(), "multiple choice")
    assert choose_head(tiny_encoder("bert"), task, seen_texts(classes(), told_by="mean")) == "family"


@pytest.mark.parametrize("rows", range(1, 8))
def test_a_few_rows_are_enough_to_answer(rows):
    for labels in ([0] * rows, [row % 2 for row in range(rows)], [*[0] * (rows - 1), 1]):
        assert chosen(labels, told_by="mean") == "average"


@pytest.mark.parametrize("rows", [1, 5, 6, 7])
def test_a_few_values_are_enough_to_answer(rows):
    assert chosen(values(rows), kind="regression", told_by="mean") in ("average", "family")


@pytest.mark.parametrize(("told_by", "head"), [("mean", "average"), ("first", "family")])
def test_a_class_with_a_single_row_does_not_disturb(told_by, head):
    labels = classes()
    labels[17] = 2
    assert chosen(labels, told_by=told_by) == head


# Whether plans may have it --------------------------------------------------------------------------------------------


def inputs(*, recipe=None, **budget):
    return Inputs(
        encoder=tiny_encoder("bert"), task=task_with(classes()), recipe=recipe or Recipe(), budget=Budget(**budget)
    )


@pytest.mark.parametrize(
    "budget",
    [{}, {"goal": "best"}, {"minutes": 5}, {"max_trainable": 1000}, {"max_memory": 1.0}, {"margin": 2.0}],
    ids=str,
)
def test_plans_may_average_where_one_more_layer_hurts_no_limit_and_no_goal(budget):
    given = inputs(**budget)
    assert given.may_average
    changed = given.with_head("average")
    assert changed.recipe == Recipe(head="average")
    assert (changed.encoder, changed.task, changed.budget) == (given.encoder, given.task, given.budget)
    assert given.recipe.head == "family"


@pytest.mark.parametrize(
    "budget",
    [{"max_layers": 2}, {"max_latency": 0.5}, {"goal": "smallest"}, {"goal": "fastest"}],
    ids=str,
)
def test_limits_and_goals_that_one_more_layer_hurts_keep_the_head(budget):
    given = inputs(**budget)
    assert not given.may_average
    assert given.with_head("average").recipe.head == "family"


def test_a_head_that_was_asked_for_stays():
    given = inputs(recipe=Recipe(head="mean", epochs=2))
    assert not given.may_average
    for head in ("average", "family"):
        assert given.with_head(head).recipe == Recipe(head="mean", epochs=2)


def test_the_familys_own_head_changes_nothing():
    assert inputs().with_head("family").recipe == Recipe()
