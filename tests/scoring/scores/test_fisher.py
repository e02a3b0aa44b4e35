"""The Fisher score against a loop over one example and one label at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.tiny import ALL_CONFIGS, random_tokens, tiny_encoder

from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.heads import make_head
from frostline.errors import MeasureError, OptionError
from frostline.scoring.fisher.label_weights import multinomial_root
from frostline.scoring.fisher.sample import FisherSample
from frostline.scoring.fisher.squared_gradients import squares_form_in_batches
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.scores.fisher import EXAMPLES, Norm, estimate_fisher
from frostline.scoring.uncertainty import Estimate
from frostline.tasks.task import Kind

LENGTHS = (5, 12, 3, 9, 2, 12)
QUESTIONS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])  # the second has two choices
CHOICE_LENGTHS = (5, 7, 4, 9, 2, 3, 12, 8)
RIGHT = torch.tensor([0, 1, 0, 1, 0, 0, 0, 1])
NAMES = [name for name in LAYER_SCORES.names() if name.split(".")[0] == "fisher"]


def double_encoder(name: str) -> Encoder:
    encoder = tiny_encoder(name)
    encoder.model.double()
    return encoder


def evidence_of(encoder: Encoder, kind: Kind = "classification", *, classes: int = 2, seed: int = 0) -> Evidence:
    tokens = random_tokens(CHOICE_LENGTHS if kind == "multiple choice" else LENGTHS)
    rows = torch.arange(len(tokens))
    labels = {
        "classification": rows % classes,
        "regression": torch.linspace(-1, 4, len(rows)),
        "multiple choice": RIGHT,
    }
    return Evidence(
        states={},
        labels=labels[kind],
        groups=QUESTIONS if kind == "multiple choice" else rows,
        kind=kind,
        metric="accuracy",
        pooling="mean",
        seed=seed,
        encoder=encoder,
        tokens=tokens,
    )


def loop(evidence: Evidence, *, label: str = "expected", seed: int = 0, draws=None) -> list[dict[str, torch.Tensor]]:
    """Equation 1 as it is written: every example alone, every label alone, whole gradients squared."""
    assert evidence.encoder is not None and evidence.tokens is not None
    encoder = unroll(evidence.encoder)
    parameters = [(layer, name, p) for layer, named in enumerate(encoder.parts().layers) for name, p in named.items()]
    sums = [torch.zeros_like(p) for _, _, p in parameters]
    is_choice = evidence.kind == "multiple choice"
    unit = evidence.groups if is_choice else torch.arange(len(evidence))
    kind = "classification" if is_choice and not encoder.family.has_multiple_choice else evidence.kind
    outputs = len(evidence.labels.unique()) if evidence.kind == "classification" else 1
    head = make_head(encoder, labels=outputs, kind=kind, seed=seed).double().eval()
    count = int(unit.max()) + 1
    for example in range(count):
        rows = (unit == example).nonzero()[:, 0].tolist()
        logits = torch.cat([one_output(encoder, head, evidence.tokens.take([row])) for row in rows])
        labels = evidence.labels[rows]
        true = int(labels.argmax()) if is_choice else labels[0]
        draw = None if draws is None else draws[example]
        for weight, log_p in answers(logits.flatten(), evidence.kind, label, true, draw):
            found = torch.autograd.grad(log_p, [p for _, _, p in parameters], retain_graph=True, materialize_grads=True)
            for into, gradient in zip(sums, found, strict=True):
                into += weight * gradient.square() / count
    diagonals: list[dict[str, torch.Tensor]] = [{} for _ in range(encoder.depth)]
    for (layer, name, _), total in zip(parameters, sums, strict=True):
        diagonals[layer][name] = total
    return diagonals


def one_output(encoder, head, tokens):
    layout = encoder.layout(tokens)
    states = encoder.run(encoder.embed(tokens, layout), layout, 1, encoder.depth, padded=True)[None]
    return head(states[None] if head.kind == "multiple choice" else states).flatten()


def answers(logits, kind, label, true, draw):
    """Pairs of a weight and the log-probability to differentiate."""
    if kind == "regression":
        output = logits[0]
        if label == "logit":
            return [(1.0, output)]
        if label == "expected":  # three points that have the moments of a Gaussian: exact for a square
            targets = [(1 / 6, -(3**0.5)), (2 / 3, 0.0), (1 / 6, 3**0.5)]
            return [(weight, -0.5 * (output.detach() + step - output) ** 2) for weight, step in targets]
        target = true if label == "true" else output.detach() + torch.special.ndtri(draw)
        return [(1.0, -0.5 * (target - output) ** 2)]
    log_p = logits.log_softmax(0)
    p = log_p.detach().exp()
    if label in ("expected", "logit"):
        return [(p[y], (log_p if label == "expected" else logits)[y]) for y in range(len(p))]
    return [(1.0, log_p[int(true) if label == "true" else int((draw > p.cumsum(0)[:-1]).sum())])]


def fisher_diagonal(evidence, *, label="expected", heads=1):
    """The Fisher diagonal of each of layers 1..L that scores are taken of: by parameter name, (heads, *shape)."""
    sample = FisherSample(evidence, label=label, examples=EXAMPLES, heads=heads, blocks=1)
    layers = [{name: sums[:, 0] / len(sample) for name, sums in squares.by_name().items()}
              for squares in sample.squares()]  # fmt: skip
    return layers[::-1]


def assert_same(found, expected, *, tolerance=1e-5, head=0):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        largest = max(float(value.max()) for value in theirs.values())
        for name, value in theirs.items():
            torch.testing.assert_close(
                ours[name][head].double(), value.double(), rtol=tolerance, atol=tolerance * 1e-6 * largest, msg=name
            )


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("kind", ["classification", "regression", "multiple choice"])
def test_the_diagonal_equals_a_loop_over_examples_and_labels(name, kind):
    evidence = evidence_of(double_encoder(name), kind)
    assert_same(fisher_diagonal(evidence, heads=1), loop(evidence))


@pytest.mark.parametrize("name", ["bert", "deberta-v2 convolution", "modernbert mean pooling"])
@pytest.mark.parametrize("classes", [3, 5])
def test_more_classes_than_two_are_exact_too(name, classes):
    evidence = evidence_of(double_encoder(name), classes=classes)
    assert_same(fisher_diagonal(evidence, heads=1), loop(evidence))


@pytest.mark.parametrize("label", ["true", "sampled", "logit"])
@pytest.mark.parametrize("kind", ["classification", "regression", "multiple choice"])
def test_other_labels_and_logits_equal_the_loop(kind, label):
    evidence = evidence_of(double_encoder("bert"), kind, classes=3)
    source = torch.Generator().manual_seed(evidence.seed)
    count = 3 if kind == "multiple choice" else len(evidence)
    torch.randperm(count, generator=source)
    draws = torch.rand(1, count, generator=source, dtype=torch.float64)[0]
    expected = loop(evidence, label=label, draws=draws)
    assert_same(fisher_diagonal(evidence, label=label, heads=1), expected)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_single_precision_is_good_to_five_digits(name):
    evidence = evidence_of(tiny_encoder(name))
    exact = fisher_diagonal(replace(evidence, encoder=double_encoder(name)), heads=1)
    for ours, theirs in zip(fisher_diagonal(evidence, heads=1), exact, strict=True):
        for parameter, value in theirs.items():
            if not parameter.endswith(("key.bias",)):  # zero in exact arithmetic
                error = (ours[parameter] - value).norm() / value.norm()
                assert error < 1e-5, parameter


def test_batches_that_do_not_fit_give_the_same(monkeypatch):
    evidence = evidence_of(double_encoder("bert"), "multiple choice")
    expected = fisher_diagonal(evidence, heads=2)
    monkeypatch.setattr("frostline.scoring.fisher.squared_gradients._MOST_KEPT", 0)
    monkeypatch.setattr("frostline.scoring.fisher.squared_gradients.TOKENS_PER_BATCH", 30)
    found = fisher_diagonal(evidence, heads=2)
    for head in (0, 1):
        assert_same(found, [{name: v[head] for name, v in layer.items()} for layer in expected], head=head)


@pytest.mark.parametrize("norm", ["frobenius", "trace", "mean"])
def test_a_score_is_the_mean_over_heads_of_the_norm(norm):
    evidence = evidence_of(double_encoder("bert"), classes=3)
    scores = []
    for head in range(2):
        diagonals = [torch.cat([v.flatten() for v in layer.values()]) for layer in loop(evidence, seed=head)]
        norms = {"frobenius": torch.linalg.vector_norm, "trace": torch.sum, "mean": torch.mean}
        scores.append(torch.stack([norms[norm](diagonal) for diagonal in diagonals]))
    for uncertainty in (True, False):
        found = estimate_fisher(evidence, norm=norm, heads=2, uncertainty=uncertainty).values
        torch.testing.assert_close(found[1:], torch.stack(scores).mean(0), rtol=1e-9, atol=0)
        assert found[0].isnan()


def test_blocks_of_examples_and_heads_make_the_uncertainty():
    evidence = evidence_of(double_encoder("bert"))
    found = estimate_fisher(evidence, heads=3)
    rows = range(len(evidence))  # fewer than the usual number of blocks, so that each block is one row
    others = [evidence.take(torch.tensor([other for other in rows if other != row])) for row in rows]
    without_row = torch.stack([estimate_fisher(rest, uncertainty=False).values for rest in others])
    by_head = torch.stack(
        [
            torch.stack([torch.cat([value[head].flatten() for value in layer.values()]).norm() for layer in diagonals])
            for diagonals in [fisher_diagonal(evidence, heads=3)]
            for head in range(3)
        ]
    )
    jackknife = (len(rows) - 1) / len(rows) * (without_row - without_row.mean(0)).square().sum(0)
    between_heads = by_head.var(0) / 3
    assert found.deviations is not None
    variance = found.deviations.square().sum(0)
    torch.testing.assert_close(variance[1:], jackknife[1:] + between_heads, rtol=1e-7, atol=0)
    assert 2 <= found.freedom <= 2 + len(rows) - 1
    assert found.method == "blocks"


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_score_is_defined_for_layers_and_not_for_embeddings(name):
    evidence = evidence_of(tiny_encoder("bert"))
    estimate = LAYER_SCORES[name].estimate(evidence)
    assert estimate.values.dtype == torch.float64
    assert estimate.values[0].isnan()
    assert bool((estimate.values[1:] > 0).all())
    interval = estimate.interval()
    assert interval is not None and bool((interval[0] < interval[1])[1:].all())
    again = LAYER_SCORES[name].estimate(evidence_of(tiny_encoder("bert")))
    assert torch.equal(again.values[1:], estimate.values[1:])


def test_six_scores_are_registered():
    assert NAMES == ["fisher", "fisher.trace", "fisher.mean", "fisher.true", "fisher.sampled", "fisher.released"]


def test_the_released_score_is_that_of_one_text_with_padding_for_words_and_logits():
    """A loop over the heads, through Hugging Face's model without a mask."""
    evidence = evidence_of(double_encoder("bert"), classes=3)
    encoder = evidence.encoder
    (row,) = torch.randperm(len(evidence), generator=torch.Generator().manual_seed(0))[:1].tolist()
    ids = evidence.tokens.take([row]).ids.tolist()
    ids += [encoder.config.pad_token_id] * (max(LENGTHS) - len(ids))
    expected = []
    for number in range(3):
        head = make_head(encoder, labels=3, kind="classification", seed=number).double().eval()
        states = encoder.model(input_ids=torch.tensor([ids])).last_hidden_state  # no mask: padding is text
        logits = head(states)[0]
        squares = [{name: torch.zeros_like(p) for name, p in layer.named_parameters()}
                   for layer in encoder.model.encoder.layer]  # fmt: skip
        for y, p in enumerate(logits.softmax(0).detach()):
            encoder.model.zero_grad()
            logits[y].backward(retain_graph=True)
            for layer, sums in zip(encoder.model.encoder.layer, squares, strict=True):
                for name, parameter in layer.named_parameters():
                    sums[name] += p * parameter.grad.square()
        expected.append([torch.cat([value.flatten() for value in sums.values()]).norm() for sums in squares])
    found = LAYER_SCORES["fisher.released"].estimate(evidence, uncertainty=False).values
    torch.testing.assert_close(found[1:], torch.tensor(expected).mean(0).to(found), rtol=1e-5, atol=0)


