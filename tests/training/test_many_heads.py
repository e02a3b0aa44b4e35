"""Heads that train together are what each would be alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tiny import ALL_CONFIGS, DEPTH, tiny_encoder
from tests.training.tuning_tools import CLASSES, many_labels, many_tokens

from frostline.encoders.families import FAMILIES
from frostline.encoders.head_stack import HeadStack
from frostline.errors import AuditError, TuneError
from frostline.kernels.batch_layout import Reads
from frostline.records import Plan, Recipe
from frostline.states.frozen import FrozenStates, states_of_layers
from frostline.training.dataset import Examples
from frostline.training.loop import loss_of, train
from frostline.training.many_heads import _check_all_moved, losses_of, stacked, train_heads
from frostline.training.model import make_tunable

# All that could differ between heads: dropout, decay, warm-up, short gradients, parts of batches, own best epochs.
RECIPE = Recipe(
    epochs=4, batch=4, accumulate=2, learning_rate=2e-2, weight_decay=0.1, clip=0.5, warmup=0.2, dropout=0.3,
    cache_dtype="float32", seed=5,
)  # fmt: skip
METRICS = {
    "classification": ("accuracy",),
    "regression": ("mse", "pearson"),
    "multiple choice": ("accuracy",),
}
CASES = [
    (name, kind)
    for name in ALL_CONFIGS
    for kind in METRICS
    if kind != "multiple choice" or FAMILIES[ALL_CONFIGS[name].model_type].has_multiple_choice
]


def made_rows(kind, *, seed):
    """Random texts and labels; a question has one to three choices."""
    if kind != "multiple choice":
        labels = many_labels(seed=seed)
        return many_tokens(seed=seed), labels.float() - 0.7 if kind == "regression" else labels, None
    counts = np.random.default_rng(seed).integers(1, 4, 20)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return many_tokens(int(counts.sum()), seed=seed), torch.as_tensor(counts - 1), offsets


def rows_for(encoder, kind, *, seed, reads):
    tokens, labels, offsets = made_rows(kind, seed=seed)
    states = states_of_layers(encoder, tokens, dtype="float32", reads=reads)
    return Examples(tokens=tokens, states=states, labels=labels, offsets=offsets)


def at_layer(rows, layer):
    """The same rows with the states of one layer."""
    states = rows.states
    one = FrozenStates(states.encoder, states.tokens, layer, dtype="float32", reads=states.reads)
    one.kept = states.kept[:, layer - 1]
    return replace(rows, states=one)


def heads_alone(encoder, kind, recipe):
    outputs = CLASSES if kind == "classification" else 1
    return [
        make_tunable(
            encoder,
            Plan(layers=(), head=layer),
            outputs=outputs,
            kind=kind,
            head=recipe.head,
            dropout=recipe.dropout,
            seed=recipe.seed,
        )
        for layer in range(1, DEPTH + 1)
    ]


def both_ways(name, kind, recipe=RECIPE, *, validate=True):
    """What came out of every head and what it says afterwards, together and alone."""
    encoder = tiny_encoder(name)
    alone = heads_alone(encoder, kind, recipe)
    stack = HeadStack([tunable.head for tunable in alone])
    rows, held = (rows_for(encoder, kind, seed=seed, reads=stack.reads) for seed in (0, 1))
    given = {"metrics": METRICS[kind], "learning_rate": recipe.learning_rate}
    tunable = stacked(encoder, stack)
    together = train_heads(tunable, rows, held if validate else None, recipe, **given)
    said = held.outputs(tunable)
    each = []
    for place, one in enumerate(alone):
        layer = place + 1
        trained = train(one, at_layer(rows, layer), at_layer(held, layer) if validate else None, recipe, **given)
        each.append((together[place], trained, said[..., place], at_layer(held, layer).outputs(one)))
    return each


def assert_alike(ours, theirs):
    """Records alike but for the time they took."""
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for key in one.keys() - {"seconds"}:
            assert one[key] == pytest.approx(other[key], abs=2e-4), key


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_heads_together_are_what_each_is_alone(name, kind):
    for ours, theirs, said, said_alone in both_ways(name, kind):
        assert_alike(ours.history, theirs.history)
        assert ours.best["step"] == theirs.best["step"]
        if kind == "multiple choice":
            # A number added to all choices changes nothing: its gradient is rounding alone, which Adam makes steps of.
            said, said_alone = said.softmax(-1), said_alone.softmax(-1)
        torch.testing.assert_close(said, said_alone, atol=2e-4, rtol=2e-4)


def test_what_heads_say_of_validation_is_kept_with_the_best_epoch():
    for ours, theirs, said, _ in both_ways("bert", "classification"):
        torch.testing.assert_close(ours.outputs, theirs.outputs, atol=2e-4, rtol=2e-4)
        torch.testing.assert_close(ours.outputs, said, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["bert", "modernbert", "distilbert"])
def test_mean_pooled_heads_together_are_what_each_is_alone(name):
    for ours, theirs, said, said_alone in both_ways(name, "classification", replace(RECIPE, head="mean")):
        assert_alike(ours.history, theirs.history)
        torch.testing.assert_close(said, said_alone, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(
    "change", [{"select": "last"}, {"patience": 1}, {"evaluate_every": 3}, {"clip": 0.0}, {"schedule": "constant"}]
)
def test_the_recipe_holds_for_each_head(change):
    found = both_ways("bert", "classification", replace(RECIPE, **change))
    for ours, theirs, said, said_alone in found:
        assert_alike(ours.history, theirs.history)
        torch.testing.assert_close(said, said_alone, atol=2e-4, rtol=2e-4)
    if "patience" in change:  # heads that stop at different times
        assert len({len(ours.history) for ours, *_ in found}) > 1


def test_heads_have_best_epochs_of_their_own():
    assert len({ours.best["step"] for ours, *_ in both_ways("bert", "classification")}) > 1


def test_without_validation_the_last_weights_stay():
    for ours, theirs, said, said_alone in both_ways("bert", "classification", validate=False):
        assert ours.outputs is None
        assert_alike(ours.history, theirs.history)
        torch.testing.assert_close(said, said_alone, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("kind", METRICS)
def test_the_loss_of_every_head_is_the_loss_alone(kind):
    logits = torch.randn(6, 1 if kind == "regression" else 3, 5)
    labels = torch.randn(6) if kind == "regression" else torch.tensor([0, 1, 2, 2, 1, 0])
    each = losses_of(logits, labels, kind)
    assert each.tolist() == pytest.approx([float(loss_of(logits[..., one], labels, kind)) for one in range(5)])


def test_the_encoder_under_the_heads_stays_as_it_was():
    encoder = tiny_encoder("bert")
    before = {name: value.clone() for name, value in encoder.model.state_dict().items()}
    stack = HeadStack([tunable.head for tunable in heads_alone(encoder, "classification", RECIPE)])
    rows = rows_for(encoder, "classification", seed=0, reads=Reads.FIRST)
    tunable = stacked(encoder, stack)
    (one, *_) = train_heads(tunable, rows, None, RECIPE, metrics=("accuracy",), learning_rate=1e-2)
    for model in (encoder.model, tunable.encoder.model):
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert one.audit.depth is None
    assert one.audit.trainable == sum(value.numel() for value in stack.parameters())


def test_a_head_that_diverges_is_said():
    encoder = tiny_encoder("bert")
    stack = HeadStack([tunable.head for tunable in heads_alone(encoder, "classification", RECIPE)])
    rows = rows_for(encoder, "classification", seed=0, reads=Reads.FIRST)
    rows.states.kept[3, 2] = float("nan")
    with pytest.raises(TuneError, match="diverged at step"):
        train_heads(stacked(encoder, stack), rows, None, RECIPE, metrics=("accuracy",), learning_rate=1e-2)


def test_a_head_that_has_not_moved_is_an_error():
    before = {"weight": torch.zeros(3, 2, 2)}
    after = {"weight": torch.ones(3, 2, 2)}
    _check_all_moved(before, after, updates=2)
    after["weight"][1] = 0
    with pytest.raises(AuditError, match="weight of head 2"):
        _check_all_moved(before, after, updates=2)
