"""Lasting gradients of word embeddings are torch's gradients, step after step."""

from __future__ import annotations

import contextlib

import pytest
import torch
from tests.tiny import CONFIGS
from tests.training.tuning_tools import examples_for, many_labels, many_tokens, tiny_tunable
from torch import nn

from frostline.records import Plan, Recipe
from frostline.training import loop
from frostline.training.loop import train, weights_of
from frostline.training.word_gradients import lasting_word_gradients

STEPS = [torch.tensor([3, 5, 3, 0]), torch.tensor([[1, 3], [7, 7]]), torch.tensor([9, 0, 9, 9])]


class Model(nn.Module):
    def __init__(self, padding: int | None) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 4, padding_idx=padding)

    def get_input_embeddings(self) -> nn.Module:
        return self.words


def gradient_of(words: nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
    (words(ids).double().sin().sum() * ids.sum()).backward()
    assert words.weight.grad is not None
    return words.weight.grad.clone()


@pytest.mark.parametrize("padding", [None, 0])
def test_gradients_are_those_of_torch_at_every_step(padding):
    model = Model(padding)
    own = []
    with lasting_word_gradients(model):
        for ids in STEPS:
            own.append(gradient_of(model.words, ids))
            model.zero_grad(set_to_none=True)
    for ids, gradient in zip(STEPS, own, strict=True):
        model.zero_grad(set_to_none=True)
        torch.testing.assert_close(gradient, gradient_of(model.words, ids), rtol=1e-6, atol=1e-7)


def test_gradients_of_several_batches_add_up():
    model = Model(None)
    with lasting_word_gradients(model):
        own = [gradient_of(model.words, ids) for ids in STEPS][-1]
    torch.testing.assert_close(own, [gradient_of(model.words, ids) for ids in STEPS][-1], rtol=1e-6, atol=1e-7)


def test_the_model_is_as_before_after_the_block():
    model = Model(None)
    before = model.words.forward
    with contextlib.suppress(KeyError), lasting_word_gradients(model):
        gradient_of(model.words, STEPS[0])
        raise KeyError
    assert model.words.forward == before
    assert model.words.weight.grad is None


def test_frozen_embeddings_are_left_alone():
    model = Model(None)
    model.words.weight.requires_grad_(False)
    with lasting_word_gradients(model):
        assert "forward" not in vars(model.words)


@pytest.mark.parametrize("family", CONFIGS)
def test_full_fine_tuning_ends_with_the_weights_that_it_has_with_gradients_of_torch(family, monkeypatch):
    found = []
    for gradients in (lasting_word_gradients, lambda model: contextlib.nullcontext()):
        monkeypatch.setattr(loop, "lasting_word_gradients", gradients)
        tunable = tiny_tunable(family, Plan.full(4), dropout=0.0)
        rows = examples_for(tunable, many_tokens(), many_labels())
        recipe = Recipe(epochs=2, batch=8, learning_rate=1e-3, select="last")
        train(tunable, rows, None, recipe, metrics=("accuracy",), learning_rate=1e-3)
        found.append(weights_of(tunable))
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        torch.testing.assert_close(value, found[1][name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_looks_up_its_words_with_lasting_gradients(family):
    tunable = tiny_tunable(family, Plan.full(4))
    words = tunable.model.get_input_embeddings()
    with lasting_word_gradients(tunable.model):
        assert "forward" in vars(words)
    assert "forward" not in vars(words)
