"""The cross-fitted variability has no small-sample bias where the plain one has."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from frostline.scoring.score_inputs import divide
from frostline.scoring.scores.variability import crossfitted, variability


def population(difference: np.ndarray, deviations: np.ndarray) -> float:
    """Two classes with the same diagonal covariance: 2 d' S d / (d'd)^2."""
    return float(2 * (difference**2 * deviations**2).sum() / (difference @ difference) ** 2)


@pytest.mark.parametrize(("width", "texts"), [(64, 90), (128, 240)])
def test_the_mean_is_right_where_the_plain_one_is_off_by_a_fifth(width, texts):
    random = np.random.default_rng(0)
    deviations = random.uniform(0.5, 1.5, width)
    difference = random.normal(size=width) / width**0.5 * 2.2
    truth = population(difference, deviations)
    labels = torch.arange(texts) % 2
    plain, crossed = [], []
    for seed in range(300):
        noise = np.random.default_rng(seed).normal(size=(texts, width)) * deviations
        states = torch.tensor(noise + (labels.numpy()[:, None] - 0.5) * difference)
        plain.append(variability(states[None], labels).item())
        thirds = divide(labels, torch.arange(texts), 3, seed=seed)
        crossed.append(crossfitted(states, labels, thirds).item())
    assert np.mean(plain) < 0.8 * truth
    assert np.nanmedian(crossed) == pytest.approx(truth, rel=0.1)
    assert np.nanmean(crossed) == pytest.approx(truth, rel=0.1)


def test_three_classes_approach_the_plain_value_with_many_texts():
    random = np.random.default_rng(1)
    labels = torch.arange(30_000) % 3
    centres = random.normal(size=(3, 10))
    states = torch.tensor(random.normal(size=(30_000, 10)) + centres[labels.numpy()])
    thirds = divide(labels, torch.arange(30_000), 3, seed=0)
    plain = variability(states[None], labels).item()
    assert crossfitted(states, labels, thirds).item() == pytest.approx(plain, rel=0.02)


def test_noise_alone_looks_far_less_specialised_than_by_the_plain_value():
    labels = torch.arange(60) % 2
    plain, crossed = [], []
    for seed in range(40):
        states = torch.randn(60, 40, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        plain.append(variability(states[None], labels).item())
        crossed.append(crossfitted(states, labels, divide(labels, torch.arange(60), 3, seed=0)).item())
    assert np.median(plain) < 1.2
    assert np.nanmedian(np.nan_to_num(crossed, nan=np.inf)) > 5 * np.median(plain)


def test_a_class_too_small_to_divide_is_undefined():
    labels = torch.tensor([0] * 20 + [1] * 5)
    states = torch.randn(25, 4, dtype=torch.float64)
    assert crossfitted(states, labels, torch.arange(25) % 3).isnan()


@pytest.mark.parametrize("classes", [2, 3])
def test_noise_is_undefined_or_large_but_never_what_rounding_leaves_on_the_empty_axis(classes):
    """Where the true axis comes out negative, the empty one must not take its place: that gave 1e15 and more."""
    labels = torch.arange(120) % classes
    found = []
    for seed in range(200):
        states = torch.randn(120, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        found.append(crossfitted(states, labels, divide(labels, torch.arange(120), 3, seed=seed)).item())
    assert np.isnan(found).sum() > 50
    assert np.nanmax(found) < 1e7
