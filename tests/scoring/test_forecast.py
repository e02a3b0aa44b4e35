"""Forecasts against whole gradients and refitting, and on labels that tuning can and cannot learn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.scoring.test_kernel_ridge import refitted_choice, refitted_errors
from tests.scoring.test_text_gradients import whole_kernels
from tests.tiny import CONFIGS, DEPTH, random_tokens, save_tiny, tiny_encoder

from frostline.encoders.heads import make_head, make_mean_head
from frostline.encoders.loading import load_encoder
from frostline.errors import MeasureError, OptionError
from frostline.scoring.forecast import Forecast, forecast_plans, make_forecast
from frostline.scoring.score_inputs import Evidence, divide
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.text_gradients import HeadedEncoder
from frostline.tasks import load_task
from frostline.tasks.task import Kind

ROWS = 26
GROUPS = torch.tensor([0, 0, *range(1, 23), 5, 9])
COARSE = torch.logspace(-3, 1, 4, dtype=torch.float64).tolist()
FINE = torch.logspace(-3, 1, 16, dtype=torch.float64).tolist()


def evidence_of(name="bert", kind: Kind = "classification", *, rows=ROWS, groups=None, classes=3, seed=0) -> Evidence:
    encoder = tiny_encoder(name)
    encoder.model.double()
    source = torch.Generator().manual_seed(seed)
    values = {
        "classification": torch.randint(classes, (rows,), generator=source),
        "regression": torch.randn(rows, generator=source),
    }
    return Evidence(
        states={},
        labels=values[kind],
        groups=torch.arange(rows) if groups is None else groups,
        kind=kind,
        metric="accuracy",
        pooling="mean",
        seed=seed,
        encoder=encoder,
        tokens=random_tokens(tuple(2 + row % 4 for row in range(rows)), seed=seed),
    )


def direct_errors(evidence: Evidence, head: str, layers: tuple[int, ...], directions: int = 4) -> torch.Tensor:
    """The whole procedure for one halving: every fit is a refit, every gradient a whole one."""
    assert evidence.encoder is not None and evidence.tokens is not None
    encoder, labels = evidence.encoder, evidence.labels if evidence.has_classes else None
    made = (make_head if head == "family" else make_mean_head)(encoder, labels=1, kind=evidence.kind, seed=0)
    network = HeadedEncoder(encoder, made.double().eval().requires_grad_(False))
    features = torch.cat([network.read(evidence.tokens.take([row]))[0].detach() for row in range(len(evidence))])
    if labels is None:
        values = evidence.labels.double()
        targets = ((values - values.mean()) / values.std())[:, None]
    else:
        targets = (labels[:, None] == labels.unique()).double()
    side, errors = divide(labels, evidence.groups, 2, seed=0), torch.zeros(len(evidence), dtype=torch.float64)
    for judged in (side == 1, side == 0):
        mean, deviation = features[~judged].mean(0), features[~judged].std(0)
        deviation[deviation == 0] = torch.inf  # DistilBERT's head has features that are never active
        z = (features - mean) / deviation
        linear = z @ z.T / z.shape[1] + 1
        known, centre = linear[~judged][:, ~judged], targets[~judged].mean(0)
        centred, groups = targets[~judged] - centre, evidence.groups[~judged]
        weight = min(FINE, key=lambda one: refitted_errors(one * known, centred, groups).square().sum())
        solved = torch.linalg.solve(weight * known + torch.eye(len(known)).double(), centred)
        residual = targets[judged] - centre - weight * linear[judged][:, ~judged] @ solved
        slopes = (weight * z[~judged].T @ solved / z.shape[1]).T / deviation  # (outputs, features)
        _, sizes, vectors = torch.linalg.svd(slopes * deviation.nan_to_num(posinf=0), full_matrices=False)
        kept = (sizes > 1e-6 * sizes[0])[:directions].nonzero()[:, 0]
        ways = sizes[kept, None] * vectors[kept] / deviation
        tokens = evidence.tokens.take(judged.nonzero()[:, 0].tolist())
        *of_layers, pooler = whole_kernels(network, tokens, ways)
        scaled = [kernel / kernel.diagonal().mean() for kernel in of_layers]
        heads = [linear[judged][:, judged], *([pooler] if float(pooler.diagonal().mean()) else [])]
        top = sum(kernel / kernel.diagonal().mean() for kernel in heads) / len(heads)
        body = sum(scaled[layer] for layer in layers) / len(layers) if layers else None
        weighted = ([one * top for one in FINE] if body is None
                    else [one * top + other * body for one in COARSE for other in COARSE])  # fmt: skip
        of_rows = evidence.groups[judged]
        folds = divide(None if labels is None else labels[judged], of_rows, 5, seed=0)
        errors[judged] = refitted_choice(weighted, residual, of_rows, folds)
    return errors


@pytest.mark.parametrize("name", CONFIGS)
def test_forecasts_equal_a_direct_computation(name):
    evidence = evidence_of(name, groups=GROUPS)
    made = make_forecast(evidence, halvings=1, rank=None)
    for layers in ((), (0,), (2, 3)):
        torch.testing.assert_close(made.errors(layers), direct_errors(evidence, "family", layers))


@pytest.mark.parametrize("head", ["family", "mean"])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_forecasts_of_both_heads_and_kinds_equal_a_direct_computation(kind, head):
    evidence = evidence_of(kind=kind, classes=7)
    made = make_forecast(evidence, head=head, halvings=1, directions=2, rank=None)
    torch.testing.assert_close(made.errors((1, 4)), direct_errors(evidence, head, (1, 4), directions=2))


def test_with_shuffled_labels_no_set_of_layers_gains():
    sets = [*((layer,) for layer in range(DEPTH + 1)), (2, 3), (0, 1, 2, 3, 4)]
    gains = []
    for seed in range(5):
        estimate = make_forecast(evidence_of(rows=60, classes=2, seed=seed), halvings=2).gains(sets)
        low, _ = estimate.interval()
        assert (low <= 0).all()
        gains.append(estimate.values)
    mean, error = torch.stack(gains).mean(0), torch.stack(gains).std(0) / len(gains) ** 0.5
    assert (mean - 2.8 * error <= 0).all()  # Student's t with 4 degrees of freedom, 95%


def learnable(layer: int, *, rows: int = 120) -> Evidence:
    """Values that a direction of the features has once this layer's weights have moved a little, the move enlarged."""
    evidence = evidence_of(kind="regression", rows=rows)
    encoder, tokens = evidence.encoder, evidence.tokens
    assert encoder is not None and tokens is not None
    tokens = replace(tokens, ids=5 + tokens.ids % 6)  # few words, so that texts have something in common
    source = torch.Generator().manual_seed(layer)
    moved = encoder.copy()
    with torch.no_grad():
        for parameter in moved.parts().layers[layer - 1].values():
            parameter.add_(1e-4 * torch.randn(parameter.shape, generator=source).to(parameter))
    direction = torch.randn(encoder.width, generator=source, dtype=torch.float64)
    before, after = (
        HeadedEncoder(one, make_mean_head(one, labels=1).double().eval()).features(tokens) @ direction
        for one in (encoder, moved)
    )
    change = after - before
    labels = before / before.std() + change / change.std()
    return replace(evidence, labels=labels, tokens=tokens)


