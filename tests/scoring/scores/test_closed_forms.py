"""Rank, H-score, LogME, similarity with labels and change equal independent computations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from sklearn.covariance import ledoit_wolf

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.scores.hscore import hscore
from frostline.scoring.scores.logme import log_evidence
from frostline.scoring.scores.rank import rank
from frostline.scoring.scores.variability import variability, variability_collapse


def draw(seed: int = 0, *, texts: int = 60, width: int = 5, classes: int = 3, layers: int = 3):
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, texts - classes)])
    states = random.normal(size=(layers, texts, width)) + random.normal(size=(layers, classes, width))[:, labels]
    return torch.tensor(states), torch.tensor(labels)


def evidence(states: torch.Tensor, labels: torch.Tensor, **changes) -> Evidence:
    given = {
        "states": {"mean": states, "all": states, "first": states},
        "labels": labels,
        "groups": torch.arange(len(labels)),
        "kind": "classification",
        "metric": "accuracy",
        "pooling": "mean",
        "seed": 0,
    }
    return Evidence(**{**given, **changes})


def test_rank_equals_singular_values():
    states, labels = draw()
    for layer, ours in zip(states.numpy(), rank(states, labels).tolist(), strict=True):
        ranks = []
        for label in range(3):
            values = np.linalg.svd(layer[labels.numpy() == label], compute_uv=False)
            ranks.append(values.sum() ** 2 / (values**2).sum())
        assert ours == pytest.approx(np.mean(ranks), rel=1e-7)


def test_rank_of_fewer_texts_than_dimensions():
    states, labels = draw(texts=12, width=30)
    values = np.linalg.svd(states[0].numpy()[labels.numpy() == 0], compute_uv=False)
    alone = rank(states[:1, labels == 0], labels[labels == 0])
    assert alone.item() == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-7)


def test_hscore_equals_its_formula_with_scikit_learns_shrinkage():
    states, labels = draw(texts=40, width=8)
    for layer, ours in zip(states.numpy(), hscore(states, labels).tolist(), strict=True):
        centred = layer - layer.mean(0)
        covariance, shrinkage = ledoit_wolf(centred, assume_centered=True)
        assert 0 < shrinkage < 1
        means = np.stack([centred[labels.numpy() == label].mean(0) for label in labels.unique()])
        counts = np.bincount(labels.numpy())
        between = (means * counts[:, None]).T @ means / (len(labels) - 1)
        expected = np.trace(np.linalg.inv(covariance) @ between) * (1 - shrinkage)
        assert ours == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("is_collinear", [False, True])
def test_logme_is_the_largest_marginal_likelihood(is_collinear):
    """Direct: y ~ normal(0, I/noise + F F'/prior), maximised over both precisions with a general optimiser."""
    texts = 50
    states, labels = draw(1, texts=texts, width=4, classes=2, layers=1)
    if is_collinear:
        states = torch.cat([states, states[..., :2] - states[..., 2:]], dim=-1)
    features = states[0].numpy()
    total = 0.0
    for label in range(2):
        target = (labels.numpy() == label).astype(float)

        def cost(logs, target=target):
            covariance = np.eye(texts) / np.exp(logs[1]) + features @ features.T / np.exp(logs[0])
            return -stats.multivariate_normal(np.zeros(texts), covariance).logpdf(target)

        total -= optimize.minimize(cost, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10}).fun
    targets = torch.nn.functional.one_hot(labels).double()
    assert log_evidence(states[0], targets).item() == pytest.approx(total / (2 * texts), abs=1e-5)


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_similarity_with_labels_equals_the_textbook_formula(kind):
    from tests.states.test_cka import direct

    states, labels = draw()
    if kind == "regression":
        labels = states[1, :, 0] + torch.randn(60, generator=torch.Generator().manual_seed(1))
        target = labels[:, None]
    else:
        target = torch.nn.functional.one_hot(labels).double()
    found = LAYER_SCORES["label_similarity"].estimate(evidence(states, labels, kind=kind))
    for layer, ours in zip(states, found.values.tolist(), strict=True):
        assert ours == pytest.approx(direct(layer, target), abs=1e-8)
    assert (found.deviations.square().sum(0).sqrt() > 0).all()


def test_change_is_one_minus_similarity_of_input_and_output():
    from tests.states.test_cka import direct

    states, labels = draw()
    states[2] = states[1] + 0.01 * states[2]
    values = LAYER_SCORES["change"].estimate(evidence(states, labels), uncertainty=False).values
    assert values[0].isnan()
    assert values[1].item() == pytest.approx(1 - direct(states[0], states[1]), abs=1e-8)
    assert values[2].item() == pytest.approx(1 - direct(states[1], states[2]), abs=1e-8)
    assert values[2] < 0.01 < values[1]


def test_the_neural_collapse_variant_equals_its_formula():
    states, labels = draw(3)
    layer, label = states[0].numpy(), labels.numpy()
    means = np.stack([layer[label == one].mean(0) for one in range(3)])
    centre = layer.mean(0)
    within = (layer - means[label]).T @ (layer - means[label]) / len(layer)
    between = sum(np.outer(mean - centre, mean - centre) for mean in means) / 3
    expected = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / 3
    assert variability_collapse(states, labels)[0].item() == pytest.approx(expected, rel=1e-9)


def test_the_neural_collapse_variant_is_the_same_on_balanced_classes_only():
    states, _ = draw(3)
    balanced = torch.arange(60) % 3
    torch.testing.assert_close(variability_collapse(states, balanced), variability(states, balanced), rtol=1e-9, atol=0)
    skewed = (torch.arange(60) > 50).long()
    assert not torch.allclose(variability_collapse(states, skewed), variability(states, skewed), rtol=0.01)


@pytest.mark.parametrize("name", ["rank", "hscore", "logme", "label_similarity", "variability", "variability.collapse"])
def test_the_order_of_texts_and_the_names_of_labels_do_not_matter(name):
    states, labels = draw(5)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    expected = LAYER_SCORES[name].estimate(evidence(states, labels), uncertainty=False).values
    for other in (evidence(states[:, order], labels[order]), evidence(states, torch.tensor([40, 7, 3])[labels])):
        values = LAYER_SCORES[name].estimate(other, uncertainty=False).values
        torch.testing.assert_close(values, expected, rtol=1e-7, atol=1e-9)


# Probes have a chance level, gradients need the encoder, and the others compare a text with itself in the layer below.
DEFINED_ANYWAY = ("probe", "fisher", "forecast", "gradient", "first_token", "angular")


@pytest.mark.parametrize("name", [name for name in LAYER_SCORES if not name.startswith(DEFINED_ANYWAY)])
def test_a_constant_layer_is_undefined_and_spoils_no_other(name):
    states, labels = draw(6, texts=150, classes=2, layers=4)
    states[2] = states[2, :1]
    values = LAYER_SCORES[name].estimate(evidence(states.float(), labels)).values
    assert values[2].isnan()
    assert values[1].isfinite()
