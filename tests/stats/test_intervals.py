"""Differences between models and their intervals, next to a bootstrap written out by hand and to closed forms."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from frostline.records.difference import Difference
from frostline.stats.intervals import (
    compare,
    compare_means,
    correlate,
    differences,
    holm,
    interval,
    paired_p,
    ratio_interval,
    shares_of_ratio,
    summarise,
    summarise_correlations,
    summarise_ratio,
)

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

    one = [1.0, 2.0, 4.0, 3.0, 9.0, 8.0, 7.0, 11.0, 10.0]
    other = [1.0, 3.0, 2.0, 5.0, 7.0, 4.0, 9.0, 8.0, 12.0]
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


def test_differences_of_equal_values_are_nothing_without_a_sign():
    """0.1 + 0.2 is not 0.3 in floating point."""
    found = differences([0.1 + 0.2, 75.0, 1.0], [0.3, 75.0 + 1e-13, 3.0])
    assert found == [0.0, 0.0, -2.0]
    assert [math.copysign(1, gap) for gap in found] == [1, 1, -1]