@pytest.mark.parametrize("layer", [1, 2, 3])  # what the last layer can learn, the head learns as well
def test_what_one_layer_can_learn_is_found_there(layer):
    estimate = make_forecast(learnable(layer), head="mean", halvings=2).gains([(one,) for one in range(DEPTH + 1)])
    low, _ = estimate.interval()
    assert low[layer] > 0
    assert layer in estimate.tied("high")


def test_sets_are_ranked_by_their_error_and_gains_are_over_the_head_alone():
    made = make_forecast(learnable(2), head="mean", halvings=1)
    ranked = made.ranked([(), (1,), (2,), (3, 2), (0, 1, 2, 3, 4)])
    assert [plan.error for plan in ranked] == sorted(plan.error for plan in ranked)
    alone = next(plan for plan in ranked if plan.layers == ())
    assert (alone.gain, alone.low, alone.high) == (0, 0, 0)
    for plan in ranked:
        assert plan.gain == pytest.approx(alone.error - plan.error)
        assert plan.low <= plan.gain <= plan.high
    assert torch.equal(made.errors((3, 2)), made.errors((2, 3, 3)))


def test_every_row_is_judged_once_per_halving_and_groups_never_part():
    made: Forecast = make_forecast(evidence_of(groups=GROUPS), halvings=2)
    judged = torch.cat([half.rows for half in made.halves])
    assert torch.bincount(judged).tolist() == [2] * ROWS
    for half in made.halves:
        assert not set(half.groups.tolist()) & set(GROUPS[~torch.isin(torch.arange(ROWS), half.rows)].tolist())
        for group in half.groups.unique():
            assert len(half.folds[half.groups == group].unique()) == 1


