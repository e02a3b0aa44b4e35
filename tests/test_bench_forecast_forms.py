"""Other forms of the forecast in `bench/forecast_forms.py`, against direct computations."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.search.race_tools import save_shallow, write_rows

from frostline.encoders.loading import load_encoder
from frostline.plans.learning_rates import learning_rate_for
from frostline.records import Plan
from frostline.scoring.forecast import Forecast, Half
from frostline.scoring.score_inputs import Evidence, divide, group_numbers
from frostline.tasks import load_task

BENCH = Path(__file__).parents[1] / "bench"
DEPTH, WIDTH = 2, 32
PLANS = [Plan.span(1, 1, DEPTH), Plan.span(2, 2, DEPTH), Plan.full(DEPTH)]


@pytest.fixture(scope="module")
def forms():
    """The module of the bench, which imports others by their bare names."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCH))
    try:
        yield importlib.import_module("forecast_forms")
    finally:
        sys.path.remove(str(BENCH))
        for name in set(sys.modules) - before:
            if str(BENCH) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def kernel(rows, *, seed):
    features = torch.randn(rows, 2 * rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    products = features @ features.T
    return products / products.diagonal().mean()


def half(rows=24):
    draw = torch.Generator().manual_seed(0)
    return Half(
        rows=torch.arange(rows),
        head=kernel(rows, seed=0),
        layers=torch.stack([kernel(rows, seed=layer) for layer in range(1, DEPTH + 2)]),
        targets=torch.randn(rows, 2, generator=draw, dtype=torch.float64),
        groups=torch.arange(rows),
        folds=torch.arange(rows) % 3,
    )


def test_the_errors_of_a_flow_are_those_of_many_small_steps_of_gradient_descent(forms):
    own = half()
    errors = forms.flow_errors(own.head, own)
    time, steps = forms.TIMES[4], 20_000
    total = 0.0
    for fold in range(3):
        held, rest = own.folds == fold, own.folds != fold
        seen, ahead = own.head[rest][:, rest], own.head[held][:, rest]
        target, fitted, guesses = own.targets[rest], torch.zeros_like(own.targets[rest]), 0.0
        for _ in range(steps):
            pull = time / steps / int(rest.sum()) * (target - fitted)
            fitted, guesses = fitted + seen @ pull, guesses + ahead @ pull
        total += float((own.targets[held] - guesses).square().sum())
    assert float(errors[4]) == pytest.approx(total / len(own.targets), rel=1e-3)


def test_plans_have_the_kernels_of_their_layers_at_their_rates(forms):
    own = half()
    forecast = Forecast([own], own.groups, seed=0)
    gains = forms.gains_with_rate_and_steps(forecast, PLANS, width=WIDTH)
    unit = learning_rate_for(PLANS[-1], WIDTH)
    head = forms.head_rate_for(WIDTH) / unit
    errors = torch.stack(
        [
            forms.flow_errors(head * own.head + learning_rate_for(plan, WIDTH) / unit * own.layers[layers].sum(0), own)
            for plan, layers in zip(PLANS, ([1], [2], [0, 1, 2]), strict=True)
        ]
    )
    best = min(range(len(forms.TIMES)), key=lambda place: float(errors[:, place].mean()))
    assert gains == pytest.approx((-errors[:, best]).tolist())


def test_the_layer_whose_kernel_holds_the_targets_has_the_largest_gain(forms):
    own = half(60)
    unit = torch.eye(60, dtype=torch.float64)
    holds = own.targets @ own.targets.T / own.targets.square().sum(1).mean()
    own = replace(own, head=0.01 * unit, layers=torch.stack([unit, holds, unit]))
    gains = forms.gains_with_rate_and_steps(Forecast([own], own.groups, seed=0), PLANS[:2], width=WIDTH)
    assert gains[0] > gains[1]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    encoder = load_encoder(save_shallow(folder / "encoder"))
    split = load_task(write_rows(folder / "rows.csv", 120), splits=False).train
    return Evidence(
        states={},
        labels=torch.tensor(split.labels),
        groups=group_numbers(split),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=0,
        encoder=encoder,
        tokens=encoder.tokenize(split.texts, split.pairs),
        split=split,
    )


def test_the_warm_up_trains_a_copy_on_the_half_that_is_not_judged(forms, evidence, monkeypatch):
    seen = []
    warmed_up = forms.warmed_up

    def recording(given, steps):
        seen.append((set(given.split.texts), warmed_up(given, steps)))
        return seen[-1][1]

    judged = []
    make = forms.make_forecast

    def forecasting(given):
        judged.append((set(given.split.texts), given.encoder))
        return make(given, halvings=1)

    before = {name: value.clone() for name, value in evidence.encoder.model.state_dict().items()}
    monkeypatch.setattr(forms, "warmed_up", recording)
    monkeypatch.setattr(forms, "make_forecast", forecasting)
    gains = forms.gains_after_warm_up(evidence, PLANS, steps=2)
    assert len(gains) == len(PLANS)
    assert len(seen) == len(judged) == 2
    for (trained, encoder), (forecast, used) in zip(seen, judged, strict=True):
        assert trained | forecast == set(evidence.split.texts)
        assert not trained & forecast
        assert used is encoder
        assert any(not value.equal(before[name]) for name, value in encoder.model.state_dict().items())
    for name, value in evidence.encoder.model.state_dict().items():
        assert value.equal(before[name])
    sides = divide(evidence.labels, evidence.groups, 2, seed=0)
    assert {len(seen[0][0]), len(seen[1][0])} <= {int((sides == side).sum()) for side in (0, 1)}
