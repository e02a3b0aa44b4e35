"""Fisher's ranking: the model's own head, one continuing run, and the statistics of ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from tests.search.race_tools import write_rows
from tests.studies.study_tools import run_quickly, save_tiny

from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError
from frostline.kernels.device import computing
from frostline.records import Plan, Recipe
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores.fisher import estimate_fisher
from frostline.studies.ranking import fisher_scores
from frostline.studies.ranking.tables import (
    ROWS,
    TUNING,
    concordance,
    rank_correlation,
    ranks_of,
    top_overlap,
    variance_shares,
)
from frostline.tasks import load_task
from frostline.training.execution import Settings, execute, tunable_for
from frostline.training.shared_inputs import SharedInputs

# A constant rate from the first step on: an epoch of a longer run is then the end of a shorter one.
RECIPE = {"epochs": 2, "batch": 16, "learning_rate": 1e-3, "schedule": "constant", "warmup": 0.0}
OPTIONS = {"epochs": "0,1,2", "examples": 20, "rows": "10,20,40", "heads": 2, "draws": 2}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    return run_quickly("ranking", tmp_path_factory.mktemp("ranking"), options=OPTIONS, recipe=RECIPE)


@pytest.fixture(scope="module")
def inputs(studied):
    folder = studied.folder.parent
    return SharedInputs(load_encoder(str(folder / "tiny")), load_task(str(folder / "letters.csv")), keep=False)


def the_point(studied, **wanted):
    (point,) = [point for point in studied.points if wanted.items() <= point.labels.items()]
    return point


def table(studied, name):
    return next(table for table in studied.tables if table.name == name).records()


def one_at_a_time(tunable, inputs, rows, weights):
    """Squared gradients by plain autograd, text by text: for every layer the norm of their mean."""
    layers = tunable.encoder.parts().layers
    sums = [[torch.zeros_like(value, dtype=torch.float64) for value in layer.values()] for layer in layers]
    tunable.eval().requires_grad_(True)
    for row in rows:
        tokens = inputs.encoder.tokenize([inputs.task.train.texts[row]])
        layout = tunable.encoder.layout(tokens)
        logits = tunable.logits(tunable.start(tokens, layout), layout)[0].log_softmax(0)
        for label, weight in enumerate(weights(logits, inputs.task.train.labels[row])):
            tunable.zero_grad()
            logits[label].backward(retain_graph=True)
            for layer, into in zip(layers, sums, strict=True):
                for value, total in zip(layer.values(), into, strict=True):
                    total += float(weight) * value.grad.double().square()
    return [float(torch.cat([one.flatten() for one in layer]).norm()) / len(rows) for layer in sums]


WEIGHTS = {
    "expected": lambda logits, label: logits.detach().exp(),
    "true": lambda logits, label: [float(number == label) for number in range(len(logits))],
}


@pytest.fixture(scope="module")
def tuned(inputs):
    recipe = Recipe(**{**RECIPE, "epochs": 1, "select": "last"}, threads=1, seed=0)
    return execute(inputs, Plan.full(4), recipe, settings=Settings(test=False)).tunable


@pytest.mark.parametrize("label", ["expected", "true"])
def test_scores_are_squared_gradients_through_the_models_own_trained_head(tuned, inputs, label):
    rows = inputs.some_rows(8, seed=5).tolist()
    # Classes first come in another order here than they are numbered.
    rows.sort(key=lambda row: -inputs.task.train.labels[row])
    found = fisher_scores(tuned, inputs, rows, label=label, norm="frobenius", seed=0)
    assert found == pytest.approx(one_at_a_time(tuned, inputs, rows, WEIGHTS[label]), rel=1e-3)


def test_the_norms_are_those_of_one_diagonal(tuned, inputs):
    rows = inputs.some_rows(8, seed=5).tolist()
    trace, mean = (fisher_scores(tuned, inputs, rows, label="expected", norm=n, seed=0) for n in ("trace", "mean"))
    sizes = [sum(value.numel() for value in layer.values()) for layer in tuned.encoder.parts().layers]
    assert trace == pytest.approx([one * size for one, size in zip(mean, sizes, strict=True)])


def test_sampled_labels_depend_on_the_seed_alone(tuned, inputs):
    rows = inputs.some_rows(8, seed=5).tolist()
    one, same, other = (
        fisher_scores(tuned, inputs, rows, label="sampled", norm="frobenius", seed=seed) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_before_training_scores_are_those_of_measuring_with_the_same_fresh_head(studied, inputs):
    point = the_point(studied, arm=ROWS, rows=20, head=1, seed=1)
    rows = inputs.task.train.take(inputs.some_rows(20, seed=1))
    evidence = Evidence(
        states={},
        labels=torch.tensor(rows.labels),
        groups=torch.arange(20),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=1,  # of the head too, when there is one
        encoder=inputs.encoder,
        tokens=inputs.encoder.tokenize(rows.texts),
    )
    expected = estimate_fisher(evidence, examples=20, heads=1, uncertainty=False).values[1:]
    assert point.result.values["scores"] == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("epoch", [1, 2])
def test_scores_at_an_epoch_are_those_of_a_run_that_ends_there(studied, inputs, epoch):
    """With a constant rate, an epoch of a longer run is the end of a shorter one, trained by itself."""
    point = the_point(studied, arm=TUNING, seed=1)
    recipe = replace(point.spec.recipe, epochs=epoch)
    model = execute(inputs, Plan.full(4), recipe, settings=Settings(test=False)).tunable
    rows = inputs.some_rows(20, seed=1).tolist()
    expected = fisher_scores(model, inputs, rows, label="expected", norm="frobenius", seed=1)
    assert point.result.values["scores"][str(epoch)] == pytest.approx(expected, rel=1e-5)
    assert point.result.values["scores"]["0"] != pytest.approx(expected, rel=0.01)


def test_epoch_0_has_the_runs_own_fresh_head(studied, inputs):
    point = the_point(studied, arm=TUNING, seed=1)
    model = tunable_for(inputs, Plan.full(4), point.spec.recipe)
    rows = inputs.some_rows(20, seed=1).tolist()
    expected = fisher_scores(model, inputs, rows, label="expected", norm="frobenius", seed=1)
    assert point.result.values["scores"]["0"] == pytest.approx(expected, rel=1e-6)


def test_looking_does_not_disturb_training(studied, inputs):
    point = the_point(studied, arm=TUNING, seed=0)
    with computing():
        alone = execute(inputs, Plan.full(4), point.spec.recipe, settings=Settings(test=False))
    losses = [[record["loss"] for record in history] for history in (point.result.history, alone.trained.history)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 2


@pytest.fixture(scope="module")
def on_validation(studied):
    folder = studied.folder.parent
    options = {**OPTIONS, "fisher_rows": "validation", "examples": 8, "rows": "5,1000"}
    return run_quickly("ranking", folder, options=options, recipe=RECIPE, output=folder / "validation")


@pytest.mark.parametrize("arm", [TUNING, ROWS])
def test_layers_can_be_ranked_on_validation_rows(on_validation, inputs, arm):
    wanted = {"arm": arm, "seed": 1, "head": 1, **({"rows": 5} if arm == ROWS else {})}
    point = the_point(on_validation, **wanted)
    assert point.spec.options["fisher_rows"] == "validation"
    model = tunable_for(inputs, point.spec.plan, replace(point.spec.recipe, seed=1))
    rows = inputs.some_rows(8 if arm == TUNING else 5, seed=1, of="validation").tolist()
    # The same rows as training rows: what is scored does not depend on the name of the split.
    chosen = inputs.task.validation.take(rows)
    moved = SharedInputs(inputs.encoder, replace(inputs.task, train=chosen), keep=False)
    expected = fisher_scores(model, moved, range(len(rows)), label="expected", norm="frobenius", seed=1)
    scores = point.result.values["scores"]
    assert (scores["0"] if arm == TUNING else scores) == pytest.approx(expected, rel=1e-6)


def test_there_are_as_many_validation_rows_as_there_are(on_validation, inputs):
    sizes = {point["rows"] for point in on_validation.points if point["arm"] == ROWS}
    assert sizes == {5, len(inputs.task.validation)}
    assert {point["seed"] for point in on_validation.points if point["rows"] == len(inputs.task.validation)} == {0}


def test_the_rows_are_part_of_a_trial_only_if_they_are_not_training_rows(studied, on_validation):
    assert not any("fisher_rows" in point.spec.options for point in studied.points)
    assert all(point.spec.options["fisher_rows"] == "validation" for point in on_validation.points)


def test_ranks_count_from_the_highest_score():
    assert ranks_of([0.1, 0.5, 0.3]).tolist() == [3, 1, 2]
    assert ranks_of([1.0, 1.0, 0.0]).tolist() == [1.5, 1.5, 3]


def test_kendalls_w_follows_from_the_mean_correlation_of_rankings():
    ranks = np.array([np.random.default_rng(seed).permutation(7) + 1.0 for seed in range(5)])
    mean = np.mean([stats.spearmanr(ranks[i], ranks[j]).statistic for i in range(5) for j in range(i)])
    assert concordance(ranks) == pytest.approx((1 + 4 * mean) / 5)
    assert concordance(np.array([[1.0, 2, 3]] * 4)) == pytest.approx(1)
    assert concordance(np.array([[1.0, 2, 3], [3, 2, 1]])) == pytest.approx(0)
    assert concordance(np.array([[1.0, 2, 3]])) is None


def test_overlap_is_of_the_three_highest_layers():
    assert top_overlap(np.array([1.0, 2, 3, 4, 5]), np.array([3.0, 2, 5, 1, 4])) == pytest.approx(2 / 3)
    assert top_overlap(np.array([1.0, 2]), np.array([2.0, 1])) == 1
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([1.0, 3, 2])) == pytest.approx(1 / 3)


def test_the_variance_of_ranks_divides_into_head_rows_and_rest():
    by_head = np.array([[[1.0, 2, 3]] * 4, [[3.0, 2, 1]] * 4])
    assert variance_shares(by_head) == pytest.approx({"share_head": 1, "share_rows": 0, "share_rest": 0})
    by_rows = by_head.transpose(1, 0, 2)
    assert variance_shares(by_rows) == pytest.approx({"share_head": 0, "share_rows": 1, "share_rest": 0})
    crossed = np.array([[[1.0, 2], [2, 1]], [[2, 1], [1, 2]]])
    assert variance_shares(crossed) == pytest.approx({"share_head": 0, "share_rows": 0, "share_rest": 1})
    assert variance_shares(np.ones((2, 2, 3)))["share_head"] is None


def run_ranks(studied, seed):
    scores = the_point(studied, arm=TUNING, seed=seed).result.values["scores"]
    return {int(epoch): stats.rankdata(-np.array(values)) for epoch, values in scores.items()}


def test_the_tables_of_epochs_count_ranks_and_changes_over_runs(studied):
    runs = [run_ranks(studied, seed) for seed in (0, 1)]
    rows = table(studied, "ranks")
    assert [(row["epoch"], row["layer"]) for row in rows] == [(e, layer) for e in (0, 1, 2) for layer in (1, 2, 3, 4)]
    for row in rows:
        now = [run[row["epoch"]][row["layer"] - 1] for run in runs]
        first = [run[0][row["layer"] - 1] for run in runs]
        assert row["rank"] == pytest.approx(np.mean(now))
        assert row["changed"] == pytest.approx(np.mean(np.abs(np.subtract(now, first))))
    stability = table(studied, "stability")
    for row in stability:
        epoch = row["epoch"]
        assert row["changed"] == pytest.approx(np.mean([np.abs(run[epoch] - run[0]) for run in runs]), rel=1e-5)
        taus = [stats.kendalltau(run[epoch], run[0]).statistic for run in runs]
        assert row["tau"] == pytest.approx(np.mean(taus), rel=1e-5)
    ws = [concordance(np.stack([run[0], run[1], run[2]])) for run in runs]
    assert stability[-1]["w"] == pytest.approx(np.mean(ws), rel=1e-5)
    assert (stability[0]["w"], stability[0]["tau"], stability[0]["top_overlap"]) == (None, 1, 1)


def test_the_table_of_rows_compares_with_the_mean_score_of_the_most_rows(studied):
    rows = table(studied, "rows")
    assert [(row["rows"], row["heads"], row["draws"]) for row in rows] == [(10, 2, 2), (20, 2, 2), (40, 2, 2)]
    for row in rows:
        scores, most = (
            np.array([[the_point(studied, arm=ROWS, rows=count, head=head, seed=draw).result.values["scores"]
                       for draw in (0, 1)] for head in (0, 1)])
            for count in (row["rows"], 40)
        )  # fmt: skip
        taus = [[stats.kendalltau(one, most[head].mean(0)).statistic for one in scores[head]] for head in (0, 1)]
        assert row["tau"] == pytest.approx(np.mean(taus), rel=1e-5)
        ranks = stats.rankdata(-scores, axis=2)
        whole = ranks.var((0, 1)).sum()
        if whole:
            assert row["share_head"] == pytest.approx(ranks.mean(1).var(0).sum() / whole, rel=1e-5)


def test_there_are_no_more_rows_than_the_task_has(tmp_path):
    few = run_quickly("ranking", tmp_path, options={"rows": "30,1000,2000", "heads": 1, "draws": 1}, seeds=1)
    have = len(load_task(str(tmp_path / "letters.csv")).train)
    assert [row["rows"] for row in table(few, "rows")] == [30, have]
    # The short recipe ends after one epoch.
    assert list(the_point(few, arm=TUNING, seed=0).result.values["scores"]) == ["0", "1"]


@pytest.mark.parametrize("kind", ["regression", "multiple choice"])
def test_values_and_choices_are_ranked_too(tmp_path, kind):
    data = write_rows(tmp_path / "others.csv", kind=kind)
    columns = {"choices": ["one", "two"]} if kind == "multiple choice" else {}
    task = load_task(str(data), **columns)
    assert task.kind == kind
    inputs = SharedInputs(load_encoder(str(save_tiny(tmp_path / "tiny"))), task, keep=False)
    model = tunable_for(inputs, Plan.full(4), Recipe(threads=1))
    rows = inputs.some_rows(6, seed=0).tolist()
    found = [
        fisher_scores(model, inputs, rows, label=label, norm="frobenius", seed=0) for label in ("expected", "true")
    ]
    assert all(value > 0 for scores in found for value in scores)
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": "wrong"}, "option label 'wrong' must be one of expected, true, sampled"),
        ({"norm": "wrong"}, "option norm 'wrong' must be one of frobenius, trace, mean"),
        ({"epochs": "7,9"}, "option epochs '7,9' must include one up to the recipe's last, 1"),
        ({"epochs": "two"}, "option epochs 'two' must be whole numbers from 0"),
        ({"rows": "0,5"}, "option rows '0,5' must be whole numbers from 1"),
        ({"heads": 0}, "option heads 0 must be 1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, says):
    with pytest.raises(OptionError, match=says):
        run_quickly("ranking", tmp_path, options=options)
