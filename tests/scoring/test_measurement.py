"""Measure: from an encoder and a task to layer scores, reproducible, with honest notes."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

import pytest
import torch
from tests.tiny import CONFIGS, save_tiny

import frostline
from frostline.api._measure import measure
from frostline.errors import MeasureError, OptionError
from frostline.records import LayerScores
from frostline.scoring.scores.variability import variability
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
    assert found.encoder.family == name
    assert len(found["variability"].values) == 5
    assert all(value is not None and value > 0 for value in found["variability"].values)


def test_the_first_token_of_the_embeddings_is_constant_and_never_the_best(folder):
    found = measure(folder, make_task(), pooling="first")
    assert found["variability"].values[0] is None
    assert found["variability"].best in (1, 2, 3, 4)


def test_only_training_rows_are_used(folder):
    task = make_task()
    other = dataclasses.replace(task, validation=make_split(30, shift=7), test=make_split(50, shift=9))
    assert measure(folder, task)["variability"].values == measure(folder, other)["variability"].values


def test_the_same_seed_gives_the_same_numbers_and_another_sample_others(folder):
    task = make_task(400)
    one, two, three = (measure(folder, task, examples=60, seed=seed) for seed in (0, 0, 1))
    for name in one.scores:
        assert replace(one[name], seconds=0) == replace(two[name], seconds=0)
    assert one.similarity == two.similarity
    assert one["variability"].values != three["variability"].values
    assert one.examples == 60


def test_the_record_survives_json(folder):
    found = measure(folder, make_task(), pooling="first")
    text = json.dumps(found.to_json(), allow_nan=False)
    assert LayerScores.from_json(json.loads(text)).to_json() == found.to_json()


def test_a_measurement_from_before_left_out_scores_were_recorded_can_be_read(folder):
    written = measure(folder, make_task(40)).to_json()
    assert written.pop("left_out").keys() == {"probe.linear"}
    assert LayerScores.from_json(written).left_out == {}


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
    with pytest.raises(MeasureError, match="variability needs classes, and the labels are numbers"):
        measure(folder, task, scores=["variability"])


def test_one_class_in_the_sample_is_refused(folder):
    lonely = dataclasses.replace(make_split(20), labels=(0,) * 20)
    with pytest.raises(MeasureError, match="all of one class"):
        measure(folder, make_task(train=lonely))


def test_an_unknown_score_is_refused(folder):
    with pytest.raises(OptionError, match=r"unknown layer score 'variabilty' \(did you mean variability\?\)"):
        measure(folder, make_task(), scores=["variabilty"])


def test_too_few_examples_are_refused(folder):
    with pytest.raises(OptionError, match="examples 1: must be a whole number, 2 or more"):
        measure(folder, make_task(), examples=1)


@pytest.mark.embedded
def test_the_embedded_default_needs_no_arguments():
    found = measure(examples=300)
    assert (found.encoder.name, found.task.name, found.depth) == ("all-MiniLM-L6-v2", "movies", 6)
    assert found.task.labels == ("negative", "positive")
    values = found["variability"].values
    assert all(value is not None for value in values)
    # Real weights on real texts: the upper half tells the classes apart better than the embeddings do.
    assert min(value or 0 for value in values[4:]) < 0.8 * (values[0] or 0)
    assert found["variability"].best in (4, 5, 6)


def test_the_default_scores_come_with_intervals_similarity_and_agreement(folder):
    found = measure(folder, make_task(200))
    assert list(found.scores) == ["variability", "label_similarity", "change", "probe.linear"]
    for score in found.scores.values():
        assert score.low is not None
        assert score.high is not None
        assert score.probability is not None
        assert sum(score.probability) == pytest.approx(1)
        assert score.best in score.tied
        assert score.uncertainty in ("jackknife", "bootstrap")
    assert set(found.similarity) == {"first", "mean"}
    assert found.similarity["first"][0][0] is None  # the first token of the embeddings is constant
    assert found.similarity["mean"][2][2] == pytest.approx(1)
    assert {one.score for one in found.agreement} == {"variability", "label_similarity", "change"}
    assert found["variability"].smoothness is not None


def test_all_scores_can_be_measured_at_once(folder):
    from frostline.scoring.scores import LAYER_SCORES

    found = measure(folder, make_task(160), scores="all", uncertainty=False)
    assert set(found.scores) == set(LAYER_SCORES)


def test_a_regression_task_leaves_out_what_needs_classes_and_says_so(folder):
    numbers = dataclasses.replace(make_split(60), labels=tuple(float(row % 7) for row in range(60)))
    task = make_task(
        kind="regression", label_names=(), metrics=("spearman",), train=numbers, validation=None, test=None
    )
    found = measure(folder, task)
    assert "variability" not in found.scores
    assert {"label_similarity", "change", "probe.linear"} <= set(found.scores)
    assert any(note.startswith("variability left out: it needs classes") for note in found.notes)


def test_nulls_show_what_chance_gives(folder):
    found = measure(folder, make_task(160), scores=["variability", "label_similarity"], nulls=["shuffled", "random"])
    score = found["label_similarity"]
    assert set(score.nulls) == {"shuffled", "random"}
    best = score.best
    assert best is not None
    assert abs(score.nulls["shuffled"][best] or 0) < 0.5 * (score.values[best] or 0)
    assert score.nulls["random"] != score.values


def test_streaming_gives_the_same_values_without_intervals(folder):
    task = make_task(160)
    whole = measure(folder, task, scores=["variability", "label_similarity", "rank", "hscore"], uncertainty=False)
    stream = measure(folder, task, scores=["variability", "label_similarity", "rank", "hscore"], stream=True)
    for name, score in whole.scores.items():
        assert stream[name].values == pytest.approx(score.values, rel=1e-4, abs=1e-7)
        assert stream[name].low is None
    assert stream.similarity == {}


def test_a_score_that_cannot_be_streamed_is_refused_by_name_and_left_out_by_default(folder):
    with pytest.raises(MeasureError, match=r"weather: probe\.linear needs all states and cannot be streamed"):
        measure(folder, make_task(), scores=["probe.linear"], stream=True)
    found = measure(folder, make_task(), stream=True)
    assert "probe.linear" not in found.scores
    assert "probe.linear left out: it needs all states and cannot be streamed" in found.notes


def test_other_rows_can_be_measured(folder):
    task = make_task(validation=make_split(40, shift=500))
    assert measure(folder, task, rows="validation").examples == 40
    assert measure(folder, task, rows="validation").rows == "validation"
    with pytest.raises(OptionError, match="weather: has no test rows"):
        measure(folder, make_task(test=None), rows="test")


def test_a_tuned_classifier_is_told_to_be_measured_on_other_rows(tmp_path):
    import transformers
    from tests.tiny import tiny_tokenizer

    transformers.AutoModelForSequenceClassification.from_config(CONFIGS["bert"]).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    task = make_task(validation=make_split(40, shift=500))
    assert any("`rows='validation'`" in note for note in measure(tmp_path, task, scores=["variability"]).notes)
    held_out = measure(tmp_path, task, scores=["variability"], rows="validation")
    assert not any("`rows='validation'`" in note for note in held_out.notes)


def test_two_layers_have_no_smoothness_and_say_so(tmp_path):
    from frostline.encoders.surgery import truncate

    encoder = truncate(frostline.load_encoder(save_tiny(tmp_path)), 2)
    found = measure(encoder, make_task(), scores=["variability"])
    assert found["variability"].smoothness is None
    assert any("too few to compute smoothness" in note for note in found.notes)


def test_a_class_with_one_text_is_said(folder):
    lonely = dataclasses.replace(make_split(41), labels=(*((0, 1) * 20), 2))
    task = make_task(train=lonely, label_names=("a", "b", "c"))
    found = measure(folder, task, scores=["variability"])
    assert any("a class has only one text" in note for note in found.notes)


def test_as_many_classes_as_texts_are_undefined(folder):
    many = dataclasses.replace(make_split(20), labels=tuple(range(20)))
    task = make_task(train=many, label_names=tuple(f"class {number}" for number in range(20)))
    found = measure(folder, task, scores=["variability"], uncertainty=False)
    assert found["variability"].values == (None,) * 5
    assert found["variability"].best is None


def test_a_score_that_was_not_measured_is_named(folder):
    found = measure(folder, make_task(), scores=["variability"])
    with pytest.raises(OptionError, match="layer score 'cca' was not measured; measured: variability"):
        found["cca"]


@pytest.mark.parametrize("chosen_on", [None, "validation", "test"])
def test_probes_can_be_judged_on_another_split(folder, chosen_on):
    task = make_task(160, validation=make_split(60, shift=1000), test=make_split(80, shift=2000))
    names = ["variability", "probe.linear", "probe.linear.paper", "probe.head"]
    options = {"probe.linear.paper": {"trials": 1, "epochs": 2}, "probe.head": {"epochs": 2}}
    inside = measure(folder, task, scores=names, options=options)
    other = measure(folder, task, scores=names, options=options, judged_on="test", chosen_on=chosen_on)
    assert (inside.judged_on, other.judged_on, other.chosen_on) == (None, "test", chosen_on)
    assert LayerScores.from_json(other.to_json()) == other
    assert inside["variability"].values == other["variability"].values
    for name in names[1:]:
        judged = [round(value * 80, 6) for value in other[name].values]
        assert all(value == int(value) for value in judged)  # of 80 rows, where the inside has 32
        assert other[name].values != inside[name].values


def test_the_judged_split_is_another_than_the_measured_one(folder):
    with pytest.raises(OptionError, match="judged on 'train': these are the measured rows"):
        measure(folder, make_task(), judged_on="train")
    with pytest.raises(OptionError, match="chosen on 'test': needs judged_on"):
        measure(folder, make_task(), chosen_on="test")


def test_chance_levels_of_probes_use_the_same_encoder_for_all_rows(folder):
    task = make_task(160, test=make_split(80, shift=2000))
    found = measure(folder, task, scores=["probe.linear"], judged_on="test", nulls=["shuffled", "random"])
    by_chance = found["probe.linear"].nulls
    assert abs(sum(by_chance["shuffled"]) / len(by_chance["shuffled"]) - 0.5) < 0.2
    assert by_chance["random"][0] > 0.8  # words tell the classes, whatever the weights


def test_an_unknown_null_is_refused(folder):
    with pytest.raises(OptionError, match="null 'chance': must be one of shuffled, random"):
        measure(folder, make_task(), nulls=["chance"])


def test_a_default_score_that_the_rows_do_not_allow_is_left_out_and_said(folder):
    found = measure(folder, make_task(40))
    assert "variability" in found.scores
    assert "probe.linear" not in found.scores
    assert f"probe.linear left out: {found.left_out['probe.linear']}" in found.notes
    with pytest.raises(MeasureError, match="needs 10"):
        measure(folder, make_task(40), scores=["probe.linear"])


def test_classes_that_the_sample_missed_are_named(folder):
    rare = dataclasses.replace(make_split(302), labels=(*([0] * 200), *([1] * 100), 2, 2))
    task = make_task(train=rare, label_names=("cold", "warm", "rare"))
    found = measure(folder, task, examples=60, scores=["variability"])
    assert "not among the 60 texts, so not measured: rare" in found.notes


def test_examples_count_rows_also_for_multiple_choice(folder):
    questions = Split(
        texts=tuple(f"cold or warm, {row}" for row in range(20)),
        choices=tuple((COLD[row % 5], WARM[row % 5]) for row in range(20)),
        labels=tuple(row % 2 for row in range(20)),
        rows=tuple(range(1, 21)),
    )
    task = make_task(kind="multiple choice", label_names=("1", "2"), train=questions, validation=None, test=None)
    assert measure(folder, task, examples=12, scores=["variability"]).examples == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examples": "10"}, "examples '10': must be a whole number"),
        ({"examples": 10.5}, "examples 10.5: must be a whole number"),
        ({"seed": -1}, "seed -1: must be a whole number, 0 or more"),
        ({"max_length": -3}, "max length -3: must be a whole number, 1 or more"),
    ],
)
def test_wrong_numbers_are_one_line_in_python_too(folder, options, message):
    with pytest.raises(OptionError, match=message):
        measure(folder, make_task(), **options)


def test_a_model_object_in_place_of_an_encoder_is_told():
    with pytest.raises(OptionError, match="must be a folder, a hub id or an Encoder, not a int"):
        measure(3, make_task())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probe.head": {"rate": 1.0}}, "score probe.head: unknown option 'rate'"),
        ({"rank": {"power": 2}}, "score rank: unknown option 'power'; known: none"),
        ({"probe.head": {"epochs": 1.5}}, "score probe.head: epochs 1.5 must be a whole number"),
        ({"cca": {}}, "options of 'cca': it is not one of the measured scores"),
    ],
)
def test_options_of_scores_are_checked(folder, options, message):
    with pytest.raises(OptionError, match=message):
        measure(folder, make_task(), scores=["rank", "probe.head"], options=options)