def test_multiple_choice_is_forecast_too():
    rows = torch.arange(48)
    evidence = replace(evidence_of(rows=48), kind="multiple choice", labels=(rows % 2), groups=rows // 2)
    for name in ("bert", "deberta"):  # the latter has no head for it
        encoder = tiny_encoder(name)
        assert make_forecast(replace(evidence, encoder=encoder), halvings=1).errors((2,)).isfinite().all()


def test_the_layer_score_is_the_gain_of_each_layer_alone():
    evidence = evidence_of(rows=60)
    estimate = LAYER_SCORES["forecast"].estimate(evidence, halvings=1)
    expected = make_forecast(evidence, halvings=1).gains([(layer,) for layer in range(DEPTH + 1)])
    torch.testing.assert_close(estimate.values, expected.values)
    torch.testing.assert_close(estimate.deviations, expected.deviations)


def test_plans_are_forecast_from_a_task(tmp_path):
    file = tmp_path / "rows.csv"
    lines = [f"{'abcdef'[row % 6]} {'uvwxyz'[row // 6 % 6]},{'yes' if row % 3 else 'no'}" for row in range(90)]
    file.write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    encoder, task = load_encoder(save_tiny(tmp_path / "tiny")), load_task(str(file))
    ranked = forecast_plans(encoder, task, [(), (2,), (0, 1, 2, 3, 4)], examples=60)
    assert {plan.layers for plan in ranked} == {(), (2,), (0, 1, 2, 3, 4)}
    assert ranked == forecast_plans(encoder, task, [(2,), (), (0, 1, 2, 3, 4)], examples=60)


def test_mistakes_are_refused_in_one_line():
    evidence = evidence_of()
    with pytest.raises(MeasureError, match="needs the encoder and the tokens"):
        make_forecast(replace(evidence, encoder=None))
    with pytest.raises(MeasureError, match="a half has 5 groups of 10; give more rows"):
        make_forecast(evidence.take(torch.arange(10)))
    with pytest.raises(MeasureError, match="a half has a single label"):
        make_forecast(replace(evidence, labels=torch.zeros(ROWS, dtype=torch.long)))
    with pytest.raises(OptionError, match="head 'best': must be 'family' or 'mean'"):
        make_forecast(evidence, head="best")
    for option in ("directions", "halvings", "rank"):
        with pytest.raises(OptionError, match=f"{option} 0: at least 1 is needed"):
            make_forecast(evidence, **{option: 0})
    with pytest.raises(OptionError, match=r"layer 5: the encoder has layers 1\.\.4"):
        make_forecast(evidence, halvings=1).errors((5,))
