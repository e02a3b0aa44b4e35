"""Measure: from an encoder and a task to layer scores, reproducible, with honest notes."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from tests.tiny import CONFIGS, save_tiny

import frostline
from frostline.errors import MeasureError, OptionError
from frostline.measurement import measure
from frostline.records import LayerScores
from frostline.scores.variability import variability
from frostline.tasks import Split, Task

COLD = ["ice on the pond", "snow all week", "frost at dawn", "a hard freeze", "sleet and hail"]
WARM = ["sun on the wall", "a mild noon", "heat at noon", "dry and hot", "a warm breeze"]


def make_split(count: int, *, shift: int = 0) -> Split:
    texts, labels = [], []
    for row in range(count):
        label = row % 2
        texts.append(f"{(WARM if label else COLD)[row % 5]} {row + shift}")
        labels.append(label)
    return Split(texts=tuple(texts), labels=tuple(labels), rows=tuple(range(1, count + 1)))


def make_task(count: int = 120, **changes) -> Task:
    task = Task(
        name="weather",
        kind="classification",
        label_names=("cold", "warm"),
        train=make_split(count),
        validation=make_split(10, shift=1000),
        test=make_split(10, shift=2000),
        metrics=("accuracy",),
        source="made up",
    )
    return dataclasses.replace(task, **changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("pooling", ["mean", "first", "all"])
def test_values_equal_the_score_of_hugging_faces_own_states(folder, pooling):
    task = make_task()
    found = measure(folder, task, pooling=pooling)
    encoder = frostline.load_encoder(folder)
    pick = {"mean": lambda s: s[1:].mean(0), "first": lambda s: s[0], "all": lambda s: s.mean(0)}[pooling]
    rows = []
    for text in task.train.texts:
        with torch.inference_mode():
            out = encoder.model(**encoder.tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        rows.append(torch.stack([pick(state[0]) for state in out.hidden_states]))
    expected = variability(torch.stack(rows, dim=1), torch.tensor(task.train.labels))
    for ours, theirs in zip(found["variability"].values, expected.tolist(), strict=True):
        if theirs != theirs:
            assert ours is None
        else:
            assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_family_can_be_measured(name, tmp_path):
    found = measure(save_tiny(tmp_path, name), make_task(40))
    assert found.family == name
    assert len(found["variability"].values) == 5
    assert all(value is not None and value > 0 for value in found["variability"].values)


def test_the_first_token_of_the_embeddings_is_constant_and_never_the_best(folder):
    found = measure(folder, make_task(), pooling="first")
    assert found["variability"].values[0] is None
    assert found["variability"].best in (1, 2, 3, 4)


def test_only_training_rows_are_used(folder):
    task = make_task()
    other = dataclasses.replace(task, validation=make_split(30, shift=7), test=make_split(50, shift=9))
    assert measure(folder, task)["variability"] == measure(folder, other)["variability"]


def test_the_same_seed_gives_the_same_numbers_and_another_sample_others(folder):
    task = make_task(400)
    one, two, three = (measure(folder, task, examples=60, seed=seed) for seed in (0, 0, 1))
    assert one["variability"] == two["variability"]
    assert one["variability"] != three["variability"]
    assert one.examples == 60


def test_the_record_survives_json(folder):
    found = measure(folder, make_task(), pooling="first")
    text = json.dumps(found.to_json(), allow_nan=False)
    assert LayerScores.from_json(json.loads(text)).to_json() == found.to_json()


def test_few_texts_are_said(folder):
    assert any("are few for width 32" in note for note in measure(folder, make_task()).notes)


def test_cut_texts_are_counted_and_said(folder):
    found = measure(folder, make_task(40), max_length=8)
    assert found.truncated == 40
    assert "40 of 40 texts were longer than 8 tokens and cut" in found.notes


def test_multiple_choice_is_measured_by_row_right_or_wrong(folder):
    questions = Split(
        texts=tuple(f"is it cold or warm, {row}" for row in range(20)),
        choices=tuple((COLD[row % 5], WARM[row % 5]) for row in range(20)),
        labels=tuple(row % 2 for row in range(20)),
        rows=tuple(range(1, 21)),
    )
    task = make_task(kind="multiple choice", label_names=("1", "2"), train=questions, validation=None, test=None)
    found = measure(folder, task)
    assert found.examples == 40
    assert found["variability"].best is not None


def test_regression_is_refused_for_a_score_of_classes(folder):
    numbers = dataclasses.replace(make_split(20), labels=tuple(float(row) for row in range(20)))
    task = make_task(
        kind="regression", label_names=(), metrics=("spearman",), train=numbers, validation=None, test=None
    )
    with pytest.raises(MeasureError, match="variability needs classes to tell apart"):
        measure(folder, task)


def test_one_class_in_the_sample_is_refused(folder):
    lonely = dataclasses.replace(make_split(20), labels=(0,) * 20)
    with pytest.raises(MeasureError, match="all of one class"):
        measure(folder, make_task(train=lonely))


def test_an_unknown_score_is_refused(folder):
    with pytest.raises(OptionError, match=r"unknown layer score 'variabilty' \(did you mean variability\?\)"):
        measure(folder, make_task(), scores=["variabilty"])


def test_too_few_examples_are_refused(folder):
    with pytest.raises(OptionError, match="examples 1: at least 2"):
        measure(folder, make_task(), examples=1)


@pytest.mark.embedded
def test_the_embedded_default_needs_no_arguments():
    found = measure(examples=300)
    assert (found.encoder, found.task, found.depth) == ("all-MiniLM-L6-v2", "movies", 6)
    assert found.labels == ("negative", "positive")
    values = found["variability"].values
    assert all(value is not None for value in values)
    # Real weights on real texts: the upper half tells the classes apart better than the embeddings do.
    assert min(value or 0 for value in values[4:]) < 0.8 * (values[0] or 0)
    assert found["variability"].best in (4, 5, 6)
