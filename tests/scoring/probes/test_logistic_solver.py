"""The linear fits behind probes reach the optimum that scikit-learn reaches, whatever the data are like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from frostline.scoring.probes.logistic_solver import fit_logistic, fit_ridge


def draw(
    seed: int, *, classes: int, rows: int = 300, width: int = 20, apart: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlated states far from the origin, on unequal scales, and classes of unequal size."""
    random = np.random.default_rng(seed)
    shares = np.arange(1, classes + 1) / sum(range(1, classes + 1))
    labels = np.concatenate([np.arange(classes), random.choice(classes, rows - classes, p=shares)])
    mixing = random.normal(size=(width, width)) * np.geomspace(0.1, 10, width)
    states = (random.normal(size=(rows, width)) + apart * random.normal(size=(classes, width))[labels]) @ mixing + 5.0
    return torch.tensor(states), torch.tensor(labels)


def reference(states: torch.Tensor, labels: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Scikit-learn's weights, (width, outputs), and decision values, (rows, outputs), in float64."""
    standard = StandardScaler().fit_transform(states.double().numpy())
    model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(standard, labels.numpy())
    return model.coef_.T, model.decision_function(standard).reshape(len(states), -1)


@pytest.mark.parametrize("classes", [2, 3, 10, 11, 40])
@pytest.mark.parametrize("apart", [0.3, 2.0])
def test_weights_and_probabilities_equal_scikit_learns(classes, apart):
    states, labels = draw(classes, classes=classes, apart=apart)
    weights, logits = reference(states, labels)
    found = fit_logistic(states, labels, tolerance=1e-9)
    assert found.is_converged
    np.testing.assert_allclose(found.weights.numpy(), weights, atol=1e-6)
    np.testing.assert_allclose(found(states).numpy(), logits, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3, 10, 11, 40])
def test_float32_at_the_default_tolerance_is_close_enough_for_equal_predictions(classes):
    states, labels = draw(classes, classes=classes, rows=1000, width=60)
    _, logits = reference(states.float(), labels)
    found = fit_logistic(states.float(), labels)
    assert found.is_converged
    np.testing.assert_allclose(found(states.float()).numpy(), logits, atol=1e-3)
    assert np.sqrt(np.mean((found(states.float()).numpy() - logits) ** 2)) < 1e-4
    expected = (logits[:, 0] > 0).astype(int) if classes == 2 else logits.argmax(1)
    assert np.array_equal(found.logits(states.float()).argmax(1).numpy(), expected)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(20, 120), st.integers(1, 30), st.floats(0, 4))
def test_the_gradient_vanishes_at_the_fit(seed, classes, rows, width, apart):
    states, labels = draw(seed, classes=classes, rows=rows, width=width, apart=apart)
    found = fit_logistic(states, labels, tolerance=1e-9)
    standard = StandardScaler().fit_transform(states.numpy())
    excess = torch.softmax(found.logits(states), 1) - torch.nn.functional.one_hot(labels, classes)
    excess = excess[:, 1:] if classes == 2 else excess
    gradient = torch.tensor(standard).T @ excess + found.weights
    assert gradient.abs().max() < 1e-5
    assert excess.sum(0).abs().max() < 1e-5