def test_the_head_matters():
    encoder = tiny_encoder("bert")
    first, second = (estimate_fisher(evidence_of(encoder, seed=seed), heads=1).values[1:] for seed in (0, 1))
    assert not torch.allclose(first, second, rtol=1e-2)


@pytest.mark.parametrize("label", ["expected", "true"])
def test_the_order_of_examples_does_not_matter(label):
    evidence = evidence_of(double_encoder("bert"), classes=3)
    order = torch.tensor([3, 1, 5, 0, 4, 2])  # classes first come in the same order: they are numbered by that
    first, second = (
        estimate_fisher(e, label=label, uncertainty=False).values for e in (evidence, evidence.take(order))
    )
    torch.testing.assert_close(first[1:], second[1:], rtol=1e-10, atol=0)


@pytest.mark.parametrize("label", ["expected", "true", "sampled"])
def test_names_of_labels_do_not_matter(label):
    evidence = evidence_of(double_encoder("bert"), classes=3)
    renamed = replace(evidence, labels=torch.tensor([7, 4, 9])[evidence.labels])
    first, second = (estimate_fisher(e, label=label, uncertainty=False).values for e in (evidence, renamed))
    assert torch.equal(first[1:], second[1:])


def many_classes(encoder: Encoder, *, classes: int, rows: int = 40, seed: int = 0) -> Evidence:
    return Evidence(
        states={},
        labels=torch.arange(rows) % classes,
        groups=torch.arange(rows),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=seed,
        encoder=encoder,
        tokens=random_tokens(tuple(3 + row % 9 for row in range(rows))),
    )


