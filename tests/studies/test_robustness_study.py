"""Variability under imbalance and scarcity: what is drawn, what is computed, and what the table makes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tests.search.race_tools import write_rows
from tests.studies.study_tools import Nothing, run_quickly

from frostline.api._measure import measure
from frostline.encoders.loading import load_encoder
from frostline.errors import MeasureError, OptionError
from frostline.scoring.probes.holdout import probe_rows
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores.variability import variability
from frostline.states.pooled import pooled_states
from frostline.studies import STUDIES
from frostline.studies.robustness import count_available, draw_rows, imbalanced_settings, scarce_settings
from frostline.studies.robustness.figures import IMBALANCE, SCARCITY
from frostline.studies.robustness.tables import compare_curves
from frostline.tasks import load_task


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    return run_quickly("robustness", tmp_path_factory.mktemp("robustness"), rows=300, seeds=3)


@pytest.fixture(scope="module")
def task(studied):
    return load_task(str(studied.folder.parent / "letters.csv"))


def the_point(studied, arm, seed):
    (point,) = [point for point in studied.points if (point["arm"], point["seed"]) == (arm, seed)]
    return point


def curve(studied, arm, seed, setting, variant="variability, mean"):
    return np.array(the_point(studied, arm, seed).result.values["curves"][setting][variant], float)


def row_of(studied, **wanted):
    (row,) = [row for row in studied.tables[0].records() if wanted.items() <= row.items()]
    return row


def test_two_classes_have_the_papers_shares_at_one_number_of_rows():
    settings = imbalanced_settings([400, 300], 10_000)
    assert list(settings) == ["share 0.5", "share 0.25", "share 0.1", "share 0.05"]
    assert list(settings.values()) == [[210, 210], [315, 105], [378, 42], [399, 21]]


def test_three_classes_have_the_papers_sizes():
    counts = list(imbalanced_settings([50_000] * 3, 30_000).values())
    assert counts == [[10_000] * 3, [6_000, 12_000, 12_000], [18_000, 6_000, 6_000], [24_000, 3_000, 3_000]]


@pytest.mark.parametrize("sizes", [[41, 37], [1000, 23], [30, 31, 77], [19, 500, 44, 90]])
def test_no_class_is_asked_for_more_rows_than_it_has_and_all_settings_are_equally_large(sizes):
    settings = list(imbalanced_settings(sizes, 10_000).values())
    assert settings
    assert len({sum(counts) for counts in settings}) == 1
    for counts in settings:
        assert all(count <= size for count, size in zip(counts, sizes, strict=True)), counts
    assert len(set(settings[0])) == 1


def test_scarce_rows_are_equal_classes_from_the_largest_number_down_as_far_as_the_data_go():
    settings = scarce_settings([500, 90], [40, 5_000, 1_000, 100])
    assert settings == {"180 rows": [90, 90], "100 rows": [50, 50], "40 rows": [20, 20]}
    assert list(settings) == ["180 rows", "100 rows", "40 rows"]


def test_a_limit_of_rows_holds_for_all_classes_together(task):
    have = count_available(task, 100)
    assert sum(have) <= 100
    whole = Counter(task.train.labels)
    assert have == tuple(100 * whole[number] // len(task.train) for number in (0, 1))
    assert count_available(task, None) == (whole[0], whole[1])


def test_draws_have_the_wanted_classes_differ_by_seed_and_hold_smaller_ones(task):
    few, many = (draw_rows(task.train, counts, seed=3) for counts in ((5, 20), (9, 40)))
    assert Counter(task.train.labels[row] for row in few) == {0: 5, 1: 20}
    assert set(few) < set(many)
    assert few != draw_rows(task.train, (5, 20), seed=4)


def test_the_curves_are_the_variability_of_the_drawn_rows(studied, task):
    encoder = load_encoder(str(studied.folder.parent / "tiny"))
    point = the_point(studied, IMBALANCE, 2)
    rows = task.train.take(draw_rows(task.train, point.spec.options["settings"]["share 0.1"], seed=2))
    states = pooled_states(encoder, encoder.tokenize(rows.texts), poolings=["mean", "first"])
    for pooling, found in states.items():
        expected = variability(found, torch.tensor(rows.labels)).numpy()
        # The pass over the pool has other batches, hence other rounding.
        ours = curve(studied, IMBALANCE, 2, "share 0.1", f"variability, {pooling}")
        np.testing.assert_allclose(ours, expected, rtol=1e-3)


def test_two_classes_follow_the_closed_form(studied, task):
    encoder = load_encoder(str(studied.folder.parent / "tiny"))
    setting, counts = list(the_point(studied, SCARCITY, 0).spec.options["settings"].items())[-1]
    rows = task.train.take(draw_rows(task.train, counts, seed=0))
    states = pooled_states(encoder, encoder.tokenize(rows.texts))["mean"].double().numpy()
    labels = np.array(rows.labels)
    for layer in (1, 4):
        no, yes = (states[layer][labels == label] for label in (0, 1))
        d = yes.mean(0) - no.mean(0)
        within = (np.cov(no.T, bias=True) + np.cov(yes.T, bias=True)) / 2
        assert curve(studied, SCARCITY, 0, setting)[layer] == pytest.approx(2 * d @ within @ d / (d @ d) ** 2, rel=1e-3)


def test_the_formula_of_neural_collapse_is_the_same_on_equal_classes_only(studied):
    for name in ("mean", "first"):
        equal, other = (
            curve(studied, IMBALANCE, 0, "share 0.5", f"{score}, {name}")
            for score in ("variability", "variability.collapse")
        )
        np.testing.assert_allclose(equal, other, rtol=1e-9)
    assert not np.allclose(
        curve(studied, IMBALANCE, 0, "share 0.1"),
        curve(studied, IMBALANCE, 0, "share 0.1", "variability.collapse, mean"),
        rtol=0.01,
    )


def test_the_table_compares_every_draw_with_the_mean_reference(studied):
    row = row_of(studied, kind=IMBALANCE, setting="share 0.1", score="variability", states="mean")
    drawn = [curve(studied, IMBALANCE, seed, "share 0.1")[1:] for seed in range(3)]
    reference = np.mean([curve(studied, IMBALANCE, seed, "share 0.5") for seed in range(3)], 0)[1:]
    zetas = [np.sum(np.diff((one - one.mean()) / one.std(), 2) ** 2) for one in drawn]
    assert (row["draws"], row["is_reference"]) == (3, False)
    assert row["zeta"] == pytest.approx(np.mean(zetas), rel=1e-4)
    assert row["zeta_per_layer"] == pytest.approx(np.mean(zetas) / 2, rel=1e-4)
    low, high = stats.t.interval(0.95, 2, np.mean(zetas), stats.sem(zetas))
    low = max(0.0, low)  # as far as zeta can go
    assert (row["zeta_low"], row["zeta_high"]) == (pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4))
    assert row["spearman"] == pytest.approx(np.mean([stats.spearmanr(one, reference).statistic for one in drawn]))
    assert row["pearson"] == pytest.approx(np.mean([np.corrcoef(one, reference)[0, 1] for one in drawn]), rel=1e-4)
    assert row["log_ratio"] == pytest.approx(np.mean([np.abs(np.log(one / reference)) for one in drawn]), rel=1e-4)
    best = [int(one.argmin()) + 1 for one in drawn]
    gaps = [abs(layer - 1 - int(reference.argmin())) for layer in best]
    assert (row["best_layer"], row["distance"]) == (pytest.approx(np.mean(best)), pytest.approx(np.mean(gaps)))
    assert row["within_one"] == pytest.approx(np.mean([gap <= 1 for gap in gaps]), rel=1e-5)


def test_the_probe_is_the_papers_fitted_on_the_reference_rows_and_judged_on_the_test_rows(studied, task):
    encoder = load_encoder(str(studied.folder.parent / "tiny"))
    point = the_point(studied, SCARCITY, 1)
    assert (point.spec.options["probe"], point.spec.options["choose_on"]) == ("head", "inner")
    chosen = draw_rows(task.train, next(iter(point.spec.options["settings"].values())), seed=1)
    recipe = {"epochs": 20, "batch": 8, "schedule": "linear", "warmup": 0.06, "dropout": 0.1, "learning_rate": 1e-3}
    for pooling in ("mean", "first"):
        found = measure(encoder, replace(task, train=task.train.take(chosen)), scores=["probe.head"], seed=1,
                        pooling=pooling, judged_on="test", chosen_on="validation", options={"probe.head": recipe},
                        uncertainty=False, similarity=False)  # fmt: skip
        assert point.result.values["probes"][pooling] == pytest.approx(list(found["probe.head"].values), abs=1e-6)


def test_under_the_papers_protocol_the_probe_is_chosen_on_the_rows_that_it_is_judged_on(tmp_path):
    found = run_quickly("robustness", tmp_path, rows=300, seeds=1, protocol="paper", executor=Nothing)
    assert {point.spec.options["choose_on"] for point in found.points} == {"held-out"}


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linear")
    return run_quickly("robustness", folder, rows=300, seeds=2, options={"probe": "linear"})


def test_the_linear_probe_has_the_trials_of_before(linear, studied):
    point = the_point(linear, SCARCITY, 1)
    assert set(point.spec.options) == {"settings", "states"}
    assert point.spec.id != the_point(studied, SCARCITY, 1).spec.id
    with pytest.raises(OptionError, match="probe 'tree' must be one of head, linear"):
        run_quickly("robustness", linear.folder.parent / "other", options={"probe": "tree"})


def test_it_is_a_logistic_regression_on_the_reference_rows_of_the_draw(linear):
    task = load_task(str(linear.folder.parent / "letters.csv"))
    encoder = load_encoder(str(linear.folder.parent / "tiny"))
    point = the_point(linear, SCARCITY, 1)
    rows = task.train.take(draw_rows(task.train, next(iter(point.spec.options["settings"].values())), seed=1))
    states = pooled_states(encoder, encoder.tokenize(rows.texts), poolings=["mean", "first"])
    labels = torch.tensor(rows.labels)
    for pooling, found in states.items():
        evidence = Evidence(states={pooling: found}, labels=labels, groups=torch.arange(len(rows)), pooling=pooling,
                            kind="classification", metric="accuracy", seed=1)  # fmt: skip
        parts = probe_rows(evidence)
        fit, held = parts.training.rows, parts.held.rows
        for layer in (1, 4):
            scaled = StandardScaler().fit(found[layer][fit])
            probe = LogisticRegression(tol=1e-8, max_iter=5000).fit(scaled.transform(found[layer][fit]), labels[fit])
            right = (probe.predict(scaled.transform(found[layer][held])) == labels[held].numpy()).mean()
            assert point.result.values["probes"][pooling][layer] == pytest.approx(right, abs=1e-6)


def test_the_correlation_with_the_probe_is_over_layers_and_averaged_over_draws(studied):
    row = row_of(studied, kind=IMBALANCE, setting="share 0.1", score="variability", states="mean")
    probes = [the_point(studied, IMBALANCE, seed).result.values["probes"]["mean"] for seed in range(3)]
    found = [
        np.corrcoef(curve(studied, IMBALANCE, seed, "share 0.1")[1:], probe[1:])[0, 1]
        for seed, probe in enumerate(probes)
        if np.std(probe[1:])
    ]
    assert row["probe_pearson"] == pytest.approx(np.mean(found), rel=1e-4)


def test_draws_from_before_the_probe_was_recorded_have_no_correlation_with_it(studied):
    points = [
        replace(point, result=replace(point.result, values={"curves": point.result.values["curves"]}))
        for point in studied.points
    ]
    first = STUDIES["robustness"].tables(None, points)[0]  # the points say it all
    assert {row["probe_pearson"] for row in first.records()} == {None}
    assert {row["zeta"] for row in first.records()} == {row["zeta"] for row in studied.tables[0].records()}


def test_the_reference_of_scarce_rows_is_the_largest_number(studied):
    rows = [row for row in studied.tables[0].records() if row["kind"] == SCARCITY]
    assert {row["rows"] for row in rows if row["is_reference"]} == {max(row["rows"] for row in rows)}
    assert len({row["rows"] for row in rows}) == 3


def test_draws_with_undefined_layers_are_left_out_of_comparisons():
    assert compare_curves([None, 2.0, 1.0, 3.0], [None, 2.0, 1.0, 3.0])["log_ratio"] == 0
    shallow = compare_curves([None, 2.0, 1.0], [None, 1.0, 2.0])
    assert (shallow["zeta"], shallow["spearman"], shallow["distance"]) == (None, None, 1)


def test_curves_of_a_draw_do_not_depend_on_what_ran_before(studied, tmp_path):
    alone = run_quickly("robustness", tmp_path, rows=300, seeds=1)
    for arm in (IMBALANCE, SCARCITY):
        assert the_point(alone, arm, 0).result.values == the_point(studied, arm, 0).result.values


@pytest.mark.parametrize("sizes", ["", "many", "100,3"])
def test_sizes_that_are_none_are_refused(tmp_path, sizes):
    with pytest.raises(OptionError, match="option sizes"):
        run_quickly("robustness", tmp_path, options={"sizes": sizes})


def test_values_to_predict_have_no_classes(tmp_path):
    data = write_rows(tmp_path / "numbers.csv", kind="regression")
    with pytest.raises(MeasureError, match="needs classes"):
        run_quickly("robustness", tmp_path, tasks=[str(data)])
