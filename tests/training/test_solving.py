"""Heads that are solved: scikit-learn's optimum on the features below the last layer, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tiny import padded_inputs, save_tiny, tiny_encoder
from tests.training.tuning_tools import many_tokens

import frostline
from frostline.errors import OptionError
from frostline.prediction.loading import load_tuned
from frostline.records import Plan, Recipe
from frostline.tasks import Split, Task
from frostline.tasks.unlabelled import read_list
from frostline.training import solving
from frostline.training.dataset import Examples
from frostline.training.model import make_tunable
from frostline.training.solving import LEFT_OUT, PENALTIES, solve

PLAN = Plan(layers=(), head=2)
ROWS = 60
TOKENS = many_tokens(ROWS)
RECIPE = Recipe(schedule="solved")
LAST = {"bert": "classifier", "roberta": "classifier.out_proj", "distilbert": "classifier"}


def head_alone(name="bert", *, outputs=3, kind="classification", head="family", plan=PLAN, seed=0):
    return make_tunable(tiny_encoder(name), plan, outputs=outputs, kind=kind, head=head, seed=seed)


def features_below(tunable, name="bert"):
    """What reaches the last linear layer when the stock model and then the head run on padded texts."""
    inputs = padded_inputs(tunable.encoder, TOKENS)
    seen = []
    last = tunable.head.stock.get_submodule(LAST[name])
    handle = last.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        states = tunable.model(**inputs).last_hidden_state
        tunable.head(states, inputs["attention_mask"].bool())
    handle.remove()
    return seen[0].double().numpy()


def classes_from(features, classes, *, noise, seed=0):
    """Labels that features tell apart, but for some noise."""
    random = np.random.default_rng(seed)
    standard = StandardScaler().fit_transform(features)
    logits = standard @ random.normal(size=(features.shape[1], classes))
    logits += noise * logits.std() * random.normal(size=logits.shape)
    return (logits - logits.mean(0)).argmax(1)  # centred, so that no class is rare


def values_from(features, *, noise, seed=0):
    random = np.random.default_rng(seed)
    signal = StandardScaler().fit_transform(features) @ random.normal(size=features.shape[1])
    return 3.0 + signal + noise * signal.std() * random.normal(size=len(signal))


def rows_with(labels):
    as_tensor = torch.as_tensor(labels)
    labels = as_tensor.float() if as_tensor.is_floating_point() else as_tensor
    return Examples(tokens=TOKENS, states=None, labels=labels, offsets=None)


def solved(tunable, labels, *, validation=None, seed=0, metrics=("accuracy",)):
    return solve(tunable, rows_with(labels), validation, replace(RECIPE, seed=seed), metrics=metrics)


def logistic(penalty):
    return make_pipeline(StandardScaler(), LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=5000))


def ridge(penalty):
    return make_pipeline(StandardScaler(), Ridge(alpha=penalty))


def held_out_losses(features, labels, *, seed, most=None):
    """The loss of every penalty on three folds of at most so many rows, by scikit-learn."""
    order = np.random.default_rng(seed).permutation(len(labels))[:most]
    folds = np.array_split(order, 3)
    is_regression = np.issubdtype(labels.dtype, np.floating)
    totals = []
    for penalty in PENALTIES:
        total = 0.0
        for fold in folds:
            rest = np.setdiff1d(order, fold)
            fitted = (ridge if is_regression else logistic)(penalty).fit(features[rest], labels[rest])
            if is_regression:
                total += np.square(fitted.predict(features[fold]) - labels[fold]).sum()
            else:
                known = fitted.classes_
                total += log_loss(labels[fold], fitted.predict_proba(features[fold]), labels=known, normalize=False)
        totals.append(total)
    return totals


@pytest.fixture
def one_penalty(monkeypatch):
    monkeypatch.setattr(solving, "PENALTIES", (10.0,))


# The optimum ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_penalty")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", LAST)
def test_classes_have_the_probabilities_of_scikit_learns_logistic_regression(name, classes):
    tunable = head_alone(name, outputs=classes)
    features = features_below(tunable, name)
    labels = classes_from(features, classes, noise=0.5)

    trained = solved(tunable, labels)

    found = rows_with(labels).outputs(tunable).softmax(-1).numpy()
    expected = logistic(10.0).fit(features, labels).predict_proba(features)
    assert expected.max(1).min() < 0.9 < expected.max()  # some rows are sure, others are not
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert trained.best["penalty"] == 10.0
    assert trained.best["loss"] == pytest.approx(log_loss(labels, expected), abs=1e-3)


@pytest.mark.usefixtures("one_penalty")
def test_values_are_those_of_scikit_learns_ridge_regression():
    tunable = head_alone(outputs=1, kind="regression")
    features = features_below(tunable)
    labels = values_from(features, noise=0.5)

    trained = solved(tunable, labels, metrics=("mse",))

    found = rows_with(labels).outputs(tunable)[:, 0].numpy()
    expected = ridge(10.0).fit(features, labels).predict(features)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert trained.best["loss"] == pytest.approx(np.square(expected - labels).mean(), rel=1e-3)


@pytest.mark.usefixtures("one_penalty")
def test_a_head_on_the_mean_of_all_tokens_is_solved_too():
    tunable = head_alone(outputs=2, head="average")
    features = features_below(tunable)
    labels = classes_from(features, 2, noise=0.5)
    solved(tunable, labels)
    found = rows_with(labels).outputs(tunable).softmax(-1).numpy()
    np.testing.assert_allclose(found, logistic(10.0).fit(features, labels).predict_proba(features), atol=1e-3)


@pytest.mark.parametrize(("noise", "seeds"), [(0.0, [4]), (1.0, range(6)), (100.0, [4])], ids=str)
def test_the_penalty_has_the_least_loss_on_rows_that_were_left_out(noise, seeds):
    tunable = head_alone(outputs=2)
    features = features_below(tunable)
    labels = classes_from(features, 2, noise=noise)
    for seed in seeds:
        losses = held_out_losses(features, labels, seed=seed)
        best = solved(tunable, labels, seed=seed).best
        assert best["penalty"] == PENALTIES[int(np.argmin(losses))]
        assert best[LEFT_OUT] == pytest.approx(min(losses) / len(labels), rel=1e-3)


def test_of_many_rows_some_choose_the_penalty(monkeypatch):
    monkeypatch.setattr(solving, "_MOST_ROWS", 30)
    tunable = head_alone(outputs=2)
    features = features_below(tunable)
    labels = classes_from(features, 2, noise=1.0)
    losses = held_out_losses(features, labels, seed=1, most=30)
    best = solved(tunable, labels, seed=1).best
    assert best["penalty"] == PENALTIES[int(np.argmin(losses))]
    assert best[LEFT_OUT] == pytest.approx(min(losses) / 30, rel=1e-3)


@pytest.mark.parametrize("noise", [0.1, 100.0])
def test_the_penalty_of_values_has_the_least_loss_on_rows_that_were_left_out(noise):
    tunable = head_alone(outputs=1, kind="regression")
    features = features_below(tunable)
    labels = values_from(features, noise=noise)
    losses = held_out_losses(features, labels, seed=4)
    assert solved(tunable, labels, seed=4, metrics=("mse",)).best["penalty"] == PENALTIES[int(np.argmin(losses))]


def test_noise_is_penalised_more_than_a_clear_signal():
    tunable = head_alone(outputs=2)
    features = features_below(tunable)
    clear, unclear = (solved(tunable, classes_from(features, 2, noise=noise)).best for noise in (0.0, 100.0))
    assert clear["penalty"] < unclear["penalty"]


# Classes that rows lack -----------------------------------------------------------------------------------------------


def test_a_class_without_rows_is_never_predicted():
    tunable = head_alone(outputs=4)
    features = features_below(tunable)
    labels = np.array([0, 2, 3])[classes_from(features, 3, noise=0.5)]
    solved(tunable, labels)
    elsewhere = Examples(tokens=many_tokens(50, seed=9), states=None, labels=torch.zeros(50).long(), offsets=None)
    probabilities = torch.cat([rows.outputs(tunable).softmax(-1) for rows in (rows_with(labels), elsewhere)])
    assert probabilities[:, 1].max() < 1e-6
    assert set(probabilities.argmax(-1).tolist()) == {0, 2, 3}


@pytest.mark.usefixtures("one_penalty")
def test_two_classes_of_three_are_those_of_a_head_for_two():
    tunable = head_alone(outputs=3)
    features = features_below(tunable)
    labels = classes_from(features, 2, noise=0.5)
    solved(tunable, 2 * labels)
    found = rows_with(labels).outputs(tunable).softmax(-1)[:, [0, 2]].numpy()
    np.testing.assert_allclose(found, logistic(10.0).fit(features, labels).predict_proba(features), atol=1e-3)


def test_rows_of_a_single_class_predict_it():
    tunable = head_alone(outputs=3)
    solved(tunable, np.full(ROWS, 1))
    probabilities = rows_with(np.full(ROWS, 1)).outputs(tunable).softmax(-1)
    assert probabilities[:, 1].min() > 0.999


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_rows_are_enough(count):
    tunable = head_alone(outputs=2)
    rows = rows_with(np.arange(ROWS) % 2).take(np.arange(count))
    solve(tunable, rows, None, RECIPE, metrics=("accuracy",))
    probabilities = rows.outputs(tunable).softmax(-1)
    assert probabilities.isfinite().all()
    assert probabilities[0].argmax() == 0  # the class of the first row has at least half of the rows


def test_texts_that_are_all_the_same_give_the_shares_of_the_classes():
    tunable = head_alone(outputs=2)
    same = replace(rows_with(np.arange(20) % 4 // 3), tokens=TOKENS.take(np.zeros(20, dtype=np.int64)))
    solve(tunable, same, None, RECIPE, metrics=("accuracy",))
    np.testing.assert_allclose(same.outputs(tunable).softmax(-1).numpy(), [[0.75, 0.25]] * 20, atol=1e-3)


# What changes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAST)
def test_everything_but_the_last_linear_layer_stays_as_it_was_to_the_bit(name):
    tunable = head_alone(name)
    before = {key: value.clone() for key, value in tunable.state_dict().items()}
    trains = set(tunable.trainable())
    trained = solved(tunable, classes_from(features_below(tunable, name), 3, noise=0.5))
    after = tunable.state_dict()
    last = {f"head.stock.{LAST[name]}.weight", f"head.stock.{LAST[name]}.bias"}
    assert {key for key in before if not torch.equal(before[key], after[key])} == last
    assert set(tunable.trainable()) == trains > last  # all of the head is saved with a model that is no stock one
    assert trained.audit.trainable == sum(before[key].numel() for key in last)
    assert (trained.audit.tensors, trained.audit.moved, trained.audit.depth) == (2, 2, None)


def test_the_same_seed_gives_the_same_weights():
    features = features_below(head_alone())
    labels = classes_from(features, 3, noise=0.5)
    tunables = [head_alone() for _ in range(2)]
    records = [solved(tunable, labels, seed=7).best for tunable in tunables]
    one, other = (tunable.state_dict() for tunable in tunables)
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert {**records[0], "seconds": 0} == {**records[1], "seconds": 0}


def test_weights_do_not_depend_on_those_that_were_there():
    features = features_below(head_alone())
    labels = classes_from(features, 3, noise=0.5)
    once, twice = head_alone(), head_alone()
    solved(twice, labels[::-1].copy())
    for tunable in (once, twice):
        solved(tunable, labels)
    assert torch.equal(once.head.stock.classifier.weight, twice.head.stock.classifier.weight)


def test_validation_is_judged_and_nothing_is_chosen_on_it():
    features = features_below(head_alone())
    labels = classes_from(features, 3, noise=0.5)
    with_rows, without = head_alone(), head_alone()
    held = rows_with(labels).take(np.arange(20))
    trained = solved(with_rows, labels, validation=held)
    alone = solved(without, labels)
    outputs = held.outputs(with_rows)
    right = (outputs.argmax(-1) == held.labels).float().mean()
    assert torch.equal(trained.outputs, outputs)
    assert trained.best["validation_accuracy"] == pytest.approx(float(right))
    expected = torch.nn.functional.cross_entropy(outputs, held.labels)
    assert trained.best["validation_loss"] == pytest.approx(float(expected))
    assert alone.outputs is None
    assert torch.equal(with_rows.head.stock.classifier.weight, without.head.stock.classifier.weight)


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [Plan.span(2, 2, 2), Plan.full(4)], ids=str)
def test_a_plan_with_tuned_layers_is_refused(plan):
    tunable = head_alone(plan=plan)
    with pytest.raises(OptionError, match="schedule 'solved'"):
        solved(tunable, np.arange(ROWS) % 3)


def test_multiple_choice_is_refused():
    tunable = head_alone(outputs=1, kind="multiple choice")
    offsets = np.arange(0, ROWS + 1, 2)
    rows = Examples(tokens=TOKENS, states=None, labels=torch.zeros(ROWS // 2).long(), offsets=offsets)
    with pytest.raises(OptionError, match="schedule 'solved'"):
        solve(tunable, rows, None, RECIPE, metrics=("accuracy",))


# From the outside -----------------------------------------------------------------------------------------------------


def letters(kind="classification", rows=40):
    random = np.random.default_rng(0)
    classes = random.integers(0, 2, rows)
    texts = tuple(
        "".join(random.choice(list("xyz" if label else "abc"), 6)) + f" {row}" for row, label in enumerate(classes)
    )
    labels = tuple((classes + 0.1 * random.random(rows)).tolist() if kind == "regression" else classes.tolist())
    split = Split(texts=texts, labels=labels, rows=tuple(range(1, rows + 1)))
    return Task(
        name="letters",
        kind=kind,
        label_names=() if kind == "regression" else ("abc", "xyz"),
        train=split.take(range(24)),
        validation=split.take(range(24, 32)),
        test=split.take(range(32, rows)),
        metrics=("pearson",) if kind == "regression" else ("accuracy",),
        source="memory",
    )


@pytest.mark.parametrize(
    ("kind", "head"),
    [("classification", "family"), ("classification", "average"), ("classification", "mean"), ("regression", "family")],
)
def test_a_head_is_solved_saved_and_loaded(tmp_path, monkeypatch, kind, head):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))
    base, task = save_tiny(tmp_path / "base"), letters(kind)
    recipe = Recipe(schedule="solved", head=head, cache_dtype="float32")
    tuned = frostline.tune(base, task, plan="layers=none,head=2", recipe=recipe, output=tmp_path / "run")
    (record,) = tuned.trained.history
    assert record["penalty"] in PENALTIES
    assert tuned.metrics["test"][task.metrics[0]] > 0.8
    again = load_tuned(tmp_path / "run")
    texts = read_list(list(task.test.texts))
    torch.testing.assert_close(again.outputs(texts), tuned.outputs["test"], atol=1e-4, rtol=1e-4)
    assert "optimum" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_a_plan_with_layers_cannot_be_solved_from_the_outside_either(tmp_path):
    with pytest.raises(OptionError, match="schedule 'solved'"):
        frostline.tune(save_tiny(tmp_path / "base"), letters(), plan="2,2,2", recipe=RECIPE, cache=False)
