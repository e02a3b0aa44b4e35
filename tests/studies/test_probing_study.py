"""Scores next to probes: the curves are those of `measure`, and the tables count them right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.studies.study_tools import Nothing, run_quickly, spearman_of_all_orders

from frostline.api._measure import measure
from frostline.api._study import QUICK_ROWS
from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError
from frostline.records import Recipe
from frostline.studies import STUDIES, Ask
from frostline.studies._tables import best_layer, mean_curve
from frostline.studies.probing.figures import HELD_OUT, PRETRAINED, TUNED
from frostline.studies.probing.tables import agreement_over_layers
from frostline.tasks import load_task
from frostline.training.execution import Settings, execute
from frostline.training.shared_inputs import SharedInputs

# Fast enough for the tuned encoder to be quite another one.
FAST = {"epochs": 1, "batch": 16, "learning_rate": 3e-3}
SCORES = ["variability", "rank", "probe.linear", "probe.head"]


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """There are more rows than a quick study takes, so that it matters which ones are drawn."""
    folder = tmp_path_factory.mktemp("probing")
    return run_quickly("probing", folder, rows=700, options={"scores": ",".join(SCORES)}, recipe=FAST)


@pytest.fixture(scope="module")
def task(studied):
    found = load_task(str(studied.folder.parent / "letters.csv"))
    assert len(found.train) > QUICK_ROWS
    return found


@pytest.fixture(scope="module")
def encoder(studied):
    return load_encoder(str(studied.folder.parent / "tiny"))


def the_point(studied, arm, seed):
    (point,) = [point for point in studied.points if (point["arm"], point["seed"]) == (arm, seed)]
    return point


def curves(studied, arm, seed):
    return the_point(studied, arm, seed).result.values["curves"]


def table(studied, name):
    return next(table for table in studied.tables if table.name == name).records()


def measured(encoder, task, *, rows, seed):
    found = measure(encoder, task, scores=SCORES, rows=rows, uncertainty=False, similarity=False, seed=seed)
    return {name: list(score.values) for name, score in found.scores.items()}


def assert_equal_curves(ours, theirs):
    assert list(ours) == list(theirs) == SCORES
    for name in theirs:
        np.testing.assert_allclose(np.array(ours[name], float), np.array(theirs[name], float), rtol=1e-6, err_msg=name)


def test_there_is_a_trial_for_every_arm_and_seed(studied):
    assert [(point["seed"], point["arm"]) for point in studied.points] == [
        (seed, arm) for seed in (0, 1) for arm in (PRETRAINED, HELD_OUT, TUNED)
    ]


def test_the_pretrained_encoder_is_measured_on_the_training_rows_that_tuning_learns_from(studied, encoder, task):
    chosen = SharedInputs(encoder, task, keep=False).some_rows(QUICK_ROWS, seed=1)
    fewer = replace(task, train=task.train.take(chosen))
    assert_equal_curves(curves(studied, PRETRAINED, 1), measured(encoder, fewer, rows="train", seed=1))


def test_it_is_measured_on_the_held_out_rows_too(studied, encoder, task):
    assert_equal_curves(curves(studied, HELD_OUT, 1), measured(encoder, task, rows="validation", seed=1))


def test_the_tuned_encoder_is_the_one_after_full_fine_tuning_and_is_measured_on_held_out_rows(studied, encoder, task):
    point = the_point(studied, TUNED, 1)
    recipe = Recipe(batch=16, epochs=1, learning_rate=3e-3, dropout=0.1, threads=1, seed=1)
    assert point.spec.recipe == recipe
    settings = Settings(test=False, train_rows=QUICK_ROWS)
    tuned = execute(SharedInputs(encoder, task, keep=False), point.spec.plan, recipe, settings=settings)
    assert tuned.plan.embeddings
    assert_equal_curves(curves(studied, TUNED, 1), measured(tuned.tunable.encoder, task, rows="validation", seed=1))
    assert curves(studied, TUNED, 1)["variability"] != curves(studied, HELD_OUT, 1)["variability"]


def test_the_table_of_curves_has_means_and_t_intervals_over_seeds(studied):
    rows = [row for row in table(studied, "curves") if (row["arm"], row["score"]) == (TUNED, "variability")]
    assert [row["layer"] for row in rows] == [0, 1, 2, 3, 4]
    for row in rows:
        values = [curves(studied, TUNED, seed)["variability"][row["layer"]] for seed in (0, 1)]
        low, high = stats.t.interval(0.95, 1, np.mean(values), stats.sem(values))
        assert (row["seeds"], row["mean"]) == (2, pytest.approx(np.mean(values), rel=1e-5))
        assert (row["low"], row["high"]) == (pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4))


def test_intervals_of_probes_end_where_the_metric_does_and_those_of_other_scores_do_not(studied, task):
    def changed(point):
        high = 1.0 if point["seed"] else 0.9  # two values so near the end that an interval would pass it
        kept = point.result.values["curves"]
        curves = {name: [high] * len(kept[name]) for name in ("probe.linear", "variability")}
        return replace(point, result=replace(point.result, values={**point.result.values, "curves": curves}))

    ask = Ask(encoders=(), tasks=(task,), seeds=2, rows=None, recipe=Recipe(), known=None, scores=None)
    (made, *_) = STUDIES["probing"].tables(ask, [changed(point) for point in studied.points])
    ends = {(row["score"], row["high"] > 1) for row in made.records()}
    assert ends == {("probe.linear", False), ("variability", True)}
    assert all(row["high"] == 1.0 for row in made.records() if row["score"] == "probe.linear")


def test_the_table_of_agreement_has_the_correlation_and_the_line_over_layers_1_to_the_last(studied):
    rows = table(studied, "agreement")
    assert {(row["score"], row["probe"]) for row in rows} == {
        (score, probe) for probe in ("probe.linear", "probe.head") for score in SCORES if score != probe
    }
    row = next(row for row in rows if (row["arm"], row["score"], row["probe"]) == (PRETRAINED, "rank", "probe.head"))
    x, y = (np.mean([curves(studied, PRETRAINED, seed)[name][1:] for seed in (0, 1)], 0) for name in SCORES[1::2])
    slope, intercept = np.polyfit(x, y, 1)
    assert row["layers"] == 4
    assert row["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-4)
    assert row["pearson_p"] == pytest.approx(stats.pearsonr(x, y).pvalue, rel=1e-4)
    ranks = spearman_of_all_orders(x, y)
    assert (row["spearman"], row["spearman_p"]) == pytest.approx((ranks.statistic, ranks.pvalue), rel=1e-4)
    assert row["slope"] == pytest.approx(slope, rel=1e-4)
    assert row["intercept"] == pytest.approx(intercept, rel=1e-4)
    residuals = y - slope * x - intercept
    assert row["r_squared"] == pytest.approx(1 - residuals @ residuals / ((y - y.mean()) @ (y - y.mean())), rel=1e-4)
    by_seed = [[curves(studied, PRETRAINED, seed)[name][1:] for name in SCORES[1::2]] for seed in (0, 1)]
    each = [np.corrcoef(*both)[0, 1] for both in by_seed]
    on_z = stats.t.interval(0.95, 1, np.mean(np.arctanh(each)), stats.sem(np.arctanh(each)))
    assert [row["seeds_low"], row["seeds_high"]] == pytest.approx(np.tanh(on_z).tolist(), rel=1e-4)
    assert row["seeds_low"] < row["seeds_mean"] < row["seeds_high"]


@pytest.mark.parametrize("arm", [PRETRAINED, HELD_OUT])
def test_p_values_are_corrected_within_an_arm(studied, arm):
    defined = [row for row in table(studied, "agreement") if row["pearson_p"] is not None]
    rows = [row for row in defined if row["arm"] == arm]
    assert 1 < len(rows) < len(defined)
    smallest = min(rows, key=lambda row: row["pearson_p"])
    assert smallest["pearson_p_holm"] == pytest.approx(min(1, len(rows) * smallest["pearson_p"]), rel=1e-4)


def test_the_best_layer_moves_from_the_pretrained_to_the_tuned_encoder_on_the_same_rows(studied):
    row = next(row for row in table(studied, "best") if row["score"] == "variability")
    best = {
        arm: [1 + int(np.argmin(curves(studied, arm, seed)["variability"][1:])) for seed in (0, 1)]
        for arm in (PRETRAINED, HELD_OUT, TUNED)
    }
    assert row["layers"] == 4
    assert [row["pretrained"], row["held_out"], row["tuned"]] == [np.mean(best[arm]) for arm in best]
    assert row["moved"] != 0
    assert row["moved"] == np.mean(best[TUNED]) - np.mean(best[HELD_OUT])


def test_high_is_good_for_probes_and_low_for_variability_and_layer_0_never_is_the_best():
    assert best_layer([0.0, 3.0, 1.0, 1.0], better="low") == 2
    assert best_layer([9.0, 1.0, 3.0, None], better="high") == 2
    assert best_layer([9.0, None], better="high") is None


def test_undefined_layers_are_left_out():
    assert mean_curve([[None, 1.0, None], [None, 3.0, 5.0]]) == [None, 2.0, 5.0]
    found = agreement_over_layers([None, 1.0, 2.0, None, 3.0], [7.0, 2.0, 4.0, 9.0, 6.0])
    assert (found["layers"], found["slope"], found["pearson"]) == (3, pytest.approx(2), pytest.approx(1))
    assert agreement_over_layers([None, 1.0, 1.0, 1.0], [0.0, 2.0, 4.0, 6.0]) == {"layers": 3}


def test_scores_that_need_more_rows_are_left_out_and_the_others_are_there(tmp_path):
    few = run_quickly("probing", tmp_path, rows=120, options={"scores": "cca,variability"}, seeds=1)
    assert few.failed == ()
    assert set(curves(few, PRETRAINED, 0)) == {"cca", "variability"}
    assert set(curves(few, HELD_OUT, 0)) == {"variability"}
    (note,) = the_point(few, HELD_OUT, 0).result.values["left_out"]
    assert note.startswith("cca left out: ")
    assert any(note in line for line in few.tables[0].notes)


def test_training_lasts_as_long_as_is_asked_for_and_two_epochs_in_a_quick_look(tmp_path):
    given = {"options": {"scores": "change"}, "seeds": 1}
    for epochs, recipe in ((2, {"batch": 64}), (3, {"batch": 64, "epochs": 3})):
        found = run_quickly("probing", tmp_path, recipe=recipe, output=tmp_path / str(epochs), **given)
        assert len(the_point(found, TUNED, 0).result.history) == epochs


def test_held_out_rows_are_not_training_rows(tmp_path):
    with pytest.raises(OptionError, match=r"held_out 'train' must be one of validation, test"):
        run_quickly("probing", tmp_path, options={"held_out": "train"})


def test_the_heads_probe_has_the_papers_rate_of_the_task_unless_one_is_given(tmp_path, shared):
    glue = {"tasks": ["glue/sst2", "glue/mrpc"], "data_dir": shared / "glue", "seeds": 1, "executor": Nothing}
    found = run_quickly("probing", tmp_path, **glue)
    rates = {point["task"]: point.spec.options.get("probe_rate", "as ever") for point in found.points}
    assert rates == {"glue/sst2": 3e-3, "glue/mrpc": "as ever"}
    other = run_quickly("probing", tmp_path, options={"probe_rate": 0.02}, output=tmp_path / "other", **glue)
    assert {point.spec.options["probe_rate"] for point in other.points} == {0.02}


def test_under_the_papers_protocol_the_probe_is_chosen_on_the_rows_that_it_is_judged_on(tmp_path):
    options = {"scores": "probe.head", "probe_rate": 0.05, "states": "first"}
    found = run_quickly("probing", tmp_path, options=options, seeds=1, protocol="paper")
    encoder = load_encoder(str(tmp_path / "tiny"))
    task = load_task(str(tmp_path / "letters.csv"), protocol="paper")
    for choose_on, pooling, is_equal in (("held-out", "first", True), ("inner", "first", False),
                                         ("held-out", "mean", False)):  # fmt: skip
        theirs = measure(encoder, task, scores=["probe.head"], pooling=pooling, uncertainty=False, similarity=False,
                         options={"probe.head": {"learning_rate": 0.05, "choose_on": choose_on}})  # fmt: skip
        assert (list(theirs.scores["probe.head"].values) == curves(found, PRETRAINED, 0)["probe.head"]) == is_equal


def test_that_rate_is_the_one_that_the_probe_is_trained_with(tmp_path):
    options = {"scores": "probe.head", "probe_rate": 0.05}
    found = run_quickly("probing", tmp_path, options=options, seeds=1)
    encoder, task = load_encoder(str(tmp_path / "tiny")), load_task(str(tmp_path / "letters.csv"))
    for rate, is_equal in ((0.05, True), (1e-3, False)):
        theirs = measure(encoder, task, scores=["probe.head"], options={"probe.head": {"learning_rate": rate}},
                         uncertainty=False, similarity=False)  # fmt: skip
        assert (list(theirs.scores["probe.head"].values) == curves(found, PRETRAINED, 0)["probe.head"]) == is_equal
    assert "probe.head with learning_rate 0.001" in theirs.notes
