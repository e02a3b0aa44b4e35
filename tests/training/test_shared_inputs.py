"""What trials share: rows of a sample, tokens, and frozen states of several layers from one pass."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.tiny import tiny_model, tiny_tokenizer

from frostline.encoders.encoder import Encoder
from frostline.kernels.batch_layout import Reads
from frostline.records import Plan
from frostline.states.frozen import StatesAt
from frostline.tasks import Split, Task
from frostline.training.model import make_tunable
from frostline.training.shared_inputs import SharedInputs

CLASSES = ("no", "maybe", "yes")
WANTED = [*(StatesAt(layer=layer) for layer in (0, 1, 3)), StatesAt(layer=3, reads=Reads.FIRST)]
# A plan that starts from each of them.
STARTING = [Plan.span(1, 2, 4), Plan.span(2, 4, 4), Plan.span(4, 4, 4), Plan(layers=(), head=3)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def encoder(name="bert"):
    return Encoder(tiny_model(name), tiny_tokenizer(), name=f"tiny {name}")


def split(rows=40, *, seed=0, shares=(1, 1, 2)):
    """Different texts of 1 to 12 letters; classes as often as their shares say."""
    draw = random.Random(seed)
    labels = [place for place, share in enumerate(shares) for _ in range(share * rows // sum(shares))]
    draw.shuffle(labels)
    texts = [f"{row} " + "".join(draw.choices("abcdefgh", k=draw.randrange(1, 12))) for row in range(len(labels))]
    return Split(texts=tuple(texts), labels=tuple(labels), rows=tuple(range(1, len(labels) + 1)))


def task(train=None, **known):
    train = train or split()
    about = {
        "name": "made up",
        "kind": "classification",
        "label_names": CLASSES,
        "metrics": ("accuracy",),
        "source": "",
    }
    return Task(**{**about, "train": train, "validation": split(12, seed=1), "test": None, **known})


def questions(rows=10):
    """Questions of two to four choices."""
    draw = random.Random(0)
    choices = tuple(
        tuple("".join(draw.choices("abcdef", k=draw.randrange(1, 9))) for _ in range(draw.randrange(2, 5)))
        for _ in range(rows)
    )
    made = Split(
        texts=tuple(f"which {row}" for row in range(rows)),
        choices=choices,
        labels=tuple(draw.randrange(len(some)) for some in choices),
        rows=tuple(range(1, rows + 1)),
    )
    return task(made, kind="multiple choice", label_names=("a", "b", "c", "d"), validation=None)


# Some rows -----------------------------------------------------------------------------------------------------------


def test_a_larger_sample_holds_a_smaller_one():
    inputs = SharedInputs(encoder(), task())
    samples = [set(inputs.some_rows(count, seed=0).tolist()) for count in (1, 3, 4, 7, 13, 20, 39, 40)]
    assert [len(sample) for sample in samples] == [1, 3, 4, 7, 13, 20, 39, 40]
    assert all(small < large for small, large in pairwise(samples))


@pytest.mark.parametrize("shares", [(1, 1, 2), (1, 4, 15), (0, 1, 1)])
def test_every_class_has_its_share_of_a_sample_to_within_a_row(shares):
    rows = split(400, shares=shares)
    inputs = SharedInputs(encoder(), task(rows))
    for count in (20, 44, 133, 200):
        found = Counter(rows.labels[row] for row in inputs.some_rows(count, seed=0))
        for label, size in Counter(rows.labels).items():
            assert abs(found[label] - count * size / len(rows)) <= 1


def test_numbers_are_sampled_from_the_whole_of_their_range():
    values = tuple(np.random.default_rng(0).permutation(400) / 10)
    rows = Split(texts=split(400).texts, labels=values, rows=tuple(range(1, 401)))
    inputs = SharedInputs(
        encoder(), task(rows, kind="regression", label_names=(), metrics=("pearson",), validation=None)
    )
    found = np.sort([values[row] for row in inputs.some_rows(40, seed=0)])
    assert len(found) == 40
    assert [int(((found >= low) & (found < low + 4)).sum()) for low in range(0, 40, 4)] == 10 * [4]


def test_a_sample_depends_on_the_seed_alone():
    first, again, other = (SharedInputs(encoder(), task()).some_rows(20, seed=seed).tolist() for seed in (0, 0, 1))
    assert first == again == sorted(first)
    assert first != other


def test_a_sample_does_not_depend_on_the_order_of_the_rows():
    rows = split()
    turned = rows.take(range(len(rows) - 1, -1, -1))
    first, other = (
        {one.texts[row] for row in SharedInputs(encoder(), task(one)).some_rows(17, seed=0)} for one in (rows, turned)
    )
    assert first == other


def test_copies_of_a_row_are_drawn_one_by_one():
    rows = Split(texts=("the same",) * 6, labels=(0, 1) * 3, rows=tuple(range(1, 7)))
    inputs = SharedInputs(encoder(), task(rows))
    assert len(inputs.some_rows(4, seed=0)) == 4
    assert inputs.some_rows(100, seed=0).tolist() == list(range(6))


# Frozen states -------------------------------------------------------------------------------------------------------


def states_of(inputs, plan, part="train"):
    return inputs.examples(make_tunable(inputs.encoder, plan, outputs=len(CLASSES)), part).states


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("keep", [True, False], ids=["cached", "computed"])
@pytest.mark.parametrize("name", ["bert", "modernbert"])  # without padding, and with
def test_states_of_several_layers_at_once_are_to_the_bit_those_of_each_alone(name, keep, dtype, tmp_path, monkeypatch):
    together = SharedInputs(encoder(name), task(), dtype=dtype, keep=keep)
    together.freeze(WANTED, ["train", "validation"])
    for number, (at, plan) in enumerate(zip(WANTED, STARTING, strict=True)):
        monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / f"alone {number}"))
        alone = SharedInputs(encoder(name), task(), dtype=dtype, keep=keep)
        for part, rows in (("train", 40), ("validation", 12)):
            found, expected = states_of(together, plan, part), states_of(alone, plan, part)
            assert StatesAt(layer=found.layer, reads=found.reads) == at and found.dtype == dtype
            assert found.is_kept == expected.is_kept == keep
            order = np.random.default_rng(0).permutation(rows)
            assert found.rows(order).equal(expected.rows(order))


def test_what_is_frozen_once_is_not_computed_again(monkeypatch):
    inputs = SharedInputs(encoder(), task())
    inputs.freeze(WANTED, ["train"])

    def refuse(*args, **options):
        raise AssertionError("the encoder ran")

    monkeypatch.setattr(Encoder, "embed", refuse)
    before = [states_of(inputs, plan) for plan in STARTING]
    inputs.freeze([*WANTED, *WANTED], ["train"])
    for plan, states in zip(STARTING, before, strict=True):
        assert states_of(inputs, plan) is states  # nor read again
        assert len(states.rows([0, 5])) > 0
    with pytest.raises(AssertionError, match="the encoder ran"):
        inputs.freeze(WANTED, ["validation"])


def test_several_layers_take_one_pass_over_the_texts(monkeypatch):
    texts = []
    embed = Encoder.embed
    monkeypatch.setattr(
        Encoder, "embed", lambda self, tokens, layout: texts.append(len(tokens)) or embed(self, tokens, layout)
    )
    SharedInputs(encoder(), task()).freeze(WANTED, ["train"])
    assert sum(texts) == len(split())


def test_progress_is_told_by_split():
    steps = []
    inputs = SharedInputs(encoder(), task(), progress=steps.append)
    inputs.freeze((at for at in WANTED), ["train", "validation"])  # what can be gone through once, too
    assert [(step.stage, step.detail, step.done) for step in steps if step.done == step.total] == [
        ("frozen states", "train", 40),
        ("frozen states", "validation", 12),
    ]


def test_full_fine_tuning_has_no_frozen_states(own_cache):
    assert states_of(SharedInputs(encoder(), task()), Plan.full(4)) is None
    assert not own_cache.exists()


# Some of the examples ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False], ids=["cached", "computed"])
@pytest.mark.parametrize("plan", [*STARTING, Plan.full(4)], ids=str)
@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_some_examples_have_the_logits_of_their_rows_among_all(name, plan, keep):
    inputs = SharedInputs(encoder(name), task(), dtype="float32", keep=keep)
    tunable = make_tunable(inputs.encoder, plan, outputs=len(CLASSES))
    everything = inputs.examples(tunable, "train")
    rows = np.array([7, 0, 31, 12, 3])
    some = everything.take(rows)
    assert len(some) == 5 and some.labels.equal(everything.labels[rows])
    with torch.no_grad():
        assert some.logits(tunable, np.arange(5)).equal(everything.logits(tunable, rows))
        torch.testing.assert_close(some.outputs(tunable), everything.outputs(tunable)[rows], atol=1e-5, rtol=0)


@pytest.mark.parametrize("plan", [Plan.span(3, 4, 4), Plan(layers=(), head=2), Plan.full(4)], ids=str)
def test_some_questions_have_the_logits_of_their_choices_among_all(plan):
    inputs = SharedInputs(encoder(), questions())
    tunable = make_tunable(inputs.encoder, plan, outputs=1, kind="multiple choice")
    everything = inputs.examples(tunable, "train")
    rows = np.array([8, 2, 5])
    some = everything.take(rows)
    counts = [len(inputs.task.train.choices[row]) for row in rows]
    assert np.diff(some.offsets).tolist() == counts and len(some.tokens) == sum(counts)
    with torch.no_grad():
        found, expected = some.logits(tunable, np.arange(3)), everything.logits(tunable, rows)
    assert found.shape == (3, max(counts)) and found.equal(expected)
    lowest = torch.finfo(found.dtype).min
    assert [(row != lowest).sum().item() for row in found] == counts


# Notes ---------------------------------------------------------------------------------------------------------------


def test_texts_that_were_cut_are_said_once():
    inputs = SharedInputs(encoder(), task(), max_length=8)
    for plan in STARTING:
        states_of(inputs, plan)
        states_of(inputs, plan, "validation")
    longer = {
        part: sum(len(text.replace(" ", "")) + 2 > 8 for text in rows.texts)
        for part, rows in inputs.task.splits.items()
    }
    assert inputs.notes == [
        f"{count} {part} texts were longer than the limit and cut" for part, count in longer.items()
    ]
    assert 0 < longer["validation"] < longer["train"] < 40


def test_nothing_is_said_where_nothing_was_cut():
    inputs = SharedInputs(encoder(), task())
    states_of(inputs, STARTING[0])
    assert inputs.notes == []


def test_what_the_cache_cannot_hold_is_said_once(monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE_LIMIT", "0.00000001")
    inputs = SharedInputs(encoder(), task())
    inputs.freeze([StatesAt(layer=1)], ["train"])
    inputs.freeze([StatesAt(layer=2)], ["train"])
    assert len(inputs.notes) == 1 and "recomputing them" in inputs.notes[0]
    assert not states_of(inputs, STARTING[1]).is_kept


def test_labelled_rows_are_those_for_training_and_then_those_for_validation():
    tunable = make_tunable(encoder(), Plan.span(3, 4, 4), outputs=3).eval()
    inputs = SharedInputs(tunable.encoder, replace(task(), validation=split(12, seed=5)))
    parts = [inputs.examples(tunable, name) for name in ("train", "validation")]
    labelled = inputs.labelled_examples(tunable)
    assert labelled.labels.tolist() == [*inputs.task.train.labels, *inputs.task.validation.labels]
    count = len(parts[0])
    for rows in ([0, 1, 2], [count, count + 3], [count + 1, 0, count + 2, 5]):
        alone = [parts[0].logits(tunable, np.array([row])) if row < count else
                 parts[1].logits(tunable, np.array([row - count])) for row in rows]  # fmt: skip
        torch.testing.assert_close(labelled.logits(tunable, np.array(rows)), torch.cat(alone), rtol=1e-5, atol=1e-5)


def test_without_validation_rows_the_labelled_ones_are_those_for_training():
    inputs = SharedInputs(encoder(), replace(task(), validation=None))
    tunable = make_tunable(inputs.encoder, Plan.span(3, 4, 4), outputs=3)
    assert len(inputs.labelled_examples(tunable)) == len(inputs.task.train)
