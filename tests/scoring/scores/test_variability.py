"""Variability equals the textbook formula, has its invariances, and is undefined where it should be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from frostline.scoring.scores.variability import variability


def direct(states: np.ndarray, labels: np.ndarray) -> float:
    """The formula of Xie et al. 2022 word by word: two D x D matrices and a pseudo-inverse."""
    classes = np.unique(labels)
    means = np.stack([states[labels == label].mean(0) for label in classes])
    centre = means.mean(0)
    within = np.mean([np.cov(states[labels == label].T, bias=True) for label in classes], axis=0)
    between = np.mean([np.outer(mean - centre, mean - centre) for mean in means], axis=0)
    return float(np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / len(classes))


def draw(seed: int, *, classes: int = 3, examples: int = 60, width: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, examples - classes)])
    states = random.normal(size=(2, examples, width)) + random.normal(size=(2, classes, width))[:, labels]
    return torch.tensor(states), torch.tensor(labels)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(8, 80), st.integers(2, 20))
def test_it_equals_the_direct_formula(seed, classes, examples, width):
    if width < classes - 1:
        width = classes - 1
    states, labels = draw(seed, classes=classes, examples=examples, width=width)
    expected = [direct(layer.numpy(), labels.numpy()) for layer in states]
    # Class means that nearly coincide in a direction give a value in the millions, and `pinv` itself loses digits.
    assume(max(expected) < 1e4)
    assert variability(states, labels).tolist() == pytest.approx(expected, rel=1e-9)


def test_two_classes_have_a_closed_form():
    states, labels = draw(5, classes=2)
    first, second = states[0][labels == 0], states[0][labels == 1]
    difference = first.mean(0) - second.mean(0)
    within = (torch.cov(first.T, correction=0) + torch.cov(second.T, correction=0)) / 2
    expected = 2 * difference @ within @ difference / (difference @ difference) ** 2
    torch.testing.assert_close(variability(states, labels)[0], expected, rtol=1e-9, atol=0)


@settings(deadline=None)
@given(st.integers(0, 1_000))
def test_translation_rotation_and_scale_change_nothing(seed):
    states, labels = draw(seed)
    random = np.random.default_rng(seed)
    rotation = torch.tensor(np.linalg.qr(random.normal(size=(12, 12)))[0])
    moved = 3.7 * states @ rotation + torch.tensor(random.normal(size=12))
    torch.testing.assert_close(variability(moved, labels), variability(states, labels), rtol=1e-8, atol=0)


def test_a_general_linear_map_does_change_it():
    states, labels = draw(0)
    stretched = states * torch.linspace(1, 9, 12)
    assert not torch.allclose(variability(stretched, labels), variability(states, labels), rtol=0.05)


@settings(deadline=None)
@given(st.integers(0, 1_000))
def test_the_order_of_examples_and_the_names_of_labels_do_not_matter(seed):
    states, labels = draw(seed)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    renamed = torch.tensor([40, 7, -3])[labels]
    expected = variability(states, labels)
    torch.testing.assert_close(variability(states[:, order], labels[order]), expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(variability(states, renamed), expected, rtol=1e-9, atol=0)


def test_classes_weigh_the_same_whatever_their_size():
    states, labels = draw(1, classes=2, examples=40)
    again = torch.cat([states, states[:, labels == 0]], dim=1)
    more = torch.cat([labels, labels[labels == 0]])
    torch.testing.assert_close(variability(again, more), variability(states, labels), rtol=1e-9, atol=0)


def test_a_constant_layer_is_undefined():
    states, labels = draw(2)
    states[0] = states[0, :1]
    values = variability(states, labels)
    assert values[0].isnan()
    assert values[1].isfinite()


def test_a_layer_that_is_constant_up_to_rounding_is_undefined():
    states, labels = draw(2)
    single = states.float()
    single[0] = single[0, :1] * (1 + 1e-7 * torch.randn(60, 12, generator=torch.Generator().manual_seed(0)))
    assert variability(single, labels)[0].isnan()


def test_a_weak_signal_beside_a_large_constant_dimension_is_measured():
    states, labels = draw(2)
    small = 1e-4 * states
    small[..., 0] = 300.0
    torch.testing.assert_close(
        variability(small.float(), labels), variability(states[..., 1:], labels), rtol=1e-3, atol=0
    )


def test_states_far_from_the_origin_are_measured():
    states, labels = draw(2)
    torch.testing.assert_close(variability(states + 1e6, labels), variability(states, labels), rtol=1e-6, atol=0)


def test_one_text_per_class_has_no_spread_and_is_undefined():
    states, _ = draw(2)
    assert variability(states[:, :5], torch.arange(5)).isnan().all()


def test_coinciding_class_means_are_undefined():
    states, labels = draw(3, classes=2, examples=40)
    for label in (0, 1):
        states[:, labels == label] -= states[:, labels == label].mean(1, keepdim=True)
    assert variability(states + 5.0, labels).isnan().all()


def test_collinear_class_means_use_the_axis_that_there_is():
    states, labels = draw(4)
    for label in range(3):
        rows = states[0, labels == label]
        states[0, labels == label] = rows - rows.mean(0) + float(label) * torch.ones(12)
    assert variability(states, labels)[0].item() == pytest.approx(direct(states[0].numpy(), labels.numpy()), rel=1e-9)


def test_float32_states_are_summed_in_double_precision():
    states, labels = draw(6)
    far = (states + 1000.0).float()
    expected = [direct(layer, labels.numpy()) for layer in far.double().numpy()]
    assert variability(far, labels).tolist() == pytest.approx(expected, rel=1e-9)