def exact_and_sampled(monkeypatch, *, norm: Norm, seeds: int = 12) -> tuple[torch.Tensor, list[Estimate]]:
    """The exact score of twelve classes for several seeds, (seeds, layers 1..L), and the usual estimate."""
    encoder = double_encoder("bert")
    sampled = [estimate_fisher(many_classes(encoder, classes=12, seed=seed), norm=norm) for seed in range(seeds)]
    monkeypatch.setattr("frostline.scoring.scores.fisher.MOST_EXACT", 12)
    exact = [
        estimate_fisher(many_classes(encoder, classes=12, seed=seed), norm=norm, uncertainty=False).values[1:]
        for seed in range(seeds)
    ]
    return torch.stack(exact), sampled


def test_labels_of_many_classes_are_sampled_without_bias(monkeypatch):
    exact, sampled = exact_and_sampled(monkeypatch, norm="trace")
    ratios = torch.stack([estimate.values[1:] for estimate in sampled]) / exact
    error = ratios.std(0) / len(ratios) ** 0.5
    assert bool((error > 0).all())
    assert bool(((ratios.mean(0) - 1).abs() < 3.5 * error).all())


@pytest.mark.parametrize("norm", ["frobenius", "trace"])
def test_intervals_of_sampled_labels_contain_the_exact_score(monkeypatch, norm):
    exact, sampled = exact_and_sampled(monkeypatch, norm=norm)
    ends = [estimate.interval() for estimate in sampled]
    contains = [(low[1:] <= values) & (values <= high[1:]) for (low, high), values in zip(ends, exact, strict=True)]
    assert torch.stack(contains).double().mean() >= 0.95
    ratios = torch.stack([estimate.values[1:] for estimate in sampled]) / exact
    reach = torch.stack([(high - low)[1:] / 2 for low, high in ends]) / exact
    # The norm of noisy squares is too large, by 3% for so few texts; that is a small part of an interval.
    assert bool(((ratios.mean(0) - 1).abs() < reach.mean(0) / 3).all())


