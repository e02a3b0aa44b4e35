"""The relative gradient norm against one backward pass through a loss that is written out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from tests.tiny import ALL_CONFIGS, padded_inputs, random_tokens, tiny_encoder

from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.heads import make_head
from frostline.errors import MeasureError, OptionError
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.scores.gradient_norm import gradient_norm
from frostline.scoring.selection import DEFAULT_SCORES
from frostline.states.pooled import pooled_states
from frostline.tasks.task import Kind

LENGTHS = (5, 12, 3, 9, 2, 12, 7, 4, 6, 11, 8, 3)
CHOICES = 3


def evidence_of(name: str, kind: Kind = "classification", *, classes: int = 2, seed: int = 0) -> Evidence:
    encoder = tiny_encoder(name)
    encoder.model.double()
    tokens = random_tokens(LENGTHS)
    rows = torch.arange(len(tokens))
    labels = {
        "classification": rows % classes,
        "regression": torch.linspace(-1, 4, len(rows), dtype=torch.float64),
        "multiple choice": (rows % CHOICES == rows // CHOICES % CHOICES).long(),
    }
    states = pooled_states(encoder, tokens, poolings=["all"])
    return Evidence(
        states={"all": states["all"].double()},
        labels=labels[kind],
        groups=rows // CHOICES if kind == "multiple choice" else rows,
        kind=kind,
        metric="accuracy",
        pooling="mean",
        seed=seed,
        encoder=encoder,
        tokens=tokens,
    )


def stock_states(encoder: Encoder, evidence: Evidence) -> tuple[torch.Tensor, torch.Tensor]:
    """Hugging Face's last hidden state, with gradients, and the mask."""
    assert evidence.tokens is not None
    inputs = padded_inputs(encoder, evidence.tokens)
    return encoder.model(**inputs).last_hidden_state, inputs["attention_mask"].double()