@pytest.mark.parametrize("classes", [2, 4, 20])
def test_classes_that_part_perfectly_converge(classes):
    states, labels = draw(0, classes=classes, apart=50.0)
    found = fit_logistic(states, labels, tolerance=1e-9)
    assert found.is_converged
    assert torch.equal(found.logits(states).argmax(1), labels)
    np.testing.assert_allclose(found.weights.numpy(), reference(states, labels)[0], atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_wider_than_there_are_rows_converge(classes, dtype):
    states, labels = draw(1, classes=classes, rows=40, width=120)
    found = fit_logistic(states.to(dtype), labels)
    assert found.is_converged
    np.testing.assert_allclose(found(states.to(dtype)).numpy(), reference(states, labels)[1], atol=2e-3)


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_that_repeat_others_share_their_weight(classes, dtype):
    states, labels = draw(2, classes=classes)
    twice = torch.cat([states, 3.0 * states - 1.0], dim=1).to(dtype)
    found = fit_logistic(twice, labels)
    assert found.is_converged
    torch.testing.assert_close(found.weights[:20], found.weights[20:], atol=1e-4, rtol=0)
    np.testing.assert_allclose(found(twice).numpy(), reference(twice, labels)[1], atol=2e-3)


@pytest.mark.parametrize("constant", [0.0, 7.3, 1e-32, 3e4])
@pytest.mark.parametrize("classes", [2, 3, 12])
def test_entries_that_are_constant_up_to_rounding_are_left_out(constant, classes):
    states, labels = draw(3, classes=classes)
    noise = 1 + 1e-8 * torch.randn(len(states), 1, generator=torch.Generator().manual_seed(0))
    wider = torch.cat([states, constant * noise], dim=1).float()
    found = fit_logistic(wider, labels)
    assert found.weights[-1].abs().max() == 0
    torch.testing.assert_close(found(wider), fit_logistic(states.float(), labels)(states.float()), atol=1e-4, rtol=0)


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_constant_states_give_every_class_its_share(classes):
    _, labels = draw(4, classes=classes)
    found = fit_logistic(torch.ones(len(labels), 8), labels)
    shares = torch.bincount(labels) / len(labels)
    torch.testing.assert_close(torch.softmax(found.logits(torch.ones(1, 8)), 1)[0], shares, atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1_000), st.integers(2, 4))
def test_the_order_of_rows_and_of_classes_does_not_matter(seed, classes):
    states, labels = draw(seed, classes=classes, rows=80)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    expected = torch.softmax(fit_logistic(states, labels, tolerance=1e-9).logits(states), 1)
    shuffled = fit_logistic(states[order], labels[order], tolerance=1e-9)
    torch.testing.assert_close(torch.softmax(shuffled.logits(states), 1), expected, atol=1e-7, rtol=0)
    renamed = fit_logistic(states, classes - 1 - labels, tolerance=1e-9)
    torch.testing.assert_close(torch.softmax(renamed.logits(states), 1).flip(1), expected, atol=1e-7, rtol=0)


def test_the_scale_and_the_origin_of_states_do_not_matter():
    states, labels = draw(5, classes=3)
    moved = 1e-3 * states * torch.linspace(1, 50, states.shape[1]) - 2.0
    expected = fit_logistic(states, labels, tolerance=1e-9)(states)
    torch.testing.assert_close(fit_logistic(moved, labels, tolerance=1e-9)(moved), expected, atol=1e-6, rtol=0)


def test_a_stronger_penalty_gives_smaller_weights():
    states, labels = draw(6, classes=3)
    sizes = [float(fit_logistic(states, labels, penalty=penalty).weights.norm()) for penalty in (0.1, 1.0, 100.0)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(("rows", "width"), [(200, 15), (30, 80)])
def test_ridge_equals_scikit_learns(rows, width):
    states, labels = draw(7, classes=4, rows=rows, width=width)
    values = labels + 0.1 * states[:, 0]
    standard = StandardScaler().fit_transform(states.numpy())
    expected = Ridge(alpha=1.0, solver="svd").fit(standard, values.numpy())
    found = fit_ridge(states, values)
    np.testing.assert_allclose(found.weights[:, 0].numpy(), expected.coef_, atol=1e-8)
    np.testing.assert_allclose(found(states)[:, 0].numpy(), expected.predict(standard), atol=1e-8)


def test_neither_states_nor_labels_are_changed():
    states, labels = draw(8, classes=3)
    before, names = states.clone(), labels.clone()
    fit_logistic(states, labels)
    fit_ridge(states, labels)
    assert torch.equal(states, before)
    assert torch.equal(labels, names)
