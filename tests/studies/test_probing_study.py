"""Scores next to probes: the curves are those of `measure`, and the tables count them right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.search.race_tools import write_rows
from tests.studies.study_tools import Nothing, run_quickly

from frostline.api._measure import measure
from frostline.api._study import QUICK_ROWS
from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError
from frostline.kernels.device import computing
from frostline.records import Recipe
from frostline.stats.curves import surrogate_p
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


RECIPE = {"epochs": 20, "batch": 8, "schedule": "linear", "warmup": 0.06, "dropout": 0.1, "learning_rate": 1e-3}
DEV = {"judged_on": "test", "chosen_on": "validation", "options": {"probe.head": RECIPE}}
OLD = {"judged": "inner", "examples": 5000, "probe_epochs": 10, "probe_batch": 32, "probe_schedule": "constant",
       "probe_warmup": 0.0, "probe_dropout": -1.0, "cca_samples": 1}  # fmt: skip


def measured(encoder, task, scores=SCORES, *, rows, seed, **more):
    found = measure(encoder, task, scores=scores, rows=rows, uncertainty=False, similarity=False, seed=seed, **more)
    return {name: list(score.values) for name, score in found.scores.items()}


def assert_equal_curves(ours, theirs):
    assert list(ours) == list(theirs)
    for name in theirs:
        np.testing.assert_allclose(np.array(ours[name], float), np.array(theirs[name], float), rtol=1e-6, err_msg=name)


def test_there_is_a_trial_for_every_arm_and_seed(studied):
    assert [(point["seed"], point["arm"]) for point in studied.points] == [
        *((seed, arm) for seed in (0, 1) for arm in (PRETRAINED, HELD_OUT)),
        *((seed, TUNED) for seed in (0, 1)),
    ]


def fewer_rows(encoder, task, seed):
    chosen = SharedInputs(encoder, task, keep=False).some_rows(QUICK_ROWS, seed=seed)
    return replace(task, train=task.train.take(chosen))


def test_the_pretrained_encoder_is_measured_on_the_training_rows_and_its_probes_are_judged_on_test_rows(
    studied, encoder, task
):
    theirs = measured(encoder, fewer_rows(encoder, task, 1), rows="train", seed=1, **DEV)
    assert list(theirs) == SCORES
    assert_equal_curves(curves(studied, PRETRAINED, 1), theirs)


def test_its_scores_are_measured_on_the_held_out_rows_too(studied, encoder, task):
    theirs = measured(encoder, task, SCORES[:2], rows="validation", seed=1)
    assert_equal_curves(curves(studied, HELD_OUT, 1), theirs)


@computing()
def test_the_tuned_encoder_has_scores_on_held_out_rows_and_probes_fitted_on_training_rows(studied, encoder, task):
    point = the_point(studied, TUNED, 1)
    recipe = Recipe(batch=16, epochs=1, learning_rate=3e-3, dropout=0.1, threads=1, seed=1)
    assert point.spec.recipe == recipe
    settings = Settings(test=False, train_rows=QUICK_ROWS)
    tuned = execute(SharedInputs(encoder, task, keep=False), point.spec.plan, recipe, settings=settings)
    assert tuned.plan.embeddings
    model = tuned.tunable.encoder
    scores = measured(model, task, SCORES[:2], rows="validation", seed=1)
    probes = measured(model, fewer_rows(encoder, task, 1), SCORES[2:], rows="train", seed=1, **DEV)
    assert_equal_curves(curves(studied, TUNED, 1), scores | probes)
    assert curves(studied, TUNED, 1)["variability"] != curves(studied, HELD_OUT, 1)["variability"]


def test_the_probes_of_the_pretrained_encoder_are_in_the_tables_of_both_its_arms(studied):
    rows = [row for row in table(studied, "curves") if row["score"] == "probe.head"]
    by_arm = {arm: [row["mean"] for row in rows if row["arm"] == arm] for arm in (PRETRAINED, HELD_OUT, TUNED)}
    assert by_arm[PRETRAINED] == by_arm[HELD_OUT] != by_arm[TUNED]
    best = next(row for row in table(studied, "best") if row["score"] == "probe.head")
    assert best["pretrained"] == best["held_out"]
    assert best["moved"] is not None


@pytest.fixture(scope="module")
def cautious(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cautious")
    return run_quickly("probing", folder, rows=700, options={"scores": ",".join(SCORES), **OLD}, recipe=FAST, seeds=1)


def test_the_cautious_form_stays_inside_the_measured_rows_and_has_the_options_of_older_trials(cautious, studied):
    encoder = load_encoder(str(cautious.folder.parent / "tiny"))
    task = load_task(str(cautious.folder.parent / "letters.csv"))
    assert_equal_curves(curves(cautious, PRETRAINED, 0),
                        measured(encoder, fewer_rows(encoder, task, 0), rows="train", seed=0))  # fmt: skip
    assert_equal_curves(curves(cautious, HELD_OUT, 0), measured(encoder, task, rows="validation", seed=0))
    for arm in (PRETRAINED, HELD_OUT, TUNED):
        assert set(the_point(cautious, arm, 0).spec.options) == {"scores", "examples", "rows", "tuned"}
        assert the_point(cautious, arm, 0).spec.id != the_point(studied, arm, 0).spec.id


def test_several_rates_are_tried_and_the_best_on_validation_is_used(tmp_path):
    given = {"options": {"scores": "change", "rates": 2}, "recipe": {"batch": 64, "epochs": 1}, "seeds": 1}
    found = run_quickly("probing", tmp_path, **given)
    tried = [point for point in found.points if point.is_candidate]
    width = load_encoder(str(tmp_path / "tiny")).width
    rates = [float(f"{rate * 768 / width:.3g}") for rate in (1e-5, 2e-5)]
    assert [point.spec.recipe.learning_rate for point in tried] == rates
    (tuned,) = [point for point in found.points if point["arm"] == TUNED and not point.is_candidate]
    quality = [point.result.metrics["validation"]["accuracy"] for point in tried]
    assert tuned.spec.recipe.learning_rate == rates[int(np.argmax(quality))]


def test_at_full_size_the_protocol_is_the_papers(tmp_path):
    write_rows(tmp_path / "letters.csv", 120)
    letters = load_task(str(tmp_path / "letters.csv"))
    tasks = [replace(letters, name=name, preset=name) for name in ("glue/sst2", "glue/mnli", "glue/qqp")]
    found = run_quickly("probing", tmp_path, quick=False, recipe={}, tasks=tasks, executor=Nothing)
    tuned = {point["task"]: point.spec for point in found.points if point["arm"] == TUNED and point["seed"] == 4}
    assert {name: spec.recipe.epochs for name, spec in tuned.items()} == dict(zip(tuned, (20, 10, 10), strict=True))
    assert {(spec.recipe.batch, spec.recipe.schedule, spec.recipe.warmup, spec.recipe.dropout, spec.recipe.select,
             spec.train_rows) for spec in tuned.values()} == {(8, "linear", 0.06, 0.1, "best", None)}  # fmt: skip
    expected = {"scores": "all", "examples": 0, "judged": "dev", "probe_epochs": 20, "probe_batch": 8,
                "probe_schedule": "linear", "probe_warmup": 0.06, "probe_dropout": 0.1, "cca_samples": 2}  # fmt: skip
    assert all(expected.items() <= spec.options.items() for spec in tuned.values())
    assert [spec.options.get("probe_rate", 1e-3) for spec in tuned.values()] == [3e-3, 1e-3, 3e-4]


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
        curves = {name: [high] * (point.spec.plan.head + 1) for name in ("probe.linear", "variability")}
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
    assert row["pearson_p"] == pytest.approx(surrogate_p(x, y), rel=1e-4)
    assert row["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic, rel=1e-4)
    assert row["spearman_p"] == pytest.approx(surrogate_p(stats.rankdata(x), stats.rankdata(y)), rel=1e-4)
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
    ours = curves(found, PRETRAINED, 0)["probe.head"]
    for choose_on, pooling, rate in (("held-out", "first", 0.05), ("inner", "first", 0.05), ("held-out", "mean", 0.05),
                                     ("held-out", "first", 1e-3)):  # fmt: skip
        own = {**RECIPE, "learning_rate": rate, "choose_on": choose_on}
        theirs = measured(encoder, task, ["probe.head"], rows="train", seed=0, pooling=pooling, judged_on="test",
                          options={"probe.head": own})  # fmt: skip
        is_equal = (choose_on, pooling, rate) == ("held-out", "first", 0.05)
        assert (theirs["probe.head"] == ours) == is_equal


def three_tasks(studied):
    """The points of three tasks, of which the curves differ a little."""
    for number, name in enumerate(("a", "b", "c")):
        for point in studied.points:
            values = point.result.values
            wave = 0.05 * (number + 1) * np.sin(3 * np.arange(point.spec.plan.head + 1) + number)
            moved = {key: [*map(sum, zip(curve, wave.tolist(), strict=True))]
                     for key, curve in values["curves"].items() if key in ("rank", "probe.linear")}  # fmt: skip
            result = replace(point.result, values={**values, "curves": moved})
            yield replace(point, labels={**point.labels, "task": name}, result=result)


def test_correlations_are_averaged_over_tasks_with_an_interval_from_three_on(studied, task):
    tasks = tuple(replace(task, name=name) for name in ("a", "b", "c"))
    points = list(three_tasks(studied))

    def rows_of(tasks):
        ask = Ask(encoders=(), tasks=tasks, seeds=2, rows=None, recipe=Recipe(), known=None, scores=None)
        names = {task.name for task in tasks}
        made = STUDIES["probing"].tables(ask, [point for point in points if point["task"] in names])
        return {table.name: table.records() for table in made}

    of_three = rows_of(tasks)
    each = [row["pearson"] for row in of_three["agreement"]
            if (row["arm"], row["score"], row["probe"]) == (PRETRAINED, "rank", "probe.linear")]  # fmt: skip
    (row,) = [row for row in of_three["tasks"] if row["arm"] == PRETRAINED and row["score"] == "rank"]
    z = np.arctanh(each)
    low, high = np.tanh(stats.t.interval(0.95, 2, np.mean(z), stats.sem(z)))
    assert len(set(each)) == row["tasks"] == 3
    assert (row["low"], row["high"]) == (pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4))
    assert row["p"] == pytest.approx(stats.ttest_1samp(z, 0).pvalue, rel=1e-4)
    assert {row.get("low") for row in rows_of(tasks[:2])["tasks"]} == {None}
    assert "tasks" not in rows_of(tasks[:1])