def fitted_logits(evidence: Evidence, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Each half's outputs from scikit-learn's fit on the other half."""
    pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    half = evidence.blocks(2)
    columns = len(evidence.labels.unique()) if evidence.kind == "classification" else 1
    logits = pooled.new_zeros(len(pooled), columns)
    for number in (0, 1):
        fit_on, apply_to = (half != number), (half == number)
        scaler = StandardScaler().fit(pooled.detach()[fit_on].numpy())
        model = (
            Ridge(alpha=1.0) if evidence.kind == "regression" else LogisticRegression(C=1.0, tol=1e-12, max_iter=10**5)
        )
        model.fit(scaler.transform(pooled.detach()[fit_on].numpy()), evidence.labels[fit_on].numpy())
        scaled = (pooled[apply_to] - torch.as_tensor(scaler.mean_)) / torch.as_tensor(scaler.scale_)
        values = scaled @ torch.as_tensor(model.coef_).reshape(-1, scaled.shape[1]).T + torch.as_tensor(
            model.intercept_
        )
        if values.shape[1] < columns:  # two classes have one logit
            values = torch.cat([torch.zeros_like(values), values], 1)
        logits[apply_to] = values
    return logits


def loss_of(evidence: Evidence, logits: torch.Tensor) -> torch.Tensor:
    if evidence.kind == "regression":
        return 0.5 * (logits[:, 0] - evidence.labels).square().mean()
    if evidence.kind == "classification":
        return F.cross_entropy(logits, evidence.labels)
    return F.cross_entropy(logits.view(-1, CHOICES), evidence.labels.view(-1, CHOICES).argmax(1))


def direct(evidence: Evidence, *, fresh: int | None = None) -> torch.Tensor:
    """(layers 1..L,): the definition, with torch's own backward pass through Hugging Face's model."""
    assert evidence.encoder is not None
    encoder = unroll(evidence.encoder)
    encoder.model.zero_grad()
    states, mask = stock_states(encoder, evidence)
    if fresh is None:
        logits = fitted_logits(evidence, states, mask)
    else:
        head = make_head(encoder, labels=len(evidence.labels.unique()), seed=fresh).double().eval()
        logits = head(states, mask)
    loss_of(evidence, logits).backward()
    layers = [list(named.values()) for named in encoder.parts().layers]
    ratios = [[0.0 if p.grad is None else float(p.grad.norm() / p.detach().norm()) for p in layer] for layer in layers]
    return torch.tensor([sum(layer) / len(layer) for layer in ratios], dtype=torch.float64)


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_the_score_equals_one_backward_pass_through_the_stock_model(name):
    evidence = evidence_of(name)
    values = gradient_norm(evidence, uncertainty=False).values
    assert values[0].isnan()
    torch.testing.assert_close(values[1:], direct(evidence), rtol=1e-4, atol=0)


@pytest.mark.parametrize(("kind", "classes"), [("classification", 3), ("regression", 2), ("multiple choice", 2)])
def test_other_kinds_of_task_equal_the_written_loss(kind, classes):
    evidence = evidence_of("bert", kind, classes=classes)
    values = gradient_norm(evidence, uncertainty=False).values
    torch.testing.assert_close(values[1:], direct(evidence), rtol=1e-4, atol=0)


def test_fresh_heads_are_those_of_the_family_and_averaged():
    evidence = evidence_of("bert", classes=3)
    values = gradient_norm(evidence, head="fresh", uncertainty=False).values
    torch.testing.assert_close(values[1:], torch.stack([direct(evidence, fresh=seed) for seed in range(3)]).mean(0))


def test_the_uncertainty_leaves_out_blocks_of_rows_under_the_same_heads(monkeypatch):
    monkeypatch.setattr("frostline.scoring.scores.gradient_norm.BLOCKS", len(LENGTHS))
    evidence = evidence_of("bert")
    estimate = gradient_norm(evidence)
    encoder = evidence.encoder
    logits = fitted_logits(evidence, *stock_states(encoder, evidence))
    rows = torch.arange(len(LENGTHS))
    without = []
    for row in rows:
        encoder.model.zero_grad()
        loss = F.cross_entropy(logits[rows != row], evidence.labels[rows != row])
        loss.backward(retain_graph=True)
        layers = [list(named.values()) for named in encoder.parts().layers]
        without.append([sum(float(p.grad.norm() / p.detach().norm()) for p in layer) / len(layer) for layer in layers])
    without = torch.tensor(without, dtype=torch.float64)
    expected = (len(rows) - 1) / len(rows) * (without - without.mean(0)).square().sum(0)
    torch.testing.assert_close(estimate.deviations.square().sum(0)[1:], expected, rtol=1e-3, atol=0)


def test_a_class_of_one_row_is_unknown_to_the_other_half():
    evidence = evidence_of("bert")
    labels = evidence.labels.clone()
    labels[3] = 2
    values = gradient_norm(replace(evidence, labels=labels)).values
    assert bool((values[1:] > 0).all()) and bool(values[1:].isfinite().all())


def test_no_more_rows_than_asked_for_are_used():
    evidence = evidence_of("bert")
    drawn = torch.randperm(len(evidence), generator=torch.Generator().manual_seed(0))[:8].sort().values
    some = gradient_norm(evidence, examples=8, uncertainty=False).values
    torch.testing.assert_close(some[1:], direct(evidence.take(drawn)), rtol=1e-4, atol=0)
    questions = evidence_of("bert", "multiple choice")
    kept = torch.randperm(4, generator=torch.Generator().manual_seed(0))[:3]
    rows = torch.isin(questions.groups, kept).nonzero()[:, 0]
    some = gradient_norm(questions, examples=3, uncertainty=False).values
    torch.testing.assert_close(some[1:], direct(questions.take(rows)), rtol=1e-4, atol=0)


def test_weights_that_are_all_zero_are_left_out():
    evidence = evidence_of("bert")
    bias = evidence.encoder.model.encoder.layer[0].attention.self.query.bias
    torch.nn.init.zeros_(bias)
    assert bool(gradient_norm(evidence, uncertainty=False).values[1:].isfinite().all())


@pytest.mark.parametrize("name", ["bert", "albert", "modernbert"])
def test_the_encoder_is_left_as_it_was(name):
    encoder = tiny_encoder(name)
    encoder.family.layers(encoder.model)[1].train()
    next(encoder.model.parameters()).requires_grad_(False)
    needs = [parameter.requires_grad for parameter in encoder.model.parameters()]
    modes = [module.training for module in encoder.model.modules()]
    weights = {key: value.clone() for key, value in encoder.model.state_dict().items()}
    gradient_norm(replace(evidence_of(name), encoder=encoder))
    assert [parameter.requires_grad for parameter in encoder.model.parameters()] == needs
    assert [module.training for module in encoder.model.modules()] == modes
    assert all(parameter.grad is None for parameter in encoder.model.parameters())
    assert all(torch.equal(value, weights[key]) for key, value in encoder.model.state_dict().items())


def test_what_cannot_be_computed_is_one_line():
    evidence = evidence_of("bert")
    with pytest.raises(MeasureError, match="needs the encoder"):
        gradient_norm(replace(evidence, encoder=None))
    with pytest.raises(MeasureError, match="at least two classes"):
        gradient_norm(replace(evidence, labels=torch.zeros_like(evidence.labels)))
    with pytest.raises(MeasureError, match="one half has a single class"):
        gradient_norm(replace(evidence, labels=(torch.arange(len(evidence)) == 0).long()))
    with pytest.raises(OptionError, match="examples 1: at least 2"):
        gradient_norm(evidence, examples=1)
    with pytest.raises(OptionError, match="must be 'fitted' or 'fresh'"):
        gradient_norm(evidence, head="none")


def test_it_is_measured_only_on_request():
    assert "gradient_norm" in LAYER_SCORES and "gradient_norm" not in DEFAULT_SCORES
