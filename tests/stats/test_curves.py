"""Correlations of curves: the p-value holds for smooth curves, where that of independent points is far too small."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import fft, ndimage, stats

from frostline.stats.curves import correlate_curves, surrogate_p


def random_walks(source, count, layers):
    return source.normal(size=(count, 2, layers)).cumsum(axis=2)


def smoothed(source, count, layers):
    return ndimage.gaussian_filter1d(source.normal(size=(count, 2, layers + 20)), 2.0, axis=2)[:, :, 10:-10]


def autoregressive(source, count, layers):
    noise = source.normal(size=(count, 2, layers + 50))
    for step in range(1, noise.shape[2]):
        noise[:, :, step] += 0.9 * noise[:, :, step - 1]
    return noise[:, :, 50:]


@pytest.mark.parametrize("layers", [12, 24])
@pytest.mark.parametrize("draw", [random_walks, smoothed, autoregressive])
@pytest.mark.parametrize("ranks", [False, True])
def test_independent_smooth_curves_are_seldom_beyond_chance(draw, layers, ranks):
    pairs = draw(np.random.default_rng(7), 600, layers)
    naive = np.array([(stats.spearmanr if ranks else stats.pearsonr)(*pair).pvalue for pair in pairs])
    ours = np.array([correlate_curves(*pair.tolist(), ranks=ranks)[1] for pair in pairs])
    assert np.mean(naive < 0.05) > 0.2
    for level in (0.05, 0.1, 0.25, 0.5):
        assert np.mean(ours <= level) <= level + 2.5 * (level * (1 - level) / 600) ** 0.5 + 0.03
    assert np.mean(ours <= 0.5) > 0.35  # and it is not merely always large


def test_curves_with_many_common_bends_are_beyond_chance():
    source = np.random.default_rng(0)
    curve = source.normal(size=24).cumsum() + source.normal(size=24)
    value, p = correlate_curves(curve.tolist(), (-2 * curve + 0.1 * source.normal(size=24)).tolist())
    assert value < -0.95
    assert p < 0.01


def test_curves_that_merely_both_rise_are_not():
    rising = np.cos(np.pi * (np.arange(12) + 0.5) / 12)  # one cosine
    value, p = correlate_curves(rising.tolist(), (-3 * rising).tolist())
    assert (value, p) == (pytest.approx(-1), pytest.approx(1))


@pytest.mark.parametrize("layers", [4, 6, 9])
def test_the_p_value_is_the_share_of_surrogate_curves_that_correlate_as_strongly(layers):
    one, other = np.random.default_rng(layers).normal(size=(2, layers))
    coefficients = fft.dct(other, norm="ortho")
    found = abs(np.corrcoef(one, other)[0, 1])
    by_chance = [
        abs(np.corrcoef(one, fft.idct(coefficients * np.array([1, *signs]), norm="ortho"))[0, 1])
        for signs in product((1, -1), repeat=layers - 1)
    ]
    assert surrogate_p(one, other) == pytest.approx(np.mean(np.array(by_chance) >= found - 1e-12))


def test_undefined_points_are_left_out_and_constant_curves_have_no_correlation():
    one, other = [1.0, 3.0, None, 2.0, 5.0], [2.0, 1.0, 9.0, 4.0, None]
    assert correlate_curves(one, other) == correlate_curves([1.0, 3.0, 2.0], [2.0, 1.0, 4.0])
    assert all(np.isnan(correlate_curves([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])))
