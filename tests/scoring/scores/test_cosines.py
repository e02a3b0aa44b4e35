"""Scores of the first token's direction, against a loop over texts and layers."""

from __future__ import annotations

import math
from statistics import fmean as mean

import pytest
import torch
from tests.tiny import ALL_CONFIGS, padded_inputs, random_tokens, tiny_encoder

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import DEFAULT_SCORES
from frostline.states.angles import span_distances
from frostline.states.pooled import pooled_states

NAMES = ("first_token_cosine", "first_token_cosine.all", "angular_distance")
TEXTS = 7


def evidence_of(states: torch.Tensor) -> Evidence:
    return Evidence(
        states={"first": states},
        labels=torch.arange(states.shape[1]) % 2,
        groups=torch.arange(states.shape[1]),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=0,
    )


def cosine(one, other) -> float:
    return float(one @ other / math.sqrt(one @ one) / math.sqrt(other @ other))


def first_token_cosine(states) -> list[float]:
    layers, texts = states.shape[:2]
    return [mean([cosine(states[layer - 1, text], states[layer, text]) for text in range(texts)])
            for layer in range(1, layers)]  # fmt: skip


def first_token_cosine_all(states) -> list[float]:
    layers, texts = states.shape[:2]
    return [mean([cosine(states[layer, text], states[other, text])
                     for text in range(texts) for other in range(1, layers) if other != layer])
            for layer in range(1, layers)]  # fmt: skip


def angular_distance(states) -> list[float]:
    layers, texts = states.shape[:2]
    return [mean([math.acos(cosine(states[layer, text], states[-1, text])) / math.pi for text in range(texts)])
            for layer in range(layers - 1)]  # fmt: skip


def assert_values(states: torch.Tensor) -> None:
    numbers = states.numpy().astype(float)
    for name, direct in zip(NAMES, (first_token_cosine, first_token_cosine_all, angular_distance), strict=True):
        values = LAYER_SCORES[name].estimate(evidence_of(states), uncertainty=False).values
        defined = values[:-1] if name == "angular_distance" else values[1:]
        assert values.isnan().sum() == 1
        assert defined.tolist() == pytest.approx(direct(numbers), abs=1e-9)


def test_scores_equal_a_loop():
    assert_values(torch.randn(5, TEXTS, 6, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_scores_are_those_of_the_stock_models_first_tokens(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    with torch.no_grad():
        hidden = encoder.model(**padded_inputs(encoder, tokens), output_hidden_states=True).hidden_states
    expected = torch.stack([state[:, 0] for state in hidden])
    states = pooled_states(encoder, tokens, poolings=["first"])["first"]
    torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-4)
    assert_values(states)


def test_a_layer_that_does_nothing_keeps_the_direction():
    states = torch.randn(5, TEXTS, 6, generator=torch.Generator().manual_seed(0))
    states[3] = 2 * states[2]
    assert LAYER_SCORES["first_token_cosine"].estimate(evidence_of(states)).values[3] == pytest.approx(1)


def test_the_distance_of_a_layer_is_that_of_the_span_above_it():
    states = torch.randn(5, TEXTS, 6, generator=torch.Generator().manual_seed(0))
    values = LAYER_SCORES["angular_distance"].estimate(evidence_of(states)).values
    torch.testing.assert_close(values[:-1], span_distances(states)[:-1, -1])


@pytest.mark.parametrize("name", NAMES)
def test_the_uncertainty_is_that_of_a_mean_over_texts(name):
    states = torch.randn(5, TEXTS, 6, generator=torch.Generator().manual_seed(0))
    found = LAYER_SCORES[name].estimate(evidence_of(states))
    each = [
        LAYER_SCORES[name].estimate(evidence_of(states[:, [text]]), uncertainty=False).values for text in range(TEXTS)
    ]
    expected = torch.stack(each).var(0) / TEXTS
    torch.testing.assert_close(found.deviations.square().sum(0)[1:4], expected[1:4])


@pytest.mark.parametrize("name", NAMES)
def test_they_are_measured_only_on_request(name):
    assert name in LAYER_SCORES and name not in DEFAULT_SCORES
