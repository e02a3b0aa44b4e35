"""CKA equals the textbook formula with n x n matrices: all texts at once, in batches, in shards, leaving texts out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.errors import MeasureError
from frostline.states.cka import cka_between_neighbours, cka_leaving_out, cka_matrix, own_hsic_leaving_out


def direct_hsic(x: np.ndarray, y: np.ndarray, *, unbiased: bool) -> float:
    """HSIC from texts-by-texts matrices, as printed: Gretton's biased form, Song's unbiased one."""
    n = len(x)
    k, l = x @ x.T, y @ y.T  # noqa: E741
    if not unbiased:
        h = np.eye(n) - 1 / n
        return float(np.trace(k @ h @ l @ h) / (n - 1) ** 2)
    np.fill_diagonal(k, 0)
    np.fill_diagonal(l, 0)
    ones = np.ones(n)
    total = np.trace(k @ l) - 2 / (n - 2) * ones @ k @ l @ ones
    total += (ones @ k @ ones) * (ones @ l @ ones) / ((n - 1) * (n - 2))
    return float(total / (n * (n - 3)))


def direct(x: torch.Tensor, y: torch.Tensor, *, unbiased: bool = True) -> float:
    one, two = x.numpy(), y.numpy()
    own = direct_hsic(one, one, unbiased=unbiased) * direct_hsic(two, two, unbiased=unbiased)
    return float(direct_hsic(one, two, unbiased=unbiased) / own**0.5)


def draw(layers: int, texts: int, width: int, seed: int = 0) -> torch.Tensor:
    """Neighbouring layers that have something in common, far from the origin."""
    random = np.random.default_rng(seed)
    states = [random.normal(size=(texts, width))]
    for _ in range(layers - 1):
        mixed = states[-1] @ random.normal(size=(width, width)) / width**0.5
        states.append(0.7 * mixed + random.normal(size=(texts, width)))
    return torch.tensor(np.stack(states) + 20 * random.normal(size=width))


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(("texts", "width"), [(40, 6), (300, 6), (12, 30)])
def test_the_matrix_equals_the_textbook_formula(texts, width, unbiased):
    states = draw(4, texts, width)
    ours = cka_matrix(states, unbiased=unbiased)
    for a in range(4):
        for b in range(4):
            assert ours[a, b].item() == pytest.approx(direct(states[a], states[b], unbiased=unbiased), abs=1e-8)


@pytest.mark.parametrize("unbiased", [True, False])
def test_two_encoders_of_different_shape_compare(unbiased):
    one, two = draw(3, 50, 6), draw(2, 50, 9, seed=1)
    two[0, :, :6] += one[1]
    ours = cka_matrix(one, two, unbiased=unbiased)
    assert ours.shape == (3, 2)
    for a in range(3):
        for b in range(2):
            assert ours[a, b].item() == pytest.approx(direct(one[a], two[b], unbiased=unbiased), abs=1e-8)


def test_both_routes_give_the_same(monkeypatch):
    states = draw(4, 60, 8)
    by_texts = cka_matrix(states)
    monkeypatch.setattr("frostline.states.cka._GRAM_MEMORY", 0)
    torch.testing.assert_close(cka_matrix(states), by_texts, rtol=1e-10, atol=1e-10)


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_rotation_scale_and_translation_change_nothing(seed):
    states = draw(3, 30, 5, seed)
    random = np.random.default_rng(seed)
    rotation = torch.tensor(np.linalg.qr(random.normal(size=(5, 5)))[0])
    moved = states.clone()
    moved[1] = 0.01 * states[1] @ rotation + torch.tensor(random.normal(size=5))
    torch.testing.assert_close(cka_matrix(moved), cka_matrix(states), rtol=1e-7, atol=1e-8)


def test_the_order_of_texts_does_not_matter():
    states = draw(3, 30, 5)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(cka_matrix(states[:, order]), cka_matrix(states), rtol=1e-9, atol=1e-9)


def test_a_layer_is_like_itself_and_unlike_noise():
    noise = torch.randn(2, 400, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unbiased, biased = cka_matrix(noise), cka_matrix(noise, unbiased=False)
    torch.testing.assert_close(unbiased.diag(), torch.ones(2, dtype=torch.float64))
    assert abs(unbiased[0, 1].item()) < 0.02
    assert biased[0, 1].item() > 0.1  # the bias that few texts for the width bring


def test_constant_and_nearly_constant_layers_are_undefined_and_spoil_no_other():
    states = draw(4, 40, 6).float()
    states[1] = states[1, :1]
    states[2] = states[2, :1] * (1 + 1e-7 * torch.randn(40, 6, generator=torch.Generator().manual_seed(0)))
    ours = cka_matrix(states)
    for layer in (1, 2):
        assert ours[layer].isnan().all()
        assert ours[:, layer].isnan().all()
    assert ours[[0, 3]][:, [0, 3]].isfinite().all()


def test_zero_states_are_undefined():
    assert cka_matrix(torch.zeros(2, 10, 3)).isnan().all()


def test_too_few_texts_and_different_texts_are_refused():
    with pytest.raises(MeasureError, match="at least 4 texts, but got 3"):
        cka_matrix(draw(2, 3, 4))
    with pytest.raises(MeasureError, match="the same texts on both sides, but got 5 and 6"):
        cka_matrix(draw(2, 5, 4), draw(2, 6, 4))


def test_leaving_a_block_out_equals_computing_without_it():
    states = draw(3, 50, 6)
    blocks = torch.arange(50) % 5
    own = own_hsic_leaving_out(states, blocks)
    ours = cka_leaving_out(states[:1], own[:, :1], states[1], blocks)[:, 0]
    neighbours = cka_between_neighbours(states, own, blocks)
    assert ours[0].item() == pytest.approx(direct(states[0], states[1]), abs=1e-8)
    for block in range(5):
        kept = states[:, blocks != block]
        assert ours[1 + block].item() == pytest.approx(direct(kept[0], kept[1]), abs=1e-8)
        assert neighbours[1 + block, 1].item() == pytest.approx(direct(kept[1], kept[2]), abs=1e-8)
