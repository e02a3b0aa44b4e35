"""Differences between models and their intervals, next to a bootstrap written out by hand and to closed forms."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.runner import resampling
from frostline.runner.resampling import resample
from frostline.runner.statistics import (
    Difference,
    compare,
    compare_means,
    correlate,
    holm,
    interval,
    paired_p,
    ratio_interval,
    shares_of_ratio,
    summarise,
    summarise_correlations,
    summarise_ratio,
)
from frostline.tasks.metrics import METRICS

# The ends of a bootstrap's interval are quantiles of so many draws, and differ by chance: for a bell of width 1 the
# 2.5% quantile of 2,000 draws has a standard error of 0.06. Four of these are a fourth of the width, and tell an
# interval of 95% from one of 90%. Two bootstraps differ by the square root of 2 times that.
DRAWS = 2000
OFF = 4 * math.sqrt(0.025 * 0.975 / DRAWS) / 0.0584
OFF_FROM_ANOTHER = math.sqrt(2) * OFF


def guesses(seed, *, rows=400, right=0.8, classes=2):
    """Labels, and predictions of which about this share is right."""
    source = np.random.default_rng(seed)
    labels = source.integers(0, classes, rows)
    wrong = source.random(rows) > right
    return labels, np.where(wrong, (labels + source.integers(1, classes, rows)) % classes, labels)


def two_models(*, rows=400, classes=2):
    labels, one = guesses(0, rows=rows, right=0.85, classes=classes)
    source = np.random.default_rng(1)
    other = np.where(source.random(rows) < 0.25, source.integers(0, classes, rows), one)
    return labels, one, other


def accuracy_by_hand(labels, predictions):
    return sum(label == guess for label, guess in zip(labels, predictions, strict=True)) / len(labels)


def macro_f1_by_hand(labels, predictions):
    pairs = list(zip(labels, predictions, strict=True))
    scores = []
    for name in set(labels) | set(predictions):
        hits = sum(label == guess == name for label, guess in pairs)
        asked = sum(label == name for label, _ in pairs)
        said = sum(guess == name for _, guess in pairs)
        scores.append(2 * hits / (asked + said))
    return sum(scores) / len(scores)


def mse_by_hand(labels, predictions):
    return sum((label - guess) ** 2 for label, guess in zip(labels, predictions, strict=True)) / len(labels)


def bootstrap_by_hand(labels, one, other, metric, *, draws):
    """The 2.5% and 97.5% quantiles and the width of resampled differences, in points."""
    draw = random.Random(5)
    rows = [tuple(row) for row in zip(labels.tolist(), one.tolist(), other.tolist(), strict=True)]
    found = []
    for _ in range(draws):
        truth, first, second = zip(*draw.choices(rows, k=len(rows)), strict=True)
        found.append(100 * (metric(truth, first) - metric(truth, second)))
    found.sort()
    width = float(np.std(found))
    return found[round(0.025 * draws)], found[round(0.975 * draws) - 1], width


# Differences ---------------------------------------------------------------------------------------------------------


def test_the_difference_itself_is_exact():
    labels = [0, 1, 1, 0, 1, 0, 1, 1]
    one = [0, 1, 1, 0, 1, 0, 0, 0]  # 6 of 8
    other = [0, 1, 0, 1, 0, 0, 0, 0]  # 3 of 8
    assert compare(labels, one, other, "accuracy").value == pytest.approx(37.5)


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "matthews", "mse", "spearman"])
def test_identical_predictions_differ_by_exactly_nothing(metric):
    labels, one, _ = two_models(rows=30)
    assert compare(labels, one, one.copy(), metric) == Difference(value=0.0, low=0.0, high=0.0)


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "mse"])
def test_swapped_models_swap_signs_and_ends(metric):
    labels, one, other = two_models(rows=60)
    found = compare(labels, one, other, metric, draws=40)
    swapped = compare(labels, other, one, metric, draws=40)
    assert found.value != 0
    assert swapped.value == pytest.approx(-found.value)
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low))


def test_an_error_counts_the_other_way_round():
    labels = np.array([0.0, 1.0, 2.0, 3.0])
    near, far = labels + 0.1, labels + 0.5
    found = compare(labels, near, far, "mse", draws=200)
    assert found.value == pytest.approx(0.25 - 0.01)  # in its own units
    assert found.low > 0


def test_the_same_seed_draws_the_same_rows():
    labels, one, other = two_models(rows=200)
    assert compare(labels, one, other, "accuracy", seed=3) == compare(labels, one, other, "accuracy", seed=3)
    several = {compare(labels, one, other, "accuracy", seed=seed, draws=99).low for seed in range(5)}
    assert len(several) > 1


@pytest.mark.parametrize(
    ("metric", "by_hand", "rows", "draws"),
    [
        ("accuracy", accuracy_by_hand, 400, DRAWS),
        ("macro_f1", macro_f1_by_hand, 90, 200),
        ("mse", mse_by_hand, 90, 500),
    ],
)
def test_the_interval_is_that_of_a_bootstrap_written_out_by_hand(metric, by_hand, rows, draws):
    labels, one, other = two_models(rows=rows, classes=3)
    low, high, width = bootstrap_by_hand(labels, one, other, by_hand, draws=draws)
    found = compare(labels, one, other, metric, draws=draws)
    sign = -1 / 100 if metric == "mse" else 1  # no points, and lower is better
    low, high = sorted((sign * low, sign * high))
    width *= abs(sign)
    allowed = OFF_FROM_ANOTHER * math.sqrt(DRAWS / draws) * width
    assert found.low == pytest.approx(low, abs=allowed)
    assert found.high == pytest.approx(high, abs=allowed)
    assert found.value == pytest.approx(sign * 100 * (by_hand(labels, one) - by_hand(labels, other)))


def test_the_interval_of_many_rows_is_that_of_the_closed_form():
    labels, one, other = two_models(rows=4000)
    gains = 100 * ((one == labels).astype(float) - (other == labels))
    width = gains.std() / math.sqrt(len(labels))
    found = compare(labels, one, other, "accuracy")
    assert found.low == pytest.approx(gains.mean() - 1.96 * width, abs=OFF * width)
    assert found.high == pytest.approx(gains.mean() + 1.96 * width, abs=OFF * width)


def test_rows_are_paired_so_that_models_with_the_same_mistakes_are_told_apart():
    labels, one = guesses(0, rows=400, right=0.7)
    other = one.copy()
    other[np.flatnonzero(one == labels)[:12]] ^= 1  # 3 points worse, the other 97% of mistakes and hits in common
    found = compare(labels, one, other, "accuracy")
    assert found.value == pytest.approx(3.0)
    assert found.low > 0
    # Unpaired, the interval would be as wide as that of two independent accuracies of about 70%: past 6 points.
    assert found.high - found.low < 4


# Quick ways of metrics, next to the metrics on the drawn rows --------------------------------------------------------

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


# Rows that belong together -------------------------------------------------------------------------------------------


def repeated(times, *, rows=120):
    """Rows that each occur several times, and which rows are copies."""
    labels, one, other = two_models(rows=rows)
    groups = [f"text {row}" for row in range(rows) for _ in range(times)]
    return *(np.repeat(values, times) for values in (labels, one, other)), groups


def test_rows_of_a_group_are_drawn_together_so_that_copies_make_nothing_surer():
    labels, one, other = two_models(rows=120)
    alone = compare(labels, one, other, "accuracy")
    *copies, groups = repeated(4)
    grouped = compare(*copies, "accuracy", groups=groups)
    taken_apart = compare(*copies, "accuracy")
    assert (grouped.low, grouped.high) == pytest.approx((alone.low, alone.high))  # the same draws, four times each
    assert (grouped.high - grouped.low) / (taken_apart.high - taken_apart.low) == pytest.approx(
        2.0, rel=OFF_FROM_ANOTHER
    )


def test_groups_need_not_lie_side_by_side():
    *copies, groups = repeated(3)
    mixed = np.argsort(np.arange(len(groups)) % 3, kind="stable")  # first copies, second copies, third copies
    beside = compare(*copies, "accuracy", groups=groups, draws=300)
    apart = compare(*(values[mixed] for values in copies), "accuracy", groups=[groups[row] for row in mixed], draws=300)
    assert (apart.low, apart.high) == pytest.approx((beside.low, beside.high))


def test_the_interval_of_a_metric_is_wider_for_groups_too():
    labels, one, _, groups = repeated(4)
    low, high = interval(labels, one, "accuracy", groups=groups)
    low_apart, high_apart = interval(labels, one, "accuracy")
    assert (high - low) / (high_apart - low_apart) == pytest.approx(2.0, rel=OFF_FROM_ANOTHER)


# Intervals of one model ----------------------------------------------------------------------------------------------


def test_the_interval_covers_the_truth_about_95_times_in_100():
    right, times = 0.8, 200
    covered = 0
    for seed in range(times):
        low, high = interval(*guesses(seed, rows=200, right=right), "accuracy", draws=150, seed=seed)
        covered += low <= right <= high
    # Three standard errors of 200 tries either way; a bootstrap of 200 rows is a little too narrow.
    assert 0.95 - 0.02 - 3 * 0.0154 < covered / times < 0.95 + 3 * 0.0154


def test_the_interval_of_an_accuracy_is_that_of_the_closed_form():
    labels, one = guesses(0, rows=4000, right=0.8)
    share = (labels == one).mean()
    width = math.sqrt(share * (1 - share) / len(labels))
    low, high = interval(labels, one, "accuracy")
    assert low == pytest.approx(share - 1.96 * width, abs=OFF * width)
    assert high == pytest.approx(share + 1.96 * width, abs=OFF * width)


def test_a_difference_reads_with_its_signs():
    assert str(Difference(value=0.25, low=-1.04, high=1.5)) == "+0.2 (-1.0 to +1.5)"


# Over seeds ----------------------------------------------------------------------------------------------------------


def test_a_summary_is_scipys_t_interval():
    from scipy import stats

    values = [81.2, 79.9, 80.4, 83.0, 80.1]
    found = summarise(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (found.count, found.mean) == (5, pytest.approx(np.mean(values)))
    assert found.deviation == pytest.approx(np.std(values, ddof=1))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_one_seed_has_neither_deviation_nor_interval():
    found = summarise([80.0])
    assert (found.count, found.mean, found.deviation, found.low, found.high) == (1, 80.0, None, None, None)


def test_the_interval_of_five_seeds_holds_the_true_mean_95_times_in_100():
    source = np.random.default_rng(0)
    draws = source.normal(3.0, 2.0, size=(4000, 5))
    held = [found.low <= 3.0 <= found.high for found in map(summarise, draws)]
    assert np.mean(held) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


def test_the_p_value_of_paired_seeds_is_scipys():
    from scipy import stats

    one, other = [81.2, 79.9, 80.4, 83.0], [80.0, 80.1, 79.5, 81.1]
    assert paired_p(one, other) == pytest.approx(stats.ttest_rel(one, other).pvalue)
    assert paired_p(one, one) == 1.0
    assert paired_p([1.0], [2.0]) is None
    assert paired_p([2.0, 3.0], [1.0, 2.0]) is None  # no spread: no test


def test_holms_correction_is_the_step_down_one():
    # Worked by hand: 4 x .01, 3 x .02 = .06, 2 x .03 = .06, 1 x .04 -> not below what came before.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, None, 0.5]) == [pytest.approx(1.0), None, pytest.approx(1.0)]
    assert holm([]) == []
    assert holm([0.01, None, 0.02], count=3) == [pytest.approx(0.03), None, pytest.approx(0.04)]  # one without a test


def test_holms_correction_keeps_the_chance_of_any_false_alarm_at_5_percent():
    draws = np.random.default_rng(1).random((4000, 6))  # p-values where nothing is there
    alarms = [min(value for value in holm(list(row)) if value is not None) < 0.05 for row in draws]
    # For independent ones the chance is 1 - (1 - .05 / 6)^6.
    assert np.mean(alarms) == pytest.approx(1 - (1 - 0.05 / 6) ** 6, abs=4 * math.sqrt(0.05 * 0.95 / 4000))


@pytest.mark.parametrize("ranks", [False, True])
def test_correlations_are_scipys_and_leave_undefined_pairs_out(ranks):
    from scipy import stats

    one, other = [1.0, 2.0, 4.0, 3.0, 9.0], [1.0, 3.0, 2.0, 5.0, 7.0]
    expected = (stats.spearmanr if ranks else stats.pearsonr)(one, other)
    assert correlate([*one, None, 5.0], [*other, 1.0, None], ranks=ranks) == pytest.approx(tuple(expected))


def test_a_correlation_of_constant_or_too_few_numbers_is_undefined():
    for columns in ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([1.0, 2.0], [2.0, 1.0]):
        assert all(math.isnan(value) for value in correlate(*columns))


def test_means_over_seeds_are_compared_on_the_same_draws_of_rows():
    labels, one, other = two_models()
    both = compare_means(labels, [one, other], [other, one], "accuracy")
    assert (both.value, both.low, both.high) == pytest.approx((0.0, 0.0, 0.0))  # draw by draw they cancel
    twice = compare_means(labels, [one, one], [other, other], "accuracy")
    assert twice == compare(labels, one, other, "accuracy")


def test_a_narrower_level_gives_a_narrower_interval():
    labels, one, other = two_models()
    wide, narrow = (compare(labels, one, other, "accuracy", level=level) for level in (0.95, 0.9))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_what_pairs_add_to_a_ratio_is_the_ratio_of_means_on_average():
    ones, others = [81.0, 79.0, 83.0], [90.0, 85.0, 89.0]
    assert np.mean(shares_of_ratio(ones, others)) == pytest.approx(sum(ones) / sum(others))
    assert summarise_ratio(ones, others).mean == pytest.approx(sum(ones) / sum(others))
    assert shares_of_ratio(ones, ones) == pytest.approx([1.0, 1.0, 1.0])
    assert summarise_ratio([80.0], [100.0]).low is None


def test_the_interval_of_a_ratio_of_five_pairs_holds_the_true_one_95_times_in_100():
    source = np.random.default_rng(3)
    full = source.normal(80.0, 2.0, size=(4000, 5))
    kept = 0.9 * full + source.normal(0.0, 1.5, size=(4000, 5))  # what both share must not widen the interval
    found = [summarise_ratio(one, other) for one, other in zip(kept, full, strict=True)]
    held = [one.low <= 0.9 <= one.high for one in found]
    assert np.mean(held) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))
    # Student's t of four degrees, times the error of a mean of five.
    assert np.mean([one.high - one.mean for one in found]) == pytest.approx(2.776 * 1.5 / 80 / 5**0.5 * 0.94, rel=0.02)


def test_a_ratio_over_rows_is_that_of_a_bootstrap_by_hand():
    source = np.random.default_rng(5)
    labels = source.integers(0, 2, 300)
    ones, others = (
        [np.where(source.random(300) < wrong, 1 - labels, labels) for _ in range(2)] for wrong in (0.3, 0.1)
    )
    low, high = ratio_interval(labels, ones, others, "accuracy", draws=DRAWS)
    drawn = []
    for _ in range(DRAWS):
        rows = source.integers(0, 300, 300)
        above, below = (np.mean([np.mean(one[rows] == labels[rows]) for one in side]) for side in (ones, others))
        drawn.append(above / below)
    width = np.std(drawn)
    assert (low, high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=OFF_FROM_ANOTHER * width)


def test_a_ratio_to_nothing_has_no_interval():
    labels = [0, 1] * 20
    assert ratio_interval(labels, [labels], [[0] * 40], "matthews", draws=50) is None


def test_correlations_are_averaged_on_the_z_scale():
    found = summarise_correlations([0.2, 0.9])
    middle = (math.atanh(0.2) + math.atanh(0.9)) / 2
    half = 12.7062 * abs(math.atanh(0.9) - math.atanh(0.2)) / 2
    assert found.mean == pytest.approx(math.tanh(middle))
    assert (found.low, found.high) == (pytest.approx(math.tanh(middle - half)), pytest.approx(math.tanh(middle + half)))
    assert summarise_correlations([]) is None
    assert summarise_correlations([1.0, 1.0]).mean == pytest.approx(1.0)


def test_what_rounding_leaves_does_not_put_an_interval_on_one_side_of_zero():
    """Thirds of a point up and down: in floating point they do not add up to nothing."""
    labels = [0, 1] * 30
    ones = [[label if place % 10 else 1 - label for place, label in enumerate(labels)]] * 3
    others = [[label if (place + 1) % 10 else 1 - label for place, label in enumerate(labels)]] * 3
    found = compare_means(labels, ones, others, "accuracy", draws=400)
    assert found.low == round(found.low, 9)
    assert found.high == round(found.high, 9)
    assert found.low <= 0 <= found.high
