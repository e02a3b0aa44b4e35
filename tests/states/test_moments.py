"""Streaming equals holding all states in memory, and shards merge to one pass."""

from __future__ import annotations

import pytest
import torch
from tests.scoring.scores.test_closed_forms import draw, evidence

from frostline.scoring.scores import LAYER_SCORES
from frostline.states.moments import ClassMoments

STREAMING = [name for name, score in LAYER_SCORES.items() if score.from_moments is not None]


def moments_of(states, labels, sizes=(20, 15, 25)):
    found, at = None, 0
    for size in sizes:
        piece = slice(at, at + size)
        at += size
        points = None if found is None else found.references
        batch = ClassMoments.of(states[:, piece], labels[piece], classes=3, references=points)
        found = batch if found is None else found.merge(batch)
    assert at == states.shape[1]
    return found


def test_these_scores_can_be_streamed():
    assert set(STREAMING) >= {"variability", "variability.collapse", "rank", "hscore", "label_similarity"}


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize("far", [0.0, 300.0])
def test_streamed_values_equal_those_in_memory(name, far):
    states, labels = draw(8)
    states = states + far
    expected = LAYER_SCORES[name].estimate(evidence(states, labels), uncertainty=False).values
    streamed = LAYER_SCORES[name].from_moments(moments_of(states, labels))
    torch.testing.assert_close(streamed, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", STREAMING)
def test_two_shards_with_references_of_their_own_merge_to_one_pass(name):
    states, labels = draw(9)
    one = ClassMoments.of(states[:, :25], labels[:25], classes=3)
    two = ClassMoments.of(states[:, 25:], labels[25:], classes=3)
    whole = ClassMoments.of(states, labels, classes=3)
    function = LAYER_SCORES[name].from_moments
    torch.testing.assert_close(function(one.merge(two)), function(whole), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(function(two.merge(one)), function(whole), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", STREAMING)
def test_a_constant_layer_is_undefined(name):
    states, labels = draw(8)
    states[1] = states[1, :1]
    values = LAYER_SCORES[name].from_moments(moments_of(states.float(), labels))
    assert values[1].isnan()
    assert values[[0, 2]].isfinite().all()