def test_up_to_five_classes_are_exact_and_more_equal_sampled_labels():
    encoder = tiny_encoder("bert")
    exact, sampled = (
        estimate_fisher(many_classes(encoder, classes=classes), uncertainty=False).values[1:] for classes in (5, 6)
    )
    by_name = [
        estimate_fisher(many_classes(encoder, classes=classes), label="sampled", uncertainty=False).values[1:]
        for classes in (5, 6)
    ]
    assert not torch.equal(exact, by_name[0])
    assert torch.equal(sampled, by_name[1])


def test_no_more_than_the_asked_for_examples_are_used():
    evidence = evidence_of(double_encoder("bert"))
    some = estimate_fisher(evidence, examples=2, uncertainty=False).values[1:]
    pairs = [
        estimate_fisher(evidence.take(torch.tensor([a, b])), uncertainty=False).values[1:]
        for a in range(len(evidence))
        for b in range(a + 1, len(evidence))
        if evidence.labels[a] != evidence.labels[b]
    ]
    assert any(torch.allclose(some, pair, rtol=1e-9) for pair in pairs)


@pytest.mark.parametrize("name", ["bert", "albert", "deberta", "modernbert"])
def test_the_encoder_is_left_as_it_was(name):
    encoder = tiny_encoder(name)
    layers = encoder.family.layers(encoder.model)
    layers[1].train()
    next(layers[0].parameters()).requires_grad_(False)
    weights = {key: value.clone() for key, value in encoder.model.state_dict().items()}
    wanted = [parameter.requires_grad for parameter in encoder.model.parameters()]
    modes = [module.training for module in encoder.model.modules()]
    state = torch.get_rng_state()
    estimate_fisher(evidence_of(encoder))
    assert all(parameter.grad is None for parameter in encoder.model.parameters())
    assert [parameter.requires_grad for parameter in encoder.model.parameters()] == wanted
    assert [module.training for module in encoder.model.modules()] == modes
    assert not any(module._forward_hooks for module in encoder.model.modules())
    assert torch.equal(torch.get_rng_state(), state)
    for key, value in encoder.model.state_dict().items():
        assert torch.equal(value, weights[key])


