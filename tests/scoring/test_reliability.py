"""Smoothness and agreement equal their formulas, and are absent where they mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from frostline.scoring.reliability import agreement, agreements, smoothness
from frostline.scoring.scores import LAYER_SCORES


def test_smoothness_is_the_sum_of_squared_second_differences():
    values = [9.9, 3.0, 1.0, 4.0, 1.5, 5.0]
    curve = np.array(values[1:])
    curve = (curve - curve.mean()) / curve.std()
    expected = sum((curve[i + 2] - 2 * curve[i + 1] + curve[i]) ** 2 for i in range(3))
    found = smoothness(values)
    assert found is not None
    assert found.zeta == pytest.approx(expected)
    assert found.per_layer == pytest.approx(expected / 3)


def test_a_straight_line_is_perfectly_smooth_and_a_zigzag_is_not():
    line, zigzag = smoothness([0.0, 1.0, 2.0, 3.0, 4.0]), smoothness([0.0, 1.0, 3.0, 1.0, 3.0])
    assert line is not None
    assert zigzag is not None
    assert line.zeta == pytest.approx(0, abs=1e-12)
    assert zigzag.zeta > 30


def test_scale_and_offset_do_not_change_smoothness():
    values = [1.0, 5.0, 2.0, 8.0]
    one, two = smoothness(values), smoothness([10 * value - 3 for value in values])
    assert one is not None
    assert two is not None
    assert one.zeta == pytest.approx(two.zeta)


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [1.0, 2.0, None, 3.0, 4.0], [0.0, 2.0, 2.0, 2.0]])
def test_there_is_no_smoothness_below_three_layers_with_gaps_or_without_variation(values):
    assert smoothness(values) is None


def test_agreement_equals_scipys_numbers():
    random = np.random.default_rng(0)
    x, y = random.normal(size=12), random.normal(size=12)
    found = agreement("a", [0.0, *x], "probe.linear", [0.0, *y])
    assert found is not None
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic)
    assert found.pearson_p == pytest.approx(stats.pearsonr(x, y).pvalue)
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.slope == pytest.approx(np.polyfit(x, y, 1)[0])
    assert found.r_squared == pytest.approx(found.pearson**2)
    assert found.layers == 12


def test_undefined_layers_are_left_out_and_two_are_too_few():
    assert agreement("a", [0, None, 1, 2, 4], "p", [0, 9, 1, 2, 3]).layers == 3
    assert agreement("a", [0, None, 1, 2], "p", [0, 9, 1, 2]) is None
    assert agreement("a", [0, 1, 1, 1], "p", [0, 9, 1, 2]) is None


def test_every_score_is_compared_with_every_probe_but_itself():
    values = {"variability": [0, 1, 2, 3], "probe.linear": [0, 3, 2, 2], "probe.head": [0, 3, 1, 2]}
    pairs = {(one.score, one.probe) for one in agreements(values, ["probe.linear", "probe.head"])}
    assert pairs == {
        ("variability", "probe.linear"),
        ("variability", "probe.head"),
        ("probe.linear", "probe.head"),
        ("probe.head", "probe.linear"),
    }


def test_probes_are_those_scores_that_say_so():
    probes = {name for name, score in LAYER_SCORES.items() if score.is_probe}
    assert probes == {"probe.head", "probe.linear", "probe.linear.paper", "probe.pooler"}
