"""One pass for scores and for frozen states: the same as separate passes, to the bit, and each text once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from tests.tiny import ALL_CONFIGS, tiny_model, tiny_tokenizer

import frostline.encoders.encoder as encoder_module
from frostline.encoders.encoder import Encoder
from frostline.kernels.batch_layout import Reads
from frostline.scoring.measurement import MeasureOptions, measure_layers, texts_to_see
from frostline.states.frozen import StatesAt
from frostline.states.pooled import POOLINGS, pooled_states
from frostline.tasks import Split, Task
from frostline.training.shared_inputs import SharedInputs

ROWS = 60


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


def encoder(name="bert"):
    return Encoder(tiny_model(name), tiny_tokenizer(), name=f"tiny {name}")


def places(depth):
    """Token states below every layer, the last one's too, and the first token's of every layer."""
    all_tokens = [StatesAt(layer=layer) for layer in range(depth + 1)]
    return all_tokens + [StatesAt(layer=layer, reads=Reads.FIRST) for layer in range(depth + 1)]


def task(rows=ROWS):
    train = Split(
        texts=tuple(f"{'snow' if row % 2 else 'sun'} {'x' * (row % 7)} {row}" for row in range(rows)),
        labels=tuple(row % 2 for row in range(rows)),
        rows=tuple(range(1, rows + 1)),
    )
    return _task(train, "classification", ("sun", "snow"))


def questions(rows=40):
    train = Split(
        texts=tuple(f"which {row}" for row in range(rows)),
        choices=tuple(tuple(f"{choice} {row * choice}" for choice in range(2 + row % 3)) for row in range(rows)),
        labels=tuple(row % 2 for row in range(rows)),
        rows=tuple(range(1, rows + 1)),
    )
    return _task(train, "multiple choice", ("a", "b", "c", "d"))


def _task(train, kind, names):
    return Task(
        name="made up",
        kind=kind,
        label_names=names,
        train=train,
        validation=None,
        test=None,
        metrics=("accuracy",),
        source="",
    )


def cache_files(folder):
    """The bytes of every cached file of states by the name of its entry."""
    return {path.parent.name: path.read_bytes() for path in folder.glob("states/*/states.bin")}


def count_work(monkeypatch):
    """Count how often each text is tokenized, and how many texts start through the layers and through each layer."""
    tokenized, started, layers = Counter(), [], Counter()
    tokenize, embed, run_each = encoder_module.tokenize, Encoder.embed, Encoder.run_each

    def counting_tokenize(tokenizer, texts, pairs, **options):
        tokenized.update(zip(texts, pairs or texts, strict=True))
        return tokenize(tokenizer, texts, pairs, **options)

    def counting_embed(self, tokens, layout):
        started.append(len(tokens))
        return embed(self, tokens, layout)

    def counting_run_each(self, states, layout, first, last, **options):
        for layer, output in enumerate(run_each(self, states, layout, first, last, **options), start=first):
            layers[layer] += len(layout.lengths)
            yield output

    monkeypatch.setattr(encoder_module, "tokenize", counting_tokenize)
    monkeypatch.setattr(Encoder, "embed", counting_embed)
    monkeypatch.setattr(Encoder, "run_each", counting_run_each)
    return tokenized, started, layers


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_pooled_states_and_cached_bytes_equal_those_of_separate_passes(name, dtype, tmp_path, monkeypatch):
    model, made = encoder(name), task()
    seen = SharedInputs(model, made, dtype=dtype).pass_over("train", keep=places(model.depth), poolings=POOLINGS)
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "apart"))
    apart = SharedInputs(model, made, dtype=dtype)
    apart.freeze(places(model.depth), ["train"])
    tokens = apart.tokens("train")[0]
    for pooling, expected in pooled_states(model, tokens, poolings=POOLINGS).items():
        assert seen.states[pooling].equal(expected)
    assert np.array_equal(seen.tokens.ids, tokens.ids)
    files = cache_files(tmp_path / "cache")
    assert len(files) == 2 * (model.depth + 1)
    assert files == cache_files(tmp_path / "apart")


def test_every_text_is_tokenized_once_and_runs_once_through_every_layer(monkeypatch):
    model, made = encoder(), task()
    tokenized, started, layers = count_work(monkeypatch)
    shared = SharedInputs(model, made)
    options = MeasureOptions(scores=["variability", "probe.linear", "change"], nulls=())
    texts, poolings = texts_to_see(made, options)
    seen = shared.pass_over("train", keep=places(model.depth), texts=texts, poolings=poolings)
    measure_layers(model, made, options, seen=seen)
    shared.freeze(places(model.depth), ["train"])
    assert set(tokenized.values()) == {1} and len(tokenized) == ROWS
    assert sum(started) == ROWS
    assert layers == dict.fromkeys(range(1, model.depth + 1), ROWS)


@pytest.mark.parametrize("make", [task, questions])
@pytest.mark.parametrize("examples", [24, 5_000], ids=["sampled", "all"])
def test_scores_of_seen_texts_equal_those_of_a_measurement_of_its_own(make, examples):
    model, made = encoder(), make()
    options = MeasureOptions(examples=examples, max_length=9, needs_all=False, seed=3)
    texts, poolings = texts_to_see(made, options)
    shared = SharedInputs(model, made, max_length=9)
    seen = shared.pass_over("train", keep=places(model.depth), texts=texts, poolings=poolings)
    found, expected = measure_layers(model, made, options, seen=seen), measure_layers(model, made, options)
    assert found.truncated == expected.truncated > 0
    assert found.notes == expected.notes and found.similarity == expected.similarity
    assert found.scores.keys() == expected.scores.keys()
    for name, score in expected.scores.items():
        assert found[name].values == score.values
        assert found[name].low == score.low and found[name].high == score.high


def test_a_pooling_that_was_not_collected_is_computed_from_the_same_tokens(monkeypatch):
    model, made = encoder(), task()
    tokenized, _, _ = count_work(monkeypatch)
    seen = SharedInputs(model, made).pass_over("train", poolings=["first"])
    options = MeasureOptions(scores=["variability"])
    values = measure_layers(model, made, options, seen=seen)["variability"].values
    assert set(tokenized.values()) == {1}
    assert values == measure_layers(model, made, options)["variability"].values


def test_states_of_other_texts_are_refused():
    model, made = encoder(), task()
    seen = SharedInputs(model, made).pass_over("train", texts=np.arange(24))
    with pytest.raises(ValueError, match="24 texts that were seen are not those to be measured"):
        measure_layers(model, made, MeasureOptions(examples=24), seen=seen)


@pytest.mark.parametrize("keep", [True, False], ids=["cached", "computed"])
def test_states_that_exist_already_do_not_change_pooled_ones(keep):
    model, made = encoder("modernbert"), task()
    first = SharedInputs(model, made).pass_over("train", keep=places(model.depth))
    again = SharedInputs(model, made, keep=keep).pass_over("train", keep=places(model.depth))
    for pooling, states in first.states.items():
        assert again.states[pooling].equal(states)


def test_states_that_half_precision_cannot_hold_are_kept_whole_and_pooled_as_ever():
    model, made = encoder(), task()
    with torch.no_grad():
        model.model.encoder.layer[0].output.LayerNorm.bias[0] = 1e6
    shared = SharedInputs(model, made)
    seen = shared.pass_over("train", keep=[StatesAt(layer=0), StatesAt(layer=1)])
    assert any("float16 cannot hold" in note for note in shared.notes)
    assert seen.states["mean"].equal(pooled_states(model, shared.tokens("train")[0])["mean"])