def test_dropout_is_off():
    encoder = tiny_encoder("bert")
    expected = estimate_fisher(evidence_of(encoder), uncertainty=False).values
    encoder.model.train()
    assert torch.equal(estimate_fisher(evidence_of(encoder), uncertainty=False).values[1:], expected[1:])


def test_only_deberta_runs_its_texts_one_at_a_time():
    is_fast = {
        name: squares_form_in_batches(unroll(tiny_encoder(name)), random_tokens(LENGTHS)) for name in ALL_CONFIGS
    }
    assert is_fast == {name: not name.startswith("deberta") for name in ALL_CONFIGS}


def test_the_root_of_the_multinomial_covariance():
    logits = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits[0] *= 50
    logits[1, 3:] = -torch.inf
    p = logits.softmax(1)
    root = multinomial_root(p)
    assert root.shape == (7, 5, 4)
    expected = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    torch.testing.assert_close(root @ root.transpose(1, 2), expected, rtol=1e-9, atol=1e-15)


def test_states_alone_are_refused():
    evidence = replace(evidence_of(tiny_encoder("bert")), encoder=None)
    with pytest.raises(MeasureError, match="need the encoder"):
        estimate_fisher(evidence)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "sample"}, "did you mean sampled"),
        ({"norm": "frobenious"}, "did you mean frobenius"),
        ({"heads": 0}, "heads 0: at least 1"),
        ({"examples": 0}, "examples 0: at least 1"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        estimate_fisher(evidence_of(tiny_encoder("bert")), **options)


def test_a_single_class_is_refused():
    evidence = evidence_of(tiny_encoder("bert"))
    with pytest.raises(MeasureError, match="at least two classes"):
        estimate_fisher(replace(evidence, labels=torch.zeros_like(evidence.labels)))
