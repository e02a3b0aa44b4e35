"""Asking a tuned model: texts in many forms in, labels out, and one line for what does not fit."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest
import torch
from tests.tiny import save_tiny

import frostline
from frostline.errors import DataError, OptionError
from frostline.prediction.loading import load_tuned
from frostline.records import Recipe
from frostline.tasks import load_task
from frostline.tasks.unlabelled import read_list

WORDS = ["ice", "snow", "frost", "sleet", "hail", "sun", "heat", "noon", "July", "sand"]


def csv(folder, name, lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def weather(folder, *, labels=("cold", "warm"), name="weather.csv"):
    lines = [f"{WORDS[row % 10]} number {row},{labels[row % 10 // 5]}" for row in range(60)]
    return csv(folder, name, ["text,label", *lines])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def run(folder):
    """A classifier of warm and cold, as `tune` returned it."""
    recipe = Recipe(epochs=2, learning_rate=1e-2, cache_dtype="float32")
    base = save_tiny(folder / "base")
    return frostline.tune(base, weather(folder), plan="1,2,2", recipe=recipe, cache=False, output=folder / "run")


@pytest.fixture(scope="module")
def number_run(folder):
    lines = [f"{WORDS[row % 10]} {row},{row % 10 / 4}" for row in range(60)]
    data = csv(folder, "degrees.csv", ["text,degrees", *lines])
    task = load_task(data, label="degrees")
    recipe = Recipe(epochs=1, learning_rate=1e-2)
    return frostline.tune(folder / "base", task, plan="2,2,2", recipe=recipe, cache=False, output=folder / "numbers")


def test_a_list_of_texts_gives_labels_and_probabilities(run, folder):
    found = frostline.predict(folder / "run", ["ice", "sun and heat"])
    assert set(found.labels) <= {"cold", "warm"}
    assert found.probabilities is not None
    for label, shares in zip(found.labels, found.probabilities, strict=True):
        assert sum(shares.values()) == pytest.approx(1)
        assert max(shares, key=shares.__getitem__) == label


def test_predictions_are_those_of_the_run(run, folder):
    lines = [json.loads(line) for line in (folder / "run" / "predictions.jsonl").read_text().splitlines()]
    found = frostline.predict(folder / "run", [line["text"] for line in lines])
    assert found.labels == [line["prediction"] for line in lines]


@pytest.mark.parametrize(
    ("name", "lines", "rows"),
    [
        ("only.csv", ["whatever", "ice", "sun"], [2, 3]),
        ("named.tsv", ["id\treview", "1\tice", "2\tsun"], [2, 3]),
        ("lines.jsonl", ['{"id": 1, "text": "ice"}', '{"id": 2, "text": "sun"}'], [1, 2]),
        ("labelled.csv", ["text,label", "ice,tepid", "sun,"], [2, 3]),
    ],
)
def test_a_file_needs_a_text_column_and_no_labels(run, folder, name, lines, rows):
    found = frostline.predict(folder / "run", csv(folder, name, lines))
    assert [row.text for row in found.rows] == ["ice", "sun"]
    assert [row.row for row in found.rows] == rows
    assert found.labels == frostline.predict(folder / "run", ["ice", "sun"]).labels


def test_a_frame_is_read_like_a_file(run, folder):
    frame = pd.DataFrame({"id": [1, 2], "body": ["ice", "sun"]})
    found = frostline.predict(folder / "run", frame)
    assert [row.text for row in found.rows] == ["ice", "sun"]
    assert "text = 'body'" in found.notes[0]


def test_a_text_column_that_cannot_be_guessed_is_asked_for(run, folder):
    path = csv(folder, "odd.csv", ["foo,bar", "ice,1", "sun,2"])
    with pytest.raises(
        DataError, match=r"cannot tell which column contains the text; choose it with `text` from 'foo', 'bar'$"
    ):
        frostline.predict(folder / "run", path)
    assert len(frostline.predict(folder / "run", path, text="foo").rows) == 2
    with pytest.raises(DataError, match="no column 'fooo' \\(from `text`\\) \\(did you mean foo\\?\\)"):
        frostline.predict(folder / "run", path, text="fooo")


def test_pairs_come_as_tuples_dictionaries_and_columns(run, folder):
    shutil.copytree(folder / "run" / "model", folder / "alone")  # knows nothing of the run that made it
    model = load_tuned(folder / "alone")
    as_tuples = frostline.predict(model, [("ice", "sun"), ("hail", "heat")])
    as_dicts = frostline.predict(model, [{"text": "ice", "text_pair": "sun"}, {"text": "hail", "text_pair": "heat"}])
    path = csv(folder, "pairs.csv", ["sentence1,sentence2", "ice,sun", "hail,heat"])
    assert as_tuples.rows == as_dicts.rows
    assert frostline.predict(model, path).probabilities == as_tuples.probabilities
    assert as_tuples.probabilities != frostline.predict(model, ["ice", "hail"]).probabilities


def test_pairs_are_refused_by_a_model_that_was_tuned_on_single_texts(run, folder):
    with pytest.raises(DataError, match="was tuned on single texts, but these are pairs"):
        frostline.predict(folder / "run", [("ice", "sun")])
    path = csv(folder, "more.csv", ["sentence1,sentence2", "ice,sun", "hail,heat"])
    with pytest.raises(DataError, match="was tuned on single texts"):
        frostline.predict(folder / "run", path, text="sentence1", text_pair="sentence2")
    guessed = frostline.predict(folder / "run", path)
    assert guessed.notes[-1].startswith("the second text is not used: ")
    assert guessed.probabilities == frostline.predict(folder / "run", ["ice", "hail"]).probabilities


def test_a_text_in_place_of_a_list_or_file_is_explained(run, folder):
    with pytest.raises(DataError, match=r"'what a day': no such file; give one with a column of texts"):
        frostline.predict(folder / "run", "what a day")


def test_part_of_a_new_file_is_judged_only_with_a_note(run, folder):
    lines = [f"{word} {number},{'cold' if number % 2 else 'warm'}" for number in range(20) for word in ("ice", "sun")]
    path = csv(folder, "new.csv", ["text,label", *lines])
    found = frostline.evaluate(folder / "run", str(path))
    assert any("rows were split differently in tuning" in note for note in found.notes)
    assert not any("`split='all'`" in note for note in frostline.evaluate(folder / "run", str(path), split="all").notes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "no texts"),
        (["ice", 3], "text 2: 3 is not a text"),
        (["ice", " "], "text 2: ' ' is not a text"),
        (["ice", ("sun", "heat")], "some of the texts are single and some are pairs"),
        ([("sun", "")], "text 1"),
    ],
)
def test_what_is_no_list_of_texts_is_one_line(run, folder, data, message):
    with pytest.raises(DataError, match=message):
        frostline.predict(folder / "run", data)


def test_a_regression_gives_numbers(number_run, folder):
    found = frostline.predict(folder / "numbers", ["ice", "sun"])
    assert all(isinstance(value, float) for value in found.labels)
    assert found.probabilities is None


def test_evaluating_the_test_rows_again_gives_the_same_metrics(run, number_run, folder):
    found = frostline.evaluate(folder / "run", weather(folder))
    assert found.metrics == pytest.approx(run.metrics["test"])
    assert found.to_json()["rows"] == len(run.task.test)
    again = frostline.evaluate(folder / "numbers", number_run.task)
    assert again.metrics == pytest.approx(number_run.metrics["test"], abs=1e-2)


def test_a_new_file_can_be_judged_as_a_whole(run, folder):
    path = csv(folder, "new.csv", ["text,label", "ice,cold", "sun,warm", "heat,warm"])
    found = frostline.evaluate(folder / "run", path, split="all")
    labels = frostline.predict(folder / "run", path).labels
    right = [a == b for a, b in zip(labels, ["cold", "warm", "warm"], strict=True)]
    assert found.metrics["accuracy"] == pytest.approx(sum(right) / 3)


def test_a_few_rows_with_fractions_for_names_are_read_as_the_classes_that_they_are_said_to_be(folder):
    path = csv(folder, "halves.csv", ["text,label", "ice,0.5", "sun,1.5", "heat,2.5"])
    task = load_task(path, kind="classification", splits=False)
    assert task.label_names == ("0.5", "1.5", "2.5")


def test_new_rows_of_one_class_can_be_judged(run, folder):
    path = csv(folder, "warm.csv", ["text,label", "sun,warm", "heat,warm"])
    found = frostline.evaluate(folder / "run", path, split="all")
    labels = frostline.predict(folder / "run", path).labels
    assert found.metrics["accuracy"] == pytest.approx(labels.count("warm") / 2)


def test_labels_in_another_order_or_case_are_the_same_labels(run, folder):
    path = csv(folder, "order.csv", ["text,label", "sun,Aha", "ice,COLD", "sun,Warm"])
    with pytest.raises(DataError, match=r":\d+: label 'Aha': is not a label of .*, which has cold, warm"):
        frostline.evaluate(folder / "run", path, split="all")
    path = csv(folder, "order.csv", ["text,label", "sun,Warm", "ice,COLD", "hail,COLD"])
    rows = frostline.evaluate(folder / "run", path, split="all").rows
    assert [row.label for row in rows] == ["warm", "cold", "cold"]


def test_unseen_labels_are_named_with_the_known_ones(run, folder):
    with pytest.raises(
        DataError,
        match=r":\d+: label '(hot|icy)' \(and 1 more such labels\): is not a label of .*, which has cold, warm; corr",
    ):
        frostline.evaluate(folder / "run", load_task(weather(folder, labels=("icy", "hot"), name="other.csv")))


def test_another_kind_of_task_is_one_line(run, number_run, folder):
    with pytest.raises(DataError, match=r"is a regression task, but .* was tuned for classification"):
        frostline.evaluate(folder / "run", number_run.task)
    with pytest.raises(DataError, match="is not a number; regression needs numbers"):
        frostline.evaluate(folder / "numbers", weather(folder))


def test_a_split_that_is_not_there_is_one_line(run, folder):
    task = load_task(weather(folder), splits=False)
    with pytest.raises(DataError, match="has no test rows; it has train"):
        frostline.evaluate(folder / "run", task)
    with pytest.raises(OptionError, match="split 'tests': must be one of train, validation, test, all"):
        frostline.evaluate(folder / "run", task, split="tests")


def test_a_model_without_label_names_is_judged_by_number(run, folder, tmp_path):
    for path in (folder / "run" / "model").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = frostline.evaluate(tmp_path, run.task)
    assert found.metrics == pytest.approx(run.metrics["test"])
    assert "has no label names: its classes are assumed to be cold, warm" in found.notes[-1]


def test_texts_are_cut_where_they_were_cut_in_training(folder, run, tmp_path):
    recipe = Recipe(epochs=1, max_length=6)
    frostline.tune(folder / "base", run.task, plan="2,2,2", recipe=recipe, cache=False, output=tmp_path / "short")
    model = load_tuned(tmp_path / "short")
    assert model.max_length == 6
    assert torch.equal(model.outputs(read_list(["abcd"])), model.outputs(read_list(["abcdefg"])))
