"""The p-value of few ranks is the share of all orders that are as far from chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from frostline.stats.spearman import spearman


@pytest.mark.parametrize(("count", "share"), [(3, 2 / 6), (4, 2 / 24), (5, 2 / 120), (6, 2 / 720)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_order_of_few_is_two_of_all_orders(count, share, sign):
    found = spearman(np.arange(count), sign * np.arange(count) ** 3)
    assert found == (pytest.approx(sign), pytest.approx(share))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [3, 5, 6])
def test_it_is_that_of_scipys_exact_permutation_test(count, ties):
    random = np.random.default_rng(count)
    for _ in range(5):
        one, other = random.normal(size=(2, count))
        if ties:
            one[1] = one[0]
        expected = stats.permutation_test(
            (one,), lambda x, other=other: stats.spearmanr(x, other).statistic, permutation_type="pairings",
            n_resamples=10**6,
        )  # fmt: skip
        assert spearman(one, other) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_many_pairs_have_students_t():
    one, other = np.random.default_rng(0).normal(size=(2, 9))
    found = stats.spearmanr(one, other)
    assert spearman(one, other) == (found.statistic, found.pvalue)


def test_noise_is_called_an_order_no_more_often_than_it_says():
    random = np.random.default_rng(1)
    found = [spearman(*random.normal(size=(2, 6)))[1] for _ in range(2000)]
    assert 0.02 < np.mean(np.array(found) <= 0.05) < 0.055  # not 0.05 itself: few p-values are possible


def test_ties_on_both_sides_count_orders_as_far_from_0_on_either_side():
    """Scipy's two-sided p-value doubles the smaller tail, which is another thing where ties make tails unequal."""
    random = np.random.default_rng(3)
    for count in (4, 5, 6):
        one, other = random.normal(size=(2, count))
        one[1], other[2] = one[0], other[0]
        expected = stats.permutation_test(
            (one,), lambda x, other=other: abs(stats.spearmanr(x, other).statistic), permutation_type="pairings",
            n_resamples=10**6, alternative="greater",
        )  # fmt: skip
        assert spearman(one, other)[1] == pytest.approx(expected.pvalue)
