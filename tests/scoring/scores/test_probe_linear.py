"""Held-out rows, the metric on them and its uncertainty; the exact linear probe on top."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from frostline.encoders.loading import load_encoder
from frostline.errors import MeasureError
from frostline.scoring.probes.holdout import HeldOutPredictions, draw, estimate_metric, probe_rows
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.scores.probe_linear import probe_linear
from frostline.states.pooled import pooled_states
from frostline.tasks import load_task
from frostline.tasks.metrics import METRICS
from frostline.tasks.splits import sample


def hold_out(evidence: Evidence, *, seed: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    rows = probe_rows(evidence, seed=seed)
    return rows.training.rows, rows.held.rows


def make_evidence(seed: int = 0, *, rows: int = 400, classes: int = 2, apart: float = 1.0, **changes) -> Evidence:
    """Three layers on which the classes lie further and further apart."""
    source = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % classes
    centres = torch.randn(classes, 24, generator=source)
    noise = torch.randn(3, rows, 24, generator=source)
    states = noise + apart * torch.tensor([0.0, 0.3, 0.6])[:, None, None] * centres[labels]
    evidence = Evidence(
        states={"mean": states},
        labels=labels,
        groups=torch.arange(rows),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=seed,
    )
    return replace(evidence, **changes)


def make_questions(seed: int = 0, *, questions: int = 120, apart: float = 1.5) -> Evidence:
    """Four choices a question, one of them right and in its states apart from the others."""
    source = torch.Generator().manual_seed(seed)
    right = torch.randint(4, (questions,), generator=source)
    labels = torch.nn.functional.one_hot(right, 4).flatten()
    states = torch.randn(2, 4 * questions, 8, generator=source)
    states[1] += apart * labels[:, None]
    return Evidence(
        states={"mean": states},
        labels=labels,
        groups=torch.arange(questions).repeat_interleave(4) + 1000,
        kind="multiple choice",
        metric="accuracy",
        pooling="mean",
        seed=seed,
    )


# Holding rows out ----------------------------------------------------------------------------------------------------


def test_a_fifth_of_every_class_is_held_out():
    evidence = make_evidence(classes=4)
    fit, held = hold_out(evidence)
    assert sorted(torch.cat([fit, held]).tolist()) == list(range(400))
    assert torch.bincount(evidence.labels[held]).tolist() == [20, 20, 20, 20]


def test_groups_are_not_divided():
    evidence = make_evidence(groups=torch.arange(400) // 7)
    fit, held = hold_out(evidence)
    assert not set(evidence.groups[fit].tolist()) & set(evidence.groups[held].tolist())


def test_another_seed_holds_out_other_rows():
    evidence = make_evidence()
    assert torch.equal(hold_out(evidence)[1], hold_out(evidence)[1])
    assert not torch.equal(hold_out(evidence)[1], hold_out(evidence, seed=5)[1])


def test_too_few_held_out_rows_are_refused_in_one_line():
    with pytest.raises(MeasureError, match="holds out 9 rows and needs 10") as error:
        probe_linear(make_evidence(rows=45))
    assert "\n" not in str(error.value)


def test_too_few_held_out_groups_are_refused():
    with pytest.raises(MeasureError, match="groups of rows"):
        probe_linear(make_evidence(groups=torch.arange(400) // 20))


def test_a_single_class_is_refused():
    with pytest.raises(MeasureError, match="needs two classes"):
        probe_linear(make_evidence(classes=1))


# The value -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "classes"), [("accuracy", 2), ("accuracy", 3), ("macro_f1", 5), ("matthews", 2), ("f1", 2)]
)
def test_it_is_the_metric_of_scikit_learns_fit_on_the_held_out_rows(metric, classes):
    evidence = make_evidence(classes=classes, metric=metric)
    fit, held = hold_out(evidence)
    expected = []
    for layer in evidence.states["mean"].double().numpy():
        scaler = StandardScaler().fit(layer[fit])
        model = LogisticRegression(tol=1e-8, max_iter=1000).fit(scaler.transform(layer[fit]), evidence.labels[fit])
        guesses = model.predict(scaler.transform(layer[held]))
        expected.append(METRICS[metric](evidence.labels[held].numpy(), guesses))
    assert probe_linear(evidence).values.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", ["spearman", "pearson", "r2", "mse"])
def test_values_to_predict_get_a_ridge_regression(metric):
    evidence = make_evidence(classes=5, kind="regression", metric=metric)
    evidence = replace(evidence, labels=evidence.labels.double() * 0.7 - 1)
    fit, held = hold_out(evidence)
    expected = []
    for layer in evidence.states["mean"].double().numpy():
        scaler = StandardScaler().fit(layer[fit])
        model = Ridge(alpha=1.0).fit(scaler.transform(layer[fit]), evidence.labels[fit])
        value = METRICS[metric](evidence.labels[held].numpy(), model.predict(scaler.transform(layer[held])))
        expected.append(-value if metric == "mse" else value)
    found = probe_linear(evidence)
    assert found.values.tolist() == pytest.approx(expected, abs=1e-5)
    assert found.values.argmax() == 2
    assert found.deviations is not None


def test_of_several_choices_the_one_it_prefers_counts():
    evidence = make_questions()
    fit, held = hold_out(evidence)
    states = evidence.states["mean"].double().numpy()
    expected = []
    for layer in states:
        scaler = StandardScaler().fit(layer[fit])
        model = LogisticRegression(tol=1e-8).fit(scaler.transform(layer[fit]), evidence.labels[fit])
        chance = model.predict_proba(scaler.transform(layer[held]))[:, 1].reshape(-1, 4)
        expected.append(float((chance.argmax(1) == evidence.labels[held].reshape(-1, 4).argmax(1).numpy()).mean()))
    found = probe_linear(evidence)
    assert found.values.tolist() == pytest.approx(expected, abs=1e-12)
    assert found.values[1] > 0.8 > 0.5 > found.values[0]


def test_the_names_of_labels_do_not_matter():
    evidence = make_evidence(classes=3)
    renamed = replace(evidence, labels=torch.tensor([-4, 7, 30])[evidence.labels])
    assert torch.equal(probe_linear(renamed).values, probe_linear(evidence).values)


def test_a_layer_with_constant_states_predicts_the_commonest_class():
    evidence = make_evidence(labels=(torch.arange(400) % 4 == 0).long())
    evidence.states["mean"][0] = 2.5
    assert probe_linear(evidence).values[0] == 0.75


@pytest.mark.parametrize(("rows", "part", "expected"), [(400, 0, 1.0), (396, 1, 79 / 80)], ids=["fitted", "held out"])
def test_a_class_of_one_row_is_missed_where_it_is_judged_and_harmless_where_it_is_not(rows, part, expected):
    evidence = make_evidence(rows=rows, apart=20.0)
    evidence.labels[17] = 9
    assert 17 in hold_out(evidence)[part]
    assert probe_linear(evidence).values[2] == pytest.approx(expected, abs=1e-12)


def test_states_that_are_not_finite_are_refused():
    evidence = make_evidence()
    evidence.states["mean"][1, 3, 2] = float("nan")
    with pytest.raises(MeasureError, match="layer 1 are not finite"):
        probe_linear(evidence)


def test_evidence_is_not_changed_and_nothing_is_drawn_from_the_global_random_state():
    evidence = make_evidence()
    states, labels = evidence.states["mean"].clone(), evidence.labels.clone()
    before = torch.get_rng_state()
    first, second = probe_linear(evidence), probe_linear(evidence)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(evidence.states["mean"], states)
    assert torch.equal(evidence.labels, labels)
    assert first.deviations is not None and second.deviations is not None
    assert torch.equal(first.deviations, second.deviations)


@pytest.mark.parametrize("name", ["probe.linear", "probe.linear.paper", "probe.head"])
def test_probes_register_as_scores_of_which_high_is_good(name):
    score = LAYER_SCORES[name]
    assert (score.better, score.needs) == ("high", "labels")
    assert score.pooling == ("all" if name.endswith("paper") else None)
    assert 20 < len(score.summary) < 120


# Its uncertainty -----------------------------------------------------------------------------------------------------


def made_up(labels: torch.Tensor, right: torch.Tensor, **changes) -> HeldOutPredictions:
    """Predictions of two classes that are right where they are said to be."""
    guesses = torch.where(right, labels, 1 - labels)
    found = HeldOutPredictions(labels=labels, guesses=guesses, groups=torch.arange(len(labels)), metric="accuracy")
    return replace(found, **changes)


@pytest.mark.parametrize("share", [0.6, 0.9])
def test_the_standard_error_of_accuracy_is_the_binomial_one(share):
    labels = torch.arange(1000) % 2
    right = (torch.arange(1000) < 1000 * share).expand(2, -1)
    found = estimate_metric([made_up(labels, right)], seed=3)
    assert found.values.tolist() == [share, share]
    assert found.method == "bootstrap"
    assert found.deviations is not None
    error = float(found.deviations[:, 0].square().sum().sqrt())
    assert error == pytest.approx((share * (1 - share) / 1000) ** 0.5, rel=0.15)


def test_all_layers_are_judged_on_the_same_draw():
    labels = torch.arange(500) % 2
    right = torch.rand(500, generator=torch.Generator().manual_seed(0)) < 0.8
    one_more = right.clone()
    one_more[int((~right).nonzero()[0])] = True
    found = estimate_metric([made_up(labels, torch.stack([right, one_more, ~right]))], seed=0)
    assert found.deviations is not None
    apart = found.deviations - found.deviations[:, :1]
    assert float(apart[:, 1].square().sum().sqrt()) == pytest.approx(1 / 500, rel=0.2)
    torch.testing.assert_close(found.deviations[:, 2], -found.deviations[:, 0])


def test_rows_of_a_group_are_drawn_together():
    labels = torch.arange(1000) % 2
    right = (torch.rand(100, generator=torch.Generator().manual_seed(1)) < 0.8).repeat_interleave(10)[None]
    alone = estimate_metric([made_up(labels, right)], seed=0).deviations
    together = estimate_metric([made_up(labels, right, groups=torch.arange(1000) // 10 + 7)], seed=0).deviations
    assert alone is not None and together is not None
    assert float(together.norm() / alone.norm()) == pytest.approx(10**0.5, rel=0.2)


@pytest.mark.parametrize(
    ("metric", "classes"),
    [("accuracy", 4), ("macro_f1", 2), ("macro_f1", 4), ("f1", 2), ("f1a", 2), ("matthews", 2), ("matthews", 4)],
)
def test_a_replicate_is_the_metric_of_the_rows_drawn(metric, classes):
    source = torch.Generator().manual_seed(classes)
    labels, guesses = (torch.randint(classes, shape, generator=source) for shape in ((30,), (2, 30)))
    guesses[1] = 0
    found = HeldOutPredictions(labels=labels, guesses=guesses, groups=torch.arange(30), metric=metric)
    counts = draw(30, 25, seed=2)
    for replicate, count in zip(found.resampled(counts), counts, strict=True):
        rows = torch.arange(30).repeat_interleave(count)
        expected = [METRICS[metric](labels[rows].numpy(), guess[rows].numpy()) for guess in guesses]
        assert replicate.tolist() == pytest.approx(expected, abs=1e-12)


def test_what_is_drawn_comes_as_often_as_there_are_things():
    counts = draw(40, 300, seed=0)
    assert (counts.sum(1) == 40).all()
    assert counts.double().mean(0).sub(1).abs().max() < 0.3


def test_trials_that_disagree_widen_the_interval():
    labels = torch.arange(400) % 2
    right = torch.arange(400) < 320
    agreeing = estimate_metric([made_up(labels, right[None])] * 4, seed=0)
    shares = (240, 300, 340, 400)
    differing = estimate_metric([made_up(labels, (torch.arange(400) < share)[None]) for share in shares], seed=0)
    assert agreeing.values.item() == differing.values.item() == 0.8
    assert agreeing.deviations is not None and differing.deviations is not None
    assert differing.deviations.norm() > 1.5 * agreeing.deviations.norm()


def test_a_trial_of_which_nothing_was_drawn_counts_as_it_is():
    found = made_up(torch.arange(4) % 2, torch.tensor([[True, True, True, False]]))
    assert found.resampled(torch.zeros(1, 4, dtype=torch.long)).item() == 0.75


def test_without_uncertainty_there_is_the_value_alone():
    found = probe_linear(make_evidence(), uncertainty=False)
    assert found.deviations is None
    assert torch.equal(found.values, probe_linear(make_evidence()).values)


# Real states ---------------------------------------------------------------------------------------------------------


@pytest.mark.embedded
def test_real_states_of_film_reviews_know_their_sign(embedded_encoder):
    encoder, task = load_encoder(embedded_encoder), load_task("movies", seed=0)
    rows = sample(task.train, 2000, seed=0)
    states = pooled_states(encoder, encoder.tokenize(rows.texts, max_length=32), poolings=("mean",))
    evidence = Evidence(
        states=states,
        labels=torch.tensor(rows.labels),
        groups=torch.arange(len(rows)),
        kind=task.kind,
        metric="accuracy",
        pooling="mean",
        seed=0,
    )
    found = probe_linear(evidence)
    # Another division of 2,000 rows gave these; 400 held-out rows have a standard error of .02.
    np.testing.assert_allclose(found.values, [0.732, 0.740, 0.734, 0.776, 0.767, 0.782, 0.745], atol=0.07)
    interval = found.interval()
    assert interval is not None
    assert (interval[0] > 0.5).all()
