"""What every layer score must do; a new one is covered without editing this file."""

from __future__ import annotations

import pytest
import torch

from frostline.scores import LAYER_SCORES, layer_score

CENTRES = torch.tensor([[0.0] * 16, [1.0] * 16])


def draw(apart: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(200) % 2
    noise = torch.randn(200, 16, generator=torch.Generator().manual_seed(seed))
    return noise + apart * CENTRES[labels], labels


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_a_score_prefers_the_layer_whose_classes_lie_further_apart(name):
    score = LAYER_SCORES[name]
    near, labels = draw(0.5)
    far, _ = draw(2.0)
    values = score.compute(torch.stack([near, far]), labels)
    assert values.dtype == torch.float64
    assert values.argmin() == 1 if score.better == "low" else values.argmax() == 1


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_a_score_explains_itself_in_one_line(name):
    summary = LAYER_SCORES[name].summary
    assert 20 < len(summary) < 120
    assert summary.endswith(".")


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_a_score_changes_neither_states_nor_labels(name):
    states, labels = draw(1.0)
    before, names = states.clone(), labels.clone()
    LAYER_SCORES[name].compute(states[None], labels)
    assert torch.equal(states, before)
    assert torch.equal(labels, names)


def test_a_score_without_docstring_is_refused():
    with pytest.raises(ValueError, match="no docstring"):

        @layer_score(better="low", paper=1)
        def mute(states, labels):
            return states
