from __future__ import annotations

import math

import numpy as np
import pytest

from frostline.errors import OptionError
from frostline.tasks import METRICS, Split, choose_metrics

LABELS = [0, 0, 0, 1, 1, 1, 1, 0]
GUESSES = [0, 1, 0, 1, 0, 1, 1, 0]  # true positives 3, false positives 1, false negatives 1, true negatives 3


def split(*labels: float) -> Split:
    return Split(texts=tuple(f"t{i}" for i in range(len(labels))), labels=labels, rows=tuple(range(1, len(labels) + 1)))


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("accuracy", 6 / 8),
        ("f1", 2 * 3 / (2 * 3 + 1 + 1)),
        ("f1a", 2 * 3 / (2 * 3 + 1 + 1)),
        ("macro_f1", (3 / 4 + 3 / 4) / 2),
        ("matthews", (3 * 3 - 1 * 1) / math.sqrt(4 * 4 * 4 * 4)),
    ],
)
def test_classification_metrics_equal_the_formula_by_hand(name: str, by_hand: float):
    assert METRICS[name](LABELS, GUESSES) == pytest.approx(by_hand)


def test_f1_counts_the_second_class_as_positive():
    assert METRICS["f1"]([1, 0, 0, 0], [1, 1, 0, 0]) == pytest.approx(2 / 3)
    assert METRICS["f1"]([0, 1, 1, 1], [0, 0, 1, 1]) == pytest.approx(4 / 5)


def test_macro_f1_gives_a_class_never_predicted_zero():
    assert METRICS["macro_f1"]([0, 0, 1, 2], [0, 0, 1, 1]) == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_regression_metrics_equal_the_formula_by_hand():
    truth, guess = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0]
    assert METRICS["spearman"](truth, guess) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert METRICS["pearson"](truth, guess) == pytest.approx(0.8)
    assert METRICS["mse"](truth, guess) == pytest.approx(0.5)
    assert METRICS["r2"](truth, guess) == pytest.approx(1 - 2 / 5)


def test_correlations_tell_ranks_from_values():
    truth, guess = [1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0]
    assert METRICS["spearman"](truth, guess) == pytest.approx(1)
    assert METRICS["pearson"](truth, guess) == pytest.approx(float(np.corrcoef(truth, guess)[0, 1]))
    assert METRICS["pearson"](truth, guess) < 0.9


@pytest.mark.parametrize("name", METRICS.names())
@pytest.mark.parametrize("guess", [0, 1])
def test_constant_predictions_never_give_nan(name: str, guess: int):
    assert math.isfinite(METRICS[name]([0, 1, 1, 0], [guess] * 4))
    assert math.isfinite(METRICS[name]([guess] * 4, [guess] * 4))
    assert math.isfinite(METRICS[name]([1], [guess]))


@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
def test_constant_predictions_correlate_with_nothing(name: str):
    assert METRICS[name]([0, 1, 1, 0], [1, 1, 1, 1]) == 0.0


@pytest.mark.parametrize("name", METRICS.names())
def test_perfect_predictions_are_best(name: str):
    perfect, flawed = METRICS[name]([0, 1, 1, 0], [0, 1, 1, 0]), METRICS[name]([0, 1, 1, 0], [0, 1, 0, 0])
    assert perfect > flawed if METRICS[name].higher_is_better else perfect < flawed


@pytest.mark.parametrize("name", METRICS.names())
def test_predictions_that_are_not_finite_are_an_error(name: str):
    with pytest.raises(ValueError, match="not finite"):
        METRICS[name]([0.0, 1.0], [0.0, math.nan])


@pytest.mark.parametrize(("labels", "predictions"), [([0, 1], [0]), ([], []), ([[0], [1]], [[0], [1]])])
def test_columns_that_do_not_fit_are_an_error(labels: list[float], predictions: list[float]):
    with pytest.raises(ValueError, match="two equal, non-empty columns"):
        METRICS["accuracy"](labels, predictions)


@pytest.mark.parametrize("name", METRICS.names())
def test_every_metric_says_what_it_is_in_one_sentence(name: str):
    assert METRICS[name].summary.endswith(".")
    assert METRICS[name].name == name


def test_a_difference_is_said_in_points_or_in_units_of_its_own():
    assert METRICS["f1"].describe_difference("-0.2 (-1.0 to +0.5)", "test") == "-0.2 (-1.0 to +0.5) points of test f1"
    assert METRICS["r2"].describe_difference(1.5) == "1.5 points of r2"
    assert METRICS["mse"].describe_difference("+0.01", "validation") == "+0.01 of validation mse (+ is better)"


def test_the_default_is_accuracy_up_to_three_to_one():
    assert choose_metrics("classification", split(0, 0, 0, 1), n_classes=2) == ("accuracy",)


def test_the_default_is_macro_f1_beyond_three_to_one():
    assert choose_metrics("classification", split(0, 0, 0, 0, 1), n_classes=2) == ("macro_f1", "accuracy")


def test_the_default_for_regression_is_spearman_with_pearson():
    assert choose_metrics("regression", split(0.1, 2.0), n_classes=0) == ("spearman", "pearson")


def test_positions_of_right_choices_do_not_make_a_task_imbalanced():
    assert choose_metrics("multiple choice", split(0, 0, 0, 0, 1), n_classes=2) == ("accuracy",)


def test_the_metric_asked_for_comes_first_and_the_default_stays():
    assert choose_metrics("classification", split(0, 1), n_classes=2, asked="f1") == ("f1", "accuracy")


def test_a_metric_of_another_kind_is_refused_with_those_that_fit():
    with pytest.raises(OptionError, match=r"'f1' does not fit regression; these do: spearman, pearson, r2, mse"):
        choose_metrics("regression", split(0.1, 2.0), n_classes=0, asked="f1")
