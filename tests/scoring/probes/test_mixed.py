"""Probes on a mix of layers against scikit-learn and against a joint minimisation of the same objective."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import check_grad, minimize
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from frostline.errors import MeasureError, OptionError
from frostline.scoring.probes.holdout import probe_rows
from frostline.scoring.probes.mixed import _Fit, fit_mixed_probe
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES

LAYERS, ROWS, WIDTH = 4, 300, 6


def evidence_of(kind="classification", *, classes=2, rows=ROWS, width=WIDTH, seed=0) -> Evidence:
    """Layers 1 and 2 each tell a part of the label, the others are noise, on unequal scales."""
    source = torch.Generator().manual_seed(seed)
    states = torch.randn(LAYERS, rows, width, generator=source, dtype=torch.float64)
    hidden = states[1, :, 0] + states[2, :, 1] + 0.3 * torch.randn(rows, generator=source, dtype=torch.float64)
    cuts = torch.quantile(hidden, torch.linspace(0, 1, classes + 1, dtype=torch.float64)[1:-1])
    labels = {"classification": torch.bucketize(hidden, cuts), "regression": hidden}
    labels["multiple choice"] = (
        torch.arange(rows) % 3 == torch.randint(3, (rows // 3,), generator=source).repeat_interleave(3)
    ).long()
    if kind == "multiple choice":
        states[1, :, 0] += 2 * labels[kind]
    return Evidence(
        states={"mean": states * torch.tensor([1.0, 10.0, 0.1, 3.0])[:, None, None] + 2},
        labels=labels[kind],
        groups=torch.arange(rows) // 3 if kind == "multiple choice" else torch.arange(rows),
        kind=kind,
        metric="pearson" if kind == "regression" else "accuracy",
        pooling="mean",
        seed=0,
    )


def parts_of(evidence):
    """Standardised states by scikit-learn, and labels, of training and held-out rows."""
    rows = probe_rows(evidence)
    states = evidence.states["mean"].numpy()
    scaled = [StandardScaler().fit(layer[rows.training.rows]) for layer in states]
    made = [
        np.stack([scaler.transform(layer[part.rows]) for scaler, layer in zip(scaled, states, strict=True)])
        for part in (rows.training, rows.held)
    ]
    return *made, rows.training.labels.numpy(), rows.held.labels.numpy()


def logistic():
    return LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("rows", "width"), [(300, 6), (102, 60)])
def test_layers_side_by_side_equal_scikit_learn_on_all_columns(classes, rows, width):
    """Also with more columns than rows, where the fit runs in the span of the rows."""
    evidence = evidence_of(classes=classes, rows=rows, width=width)
    training, held, labels, truth = parts_of(evidence)
    wide, others = (np.concatenate(list(part), axis=1) for part in (training, held))
    expected = (logistic().fit(wide, labels).predict(others) == truth).mean()
    found = fit_mixed_probe(evidence, mix="concatenated")
    assert float(found.estimate.values) == pytest.approx(expected, abs=1e-12)
    assert found.shares is None and found.layers == (0, 1, 2, 3)


@pytest.mark.parametrize(("rows", "width"), [(300, 6), (102, 60)])
def test_values_side_by_side_equal_scikit_learns_ridge(rows, width):
    evidence = evidence_of("regression", rows=rows, width=width)
    training, held, labels, truth = parts_of(evidence)
    wide, others = (np.concatenate(list(part), axis=1) for part in (training, held))
    expected = np.corrcoef(Ridge(alpha=1.0).fit(wide, labels).predict(others), truth)[0, 1]
    assert float(fit_mixed_probe(evidence, mix="concatenated").estimate.values) == pytest.approx(expected, abs=1e-9)


def joint(training, labels, outputs):
    """Shares and objective of one minimisation over the shares, the weights and the intercepts together."""
    states, target = torch.from_numpy(training), torch.from_numpy(labels)
    is_value = target.is_floating_point()
    free = 1 if is_value or outputs == 2 else outputs

    def objective(numbers):
        x = torch.from_numpy(numbers).requires_grad_()
        weights = x[LAYERS : LAYERS + WIDTH * free].view(WIDTH, free)
        logits = torch.einsum("lrw,l->rw", states, x[:LAYERS].softmax(0)) @ weights + x[LAYERS + WIDTH * free :]
        if is_value:
            loss = (logits[:, 0] - target).square().sum() + weights.square().sum()
        else:
            logits = torch.cat([torch.zeros_like(logits), logits], 1) if free == 1 else logits
            loss = F.cross_entropy(logits, target, reduction="sum") + weights.square().sum() / 2
        loss.backward()
        return loss.item(), x.grad.numpy()

    start = np.zeros(LAYERS + WIDTH * free + free)
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    )
    return torch.from_numpy(found.x[:LAYERS]).softmax(0), found.fun


@pytest.mark.parametrize(("kind", "classes"), [("classification", 2), ("classification", 3), ("regression", 2)])
def test_shares_minimise_the_joint_objective(kind, classes):
    evidence = evidence_of(kind, classes=classes)
    training, held, labels, truth = parts_of(evidence)
    shares, objective = joint(training, labels, classes)
    found = fit_mixed_probe(evidence)
    assert sum(found.shares) == pytest.approx(1)
    assert found.shares == pytest.approx(shares.tolist(), abs=5e-3)
    fit = _Fit(targets=torch.from_numpy(labels), penalty=1.0)
    value, _ = fit.value_and_slopes(torch.from_numpy(training), torch.tensor(found.shares, dtype=torch.float64))
    assert value == pytest.approx(objective, rel=1e-5)
    mixed = [np.einsum("lrw,l->rw", part, found.shares) for part in (training, held)]
    if kind == "regression":
        expected = np.corrcoef(Ridge(alpha=1.0).fit(mixed[0], labels).predict(mixed[1]), truth)[0, 1]
    else:
        expected = (logistic().fit(mixed[0], labels).predict(mixed[1]) == truth).mean()
    assert float(found.estimate.values) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("kind", "classes"), [("classification", 2), ("classification", 3), ("regression", 2)])
def test_slopes_are_the_derivatives_of_the_least_objective(kind, classes):
    training, _, labels, _ = parts_of(evidence_of(kind, classes=classes))
    fit, states = _Fit(targets=torch.from_numpy(labels), penalty=1.0), torch.from_numpy(training)
    call = lambda number: lambda x: fit.value_and_slopes(states, torch.from_numpy(x))[number]  # noqa: E731
    slopes = fit.value_and_slopes(states, torch.full((LAYERS,), 0.25, dtype=torch.float64))[1]
    error = check_grad(call(0), lambda x: call(1)(x).numpy(), np.full(LAYERS, 0.25), epsilon=1e-5)
    assert error < 1e-2 * float(slopes.norm())


def test_informative_layers_get_the_shares_and_the_mix_beats_each_of_them():
    evidence = evidence_of(rows=600)
    mixed = fit_mixed_probe(evidence)
    assert min(mixed.shares[1:3]) > 0.3
    alone = LAYER_SCORES["probe.linear"].estimate(evidence, uncertainty=False).values
    assert float(mixed.estimate.values) > float(alone.max()) + 0.03
    assert float(fit_mixed_probe(evidence, mix="concatenated").estimate.values) > float(alone.max()) + 0.1


@pytest.mark.parametrize("mix", ["weighted", "concatenated"])
@pytest.mark.parametrize("kind", ["classification", "regression", "multiple choice"])
def test_a_mix_of_one_layer_is_its_linear_probe(kind, mix):
    evidence = evidence_of(kind)
    alone = LAYER_SCORES["probe.linear"].estimate(evidence)
    found = fit_mixed_probe(evidence, mix=mix, layers=[1])
    assert float(found.estimate.values) == pytest.approx(float(alone.values[1]), abs=1e-6)
    assert [float(end) for end in found.estimate.interval()] == pytest.approx(
        [float(end[1]) for end in alone.interval()], abs=1e-5
    )


def test_constant_layers_do_no_harm():
    evidence = evidence_of()
    evidence.states["mean"][0] = 5.0
    for mix in ("weighted", "concatenated"):
        assert float(fit_mixed_probe(evidence, mix=mix).estimate.values) > 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mix": "mean"}, "must be 'weighted' or"), ({"layers": [4]}, "some of 0..3"), ({"layers": []}, "some of")],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        fit_mixed_probe(evidence_of(), **options)


def test_few_rows_are_refused():
    with pytest.raises(MeasureError, match="needs 10 for its metric"):
        fit_mixed_probe(evidence_of(rows=30))
