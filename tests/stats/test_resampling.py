"""Metrics of resampled rows, by the quick ways, next to the metrics themselves on the drawn rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stats.test_intervals import two_models

from frostline.stats import resampling
from frostline.stats.intervals import compare_means, interval, ratio_interval
from frostline.stats.resampling import resample
from frostline.tasks.metrics import METRICS

CLASS_METRICS = ["accuracy", "f1", "f1a", "macro_f1", "matthews"]
VALUE_METRICS = ["mse", "pearson", "r2", "spearman"]


def drawn_rows(count, groups, *, seed, draws):
    """The rows of every draw, one group after the other."""
    source = np.random.default_rng(seed)
    groups = range(count) if groups is None else groups
    names = list(dict.fromkeys(groups))
    members = {name: [row for row in range(count) if groups[row] == name] for name in names}
    for _ in range(draws):
        yield np.concatenate([members[names[place]] for place in source.integers(0, len(names), len(names))])


def directly(metric, labels, predictions, *, groups=None, seed=0, draws):
    rows = list(drawn_rows(len(labels), groups, seed=seed, draws=draws))
    return np.array([[METRICS[metric](labels[i], guess[i]) for i in rows] for guess in predictions])


def check_resampled(metric, labels, predictions, *, groups=None, seed=0, draws=20):
    found = resample(metric, labels, predictions, groups=groups, seed=seed, draws=draws)
    np.testing.assert_allclose(
        found, directly(metric, labels, predictions, groups=groups, seed=seed, draws=draws), rtol=1e-9, atol=1e-9
    )


def columns_of(values):
    """Labels, predictions of two models, and a group for every row or None."""
    rows = st.lists(st.tuples(values, values, values, st.sampled_from("abcd")), min_size=1, max_size=12)
    return st.tuples(rows, st.booleans()).map(
        lambda drawn: (
            *(np.array(column) for column in list(zip(*drawn[0], strict=True))[:3]),
            [row[3] for row in drawn[0]] if drawn[1] else None,
        )
    )


@pytest.mark.parametrize(
    ("metric", "classes"),
    [(metric, n) for metric in CLASS_METRICS for n in ((2,) if "f1" in metric[:3] else (2, 3, 5))],
)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_resampled_class_metrics_are_those_of_the_drawn_rows(metric, classes, data, seed):
    labels, one, other, groups = data.draw(columns_of(st.integers(0, classes - 1)))
    check_resampled(metric, labels, [one, other], groups=groups, seed=seed, draws=6)


# Few values, for ties and constant draws; values far from 0 or from each other, for rounding.
VALUES = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.1, 1e6 + 0.1, 1e6 + 0.2, -1e12]),
    st.integers(-1000, 1000).map(lambda whole: whole / 100),
)


@pytest.mark.parametrize("metric", VALUE_METRICS)
@settings(max_examples=60, deadline=None)
@given(columns=columns_of(VALUES), seed=st.integers(0, 99))
def test_resampled_metrics_of_values_are_those_of_the_drawn_rows(metric, columns, seed):
    labels, one, other, groups = columns
    check_resampled(metric, labels, [one, other], groups=groups, seed=seed, draws=6)


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_a_draw_in_which_predictions_are_constant_counts_as_no_correlation(metric):
    labels = np.arange(6.0)
    guess = np.array([0.3, 0.3, 0.3, 0.3, 0.3, 0.7])
    found = resample(metric, labels, [guess], groups=None, seed=0, draws=50)[0]
    without_the_last = [5 not in rows for rows in drawn_rows(6, None, seed=0, draws=50)]
    assert 0 < sum(without_the_last) < 50
    np.testing.assert_array_equal(found == 0.0, without_the_last)
    assert (resample(metric, labels, [np.full(6, 0.1)], groups=None, seed=0, draws=50) == 0.0).all()


@pytest.mark.parametrize("metric", ["pearson", "r2"])
def test_what_rounding_would_spoil_is_asked_of_the_metric_itself(metric):
    """A draw of the far values alone varies by a millionth of what all rows do."""
    labels = np.array([0.0, 1e7, 1e7 + 1, 1e7 + 3, -1.0, 0.5])
    guess = np.array([1e9, 2.0, 1.0, 1e9 + 2, 1e9 + 5, 1.5])
    check_resampled(metric, labels, [guess], draws=300)


@pytest.mark.parametrize("metric", VALUE_METRICS)
def test_values_far_from_zero_and_an_outlier_do_not_make_it_slow(metric, monkeypatch):
    labels, noise = np.random.default_rng(0).normal(size=(2, 30))
    labels, guess = 1e6 + labels, 1e6 + labels + np.where(np.arange(30) == 7, 1e6, noise)
    expected = directly(metric, labels, [guess], draws=40)
    monkeypatch.setattr(resampling, "METRICS", {})  # the slow way is gone
    found = resample(metric, labels, [guess], groups=None, seed=0, draws=40)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1e-200, 1e200])
@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_numbers_near_the_ends_of_the_range_correlate_like_others(metric, size):
    labels, noise = np.random.default_rng(0).normal(size=(2, 30))
    check_resampled(metric, size * labels, [size * (labels + noise), size * noise])
    for outlier in (1e160, 1e180):  # next to it all other squares lose their digits, or vanish
        check_resampled(metric, np.where(np.arange(30) == 7, outlier, labels), [noise])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("metric", [*CLASS_METRICS, *VALUE_METRICS])
def test_many_draws_in_several_chunks_come_in_the_order_of_their_rows(metric, grouped, monkeypatch):
    monkeypatch.setattr(resampling, "_CELLS", 7 * 60)
    labels, one, other = two_models(rows=60)
    groups = [f"text {row * row % 17}" for row in range(60)] if grouped else None
    check_resampled(metric, labels, [one, other], groups=groups, seed=3, draws=25)


def test_every_metric_has_a_quick_way():
    """One without is right but slow: scikit-learn and scipy take milliseconds for every draw."""
    assert sorted(resampling._QUICK) == sorted(METRICS.names())


@pytest.mark.parametrize("metric", VALUE_METRICS)
def test_a_metric_without_a_quick_way_is_asked_itself(metric, monkeypatch):
    monkeypatch.setattr(resampling, "_QUICK", {})
    labels, noise = np.random.default_rng(1).normal(size=(2, 12))
    check_resampled(metric, labels, [labels + noise], groups=list("aabbccddeeff"))


@pytest.mark.parametrize("metric", [*CLASS_METRICS, *VALUE_METRICS])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_predictions_that_are_not_finite_have_no_interval(metric, bad):
    with pytest.raises(ValueError, match="not finite"):
        interval([0, 1, 1, 0], [0.0, 1.0, bad, 1.0], metric, draws=50)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("metric", VALUE_METRICS)
def test_differences_and_ratios_are_those_of_the_metric_on_the_drawn_rows(metric, grouped):
    source = np.random.default_rng(2)
    labels = np.round(source.uniform(0, 5, 80) * 5) / 5
    ones, others = ([labels + source.normal(0, noise, 80) for _ in range(2)] for noise in (0.5, 0.8))
    groups = [f"text {row % 30}" for row in range(80)] if grouped else None
    first, second = (directly(metric, labels, side, groups=groups, draws=60).mean(0) for side in (ones, others))
    found = compare_means(labels, ones, others, metric, groups=groups, draws=60)
    gaps = METRICS[metric].gain * (first - second)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])), abs=2e-9)
    ratio = ratio_interval(labels, ones, others, metric, groups=groups, draws=60)
    assert ratio == pytest.approx(tuple(np.quantile(first / second, [0.025, 0.975])), abs=1e-9)
    alone = directly(metric, labels, ones[:1], groups=groups, draws=60)
    found_alone = interval(labels, ones[0], metric, groups=groups, draws=60)
    assert found_alone == pytest.approx(tuple(np.quantile(alone, [0.025, 0.975])), abs=1e-9)
