"""Scores from sums over chunks of texts."""

from __future__ import annotations

import pytest
import torch
from tests.tiny import tiny_model, tiny_tokenizer

from frostline.encoders.encoder import Encoder
from frostline.progress import Step, silent
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.streaming import stream_scores
from frostline.states.moments import ClassMoments
from frostline.states.pooled import pooled_states
from frostline.tasks import Split

TEXTS = tuple("ab " * length for length in range(1, 31))


def encoder() -> Encoder:
    return Encoder(tiny_model("bert"), tiny_tokenizer())


def test_scores_from_several_chunks_equal_those_of_one_pass(monkeypatch):
    monkeypatch.setattr("frostline.scoring.streaming._TEXTS_PER_CHUNK", 7)
    split = Split(texts=TEXTS, labels=tuple(number % 2 for number in range(30)), rows=tuple(range(30)))
    steps: list[Step] = []
    chosen = [LAYER_SCORES["variability"]]
    scores, truncated = stream_scores(encoder(), split, chosen, pooling="mean", max_length=40, progress=steps.append)
    tokens = encoder().tokenize(TEXTS, max_length=40)
    whole = ClassMoments.of(pooled_states(encoder(), tokens)["mean"], torch.tensor(split.labels), classes=2)
    expected = LAYER_SCORES["variability"].from_moments(whole)
    assert scores["variability"].values == pytest.approx(expected.tolist(), rel=1e-4)
    assert truncated == tokens.truncated > 0
    assert [step.done for step in steps] == [7, 14, 21, 28, 30]


def test_nothing_to_stream_is_a_bug():
    with pytest.raises(ValueError, match="no texts"):
        stream_scores(
            encoder(), Split(texts=(), labels=(), rows=()), [], pooling="mean", max_length=None, progress=silent
        )
