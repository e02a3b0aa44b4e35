"""The statistics of `bench/criteria.py`, against direct computations and on made-up sweeps whose answer is known."""

import importlib
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

BENCH = Path(__file__).parents[1] / "bench"
LAYERS = [(1,), (2,), (3,), (4,), (5,), (6,), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (4, 5, 6), (2, 3, 4, 5), (1, 4)]


@pytest.fixture(scope="module")
def bench():
    """The modules of the bench, which import each other by their bare names."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCH))
    try:
        modules = {name: importlib.import_module(name) for name in ("sweep", "ranks", "criteria")}
        yield Namespace(**modules)
    finally:
        sys.path.remove(str(BENCH))
        for name in set(sys.modules) - before:
            if str(BENCH) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


@pytest.fixture
def numbers():
    return np.random.default_rng(0)


def by_regression(first, second, columns):
    """The partial correlation from the t-statistic of one rank in a regression of the other."""
    ranks, target = rankdata(first), rankdata(second)
    design = np.column_stack([np.ones(len(target)), columns, ranks])
    inverse = np.linalg.inv(design.T @ design)
    weights = inverse @ design.T @ target
    freedom = len(target) - design.shape[1]
    errors = target - design @ weights
    t = weights[-1] / np.sqrt(errors @ errors / freedom * inverse[-1, -1])
    return t / np.sqrt(t**2 + freedom)


@pytest.mark.parametrize("wide", [False, True])
def test_a_partial_correlation_is_that_of_a_regression_of_ranks(bench, numbers, wide):
    first, second = numbers.normal(size=(2, len(LAYERS))).round(1)
    centre, number = (rankdata([value(own) for own in LAYERS]) for value in (np.mean, len))
    columns = [centre, centre**2, number, *([number**2, number * centre] if wide else [])]

    value = bench.ranks.partial_correlation(first, second, bench.ranks.depth_columns(LAYERS, wide=wide))

    assert value == pytest.approx(by_regression(first, second, np.column_stack(columns)), abs=1e-9)


def test_without_columns_it_is_spearmans_correlation(bench, numbers):
    first, second = numbers.normal(size=(2, 20)).round(1)

    value = bench.ranks.partial_correlation(first, second, np.empty((20, 0)))

    assert value == pytest.approx(spearmanr(first, second).statistic)


def test_what_depth_explains_has_no_partial_correlation(bench, numbers):
    truth = numbers.normal(size=len(LAYERS))
    columns = bench.ranks.depth_columns(LAYERS)

    assert np.isnan(bench.ranks.partial_correlation([len(own) for own in LAYERS], truth, columns))
    assert np.isnan(bench.ranks.partial_correlation(np.ones(len(LAYERS)), truth, columns))


@pytest.mark.parametrize("rows", [200, 2_000])
def test_the_ceiling_is_the_correlation_that_the_truth_itself_reaches(bench, numbers, rows):
    layers = LAYERS * 3
    columns = bench.ranks.depth_columns(layers)
    ceilings, reached = [], []
    for seed in range(100):
        worth = 0.7 + 0.03 * numbers.normal(size=len(layers))
        is_right = (numbers.random((len(layers), rows)) < worth[:, None]).astype(float)
        ceilings.append(bench.ranks.ceiling(is_right, columns, halvings=5, seed=seed))
        reached.append(bench.ranks.partial_correlation(worth, is_right.mean(axis=1), columns))

    assert np.mean(ceilings) == pytest.approx(np.mean(reached), abs=0.025)


def test_the_ceiling_is_low_where_all_plans_are_worth_the_same(bench, numbers):
    columns = bench.ranks.depth_columns(LAYERS)
    ceilings = [bench.ranks.ceiling((numbers.random((14, 500)) < 0.7).astype(float), columns) for _ in range(30)]

    assert np.mean(np.square(ceilings)) < 0.3  # it cannot be negative, so that its mean is above 0
    assert bench.ranks.ceiling(np.ones((14, 500)), columns) == 0


DEPTH, ROWS = 6, 4_000


def made_up(bench, numbers, worth, case="made up"):
    """A sweep in which each plan has this accuracy, and the criteria: its worth by plan, and layer scores."""
    labels = numbers.integers(0, 3, ROWS)
    plans = bench.sweep.grid(DEPTH)
    sweep = []
    for plan in plans:
        is_right = numbers.random(ROWS) < worth(plan)
        test = np.where(is_right, labels, (labels + 1) % 3)
        for factor in bench.sweep.FACTORS:
            better = factor == 2
            sweep.append({
                "case": case, "plan": bench.sweep.plan_name(plan), "factor": factor, "status": "done", "seconds": 10.0,
                "metrics": {"validation": worth(plan) - (0 if better else 0.1)},
                "history": [[40, round(worth(plan), 4), 1.0], [80, 0.9, 0.5]],
                "predictions": {"test": bench.sweep.encode(test if better else np.zeros(ROWS))},
            })  # fmt: skip
    scores = [None, 1, 4, 2, 8, 5, 7]
    recorded = [
        {"criterion": bench.criteria.PASS, "depth": DEPTH, "labels": bench.sweep.encode(labels), "seconds": 5.0},
        {"criterion": "low", "better": "low", "layers": scores, "seconds": 10.0},
        {"criterion": "truth", "better": "high", "seconds": 20.0,
         "plans": {bench.sweep.plan_name(plan): worth(plan) for plan in plans}},
        {"criterion": "failed", "reason": "too few rows", "seconds": 0.1},
    ]  # fmt: skip
    return sweep, [{"case": case, **line} for line in recorded]


@pytest.fixture
def case(bench, numbers):
    worths = {bench.sweep.plan_name(plan): numbers.uniform(0.5, 0.9) for plan in bench.sweep.grid(DEPTH)}
    return made_up(bench, numbers, lambda plan: worths[bench.sweep.plan_name(plan)])


def test_only_plans_tuned_in_full_below_a_head_at_the_top_are_ranked(bench, case):
    plans = bench.criteria.Case(*case).plans

    assert {"(1, 6, 6) full", "(1, 1, 6)", "(3, 4, 6)", "(1, 3, 6)"} < plans.keys()
    assert not {"(1, 6, 6) lora", "head only at 6", "(1, 3, 3)"} & plans.keys()


def test_the_truth_is_the_test_accuracy_of_the_rate_that_is_best_on_validation(bench, case):
    own = bench.criteria.Case(*case)
    worths = own.criteria()["truth"].values

    assert own.is_right.mean(axis=1) == pytest.approx(worths, abs=0.03)
    columns = bench.ranks.depth_columns(own.layers)
    assert own.correlation(worths, columns) > 0.97
    assert bench.ranks.ceiling(own.is_right, columns) > 0.97


def test_a_layer_score_is_averaged_over_tuned_layers_and_turned_so_that_more_is_better(bench, case):
    own = bench.criteria.Case(*case)
    values = dict(zip(own.plans, own.criteria()["low"].values, strict=True))

    assert values["(3, 4, 6)"] == -5
    assert values["(1, 6, 6) full"] == -4.5
    assert "failed" not in own.criteria()


def test_rivals_that_train_cost_their_share_of_the_trials(bench, case):
    criteria = bench.criteria.Case(*case).criteria()
    plans = len(criteria["truth"].values)

    assert criteria["validation accuracy after 40 steps"].values == pytest.approx(criteria["truth"].values, abs=1e-4)
    assert criteria["validation accuracy after 40 steps"].seconds == pytest.approx(5 * plans)
    assert criteria["validation accuracy once tuned"].seconds == pytest.approx(30 * plans)


def test_a_plan_without_all_rates_is_missing(bench, case):
    sweep, recorded = case
    shorter = [line for line in sweep if (line["plan"], line["factor"]) != ("(3, 4, 6)", 0.5)]

    own = bench.criteria.Case(shorter, recorded)

    assert own.missing == ["(3, 4, 6)"]
    assert "(3, 4, 6)" not in own.plans


def test_the_report_averages_the_cases_of_a_source_first(bench, numbers, capsys):
    worths = {bench.sweep.plan_name(plan): numbers.uniform(0.5, 0.9) for plan in bench.sweep.grid(DEPTH)}
    names = ("one", "one@other", "two")
    cases = {name: bench.criteria.Case(*made_up(bench, numbers, lambda plan: worths[bench.sweep.plan_name(plan)]))
             for name in names}  # fmt: skip

    figures = bench.criteria.report(cases)

    own = {name: case.correlation(case.criteria()["low"].values, bench.ranks.depth_columns(case.layers))
           for name, case in cases.items()}  # fmt: skip
    assert figures["low_given_depth"] == pytest.approx(((own["one"] + own["one@other"]) / 2 + own["two"]) / 2, abs=1e-3)
    assert figures["low_passes"] == 2
    assert figures["truth_given_depth"] > 0.97
    assert "number_of_layers_given_depth" not in figures
    assert capsys.readouterr().out.startswith("| criterion | plain |")


def test_what_is_the_same_on_all_sets_does_not_add_to_the_other_sets(bench, numbers):
    names = {bench.sweep.plan_name(plan): number for number, plan in enumerate(bench.sweep.grid(DEPTH))}
    common = numbers.uniform(0.5, 0.8, len(names))  # nothing that depth explains
    cases = {}
    for case in ("one", "two", "three", "four", "five", "six"):
        special = numbers.uniform(0, 0.1, len(names))
        worths = dict(zip(names, common + special, strict=True))
        sweep, recorded = made_up(bench, numbers, lambda plan, own=worths: own[bench.sweep.plan_name(plan)], case)
        for name, values in (("common", common), ("special", special)):
            plans = {plan: values[number] + numbers.normal(0, 0.005) for plan, number in names.items()}
            recorded.append({"criterion": name, "better": "high", "plans": plans, "seconds": 1.0})
        cases[case] = bench.criteria.Case(sweep, recorded)

    figures = bench.criteria.report(cases)

    assert figures["common_given_depth"] > 0.8
    assert abs(figures["common_given_depth_and_other_sets"]) < 0.3
    assert figures["special_given_depth_and_other_sets"] > 0.6
