"""What holds for every method on every family: a new method or family is covered without editing this file."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.plans.methods.tuned import OUTPUTS, PLANS, logits, shake, states, tuned
from tests.tiny import CONFIGS, random_tokens, tiny_encoder

from frostline.errors import OptionError
from frostline.plans.methods import METHODS
from frostline.records import Plan
from frostline.training.freeze_audit import Audit
from frostline.training.model import Tunable, make_tunable

every_method = pytest.mark.parametrize("method", METHODS.names())
every_family = pytest.mark.parametrize("name", CONFIGS)


def train(tunable: Tunable, audit: Audit, *, steps: int = 3) -> None:
    """A few steps of AdamW with dropout, watched."""
    tokens = random_tokens()
    layout = tunable.encoder.layout(tokens)
    start = tunable.start(tokens, layout)
    labels = torch.arange(len(layout)) % OUTPUTS
    optimizer = torch.optim.AdamW(tunable.trainable().values(), lr=1e-2)
    tunable.train()
    for _ in range(steps):
        torch.nn.functional.cross_entropy(tunable.logits(start, layout), labels).backward()
        audit.after_backward(tunable.depth_of_backward)
        optimizer.step()
        audit.after_step()
        optimizer.zero_grad(set_to_none=True)
    tunable.eval()


def layers_in(tunable: Tunable) -> set[int]:
    """The numbers of the layers whose parameters train, by their names alone."""
    prefix = f"model.{tunable.encoder.family.layers_path}."
    found = set()
    for name in tunable.trainable():
        if not name.startswith("head."):
            assert name.startswith(prefix), f"{name} is not in a layer"
            found.add(int(name.removeprefix(prefix).split(".")[0]) + 1)
    return found


@every_method
@every_family
@pytest.mark.parametrize("plan", PLANS)
def test_only_the_chosen_layers_and_the_head_train(method, name, plan):
    layers, head = PLANS[plan]
    tunable = tuned(name, method, layers, head)
    shared = name == "albert" and plan == "all"
    assert layers_in(tunable) == ({1} if shared else set(layers))
    assert all(parameter.requires_grad for parameter in tunable.head.parameters())


@every_method
@every_family
@pytest.mark.parametrize("plan", PLANS)
def test_training_moves_what_trains_and_nothing_else(method, name, plan):
    torch.manual_seed(0)
    tunable = tuned(name, method, *PLANS[plan])
    frozen = {key: value.clone() for key, value in tunable.named_parameters() if not value.requires_grad}
    audit = Audit(tunable)
    with torch.no_grad():
        before = logits(tunable)
    train(tunable, audit)
    audit.at_end(tunable.depth_of_backward, updates=2)
    after = dict(tunable.named_parameters())
    assert all(torch.equal(after[key], value) for key, value in frozen.items())
    with torch.no_grad():
        assert not torch.allclose(logits(tunable), before, atol=1e-4)


@every_method
@every_family
@pytest.mark.parametrize("plan", PLANS)
def test_packed_and_stock_padded_layers_give_the_same(method, name, plan):
    tunable = shake(tuned(name, method, *PLANS[plan]))
    with torch.inference_mode():
        torch.testing.assert_close(logits(tunable), logits(tunable, padded=True), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(states(tunable), states(tunable, padded=True), atol=1e-5, rtol=1e-5)


@every_method
@every_family
def test_packed_and_stock_padded_layers_give_the_same_gradients(method, name):
    tunable = shake(tuned(name, method))
    gradients = []
    for padded in (False, True):
        tunable.zero_grad(set_to_none=True)
        (logits(tunable, padded=padded) ** 2).mean().backward()
        gradients.append({key: value.grad for key, value in tunable.trainable().items()})
    for key, value in gradients[1].items():
        assert value is not None, f"no gradient reaches {key}"
        torch.testing.assert_close(gradients[0][key], value, atol=1e-5, rtol=1e-3)


@every_method
@every_family
def test_states_below_the_lowest_tuned_layer_and_the_given_encoder_stay_as_they_are(method, name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    plain = {key: value.clone() for key, value in encoder.model.state_dict().items()}
    layout = encoder.layout(tokens)
    tunable = shake(tuned(name, method, (3, 4), encoder=encoder))
    with torch.inference_mode():
        below = encoder.run(encoder.embed(tokens, layout), layout, 1, 2)
        torch.testing.assert_close(tunable.start(tokens, layout), below, atol=0, rtol=0)
    assert list(encoder.model.state_dict()) == list(plain)
    assert all(torch.equal(encoder.model.state_dict()[key], value) for key, value in plain.items())


@every_method
@every_family
def test_a_copy_shares_nothing_with_what_it_was_copied_from(method, name):
    tunable = shake(tuned(name, method))
    with torch.inference_mode():
        before = [logits(tunable, padded=padded) for padded in (False, True)]
        other = copy.deepcopy(tunable)
        shake(other)
        for padded, was in zip((False, True), before, strict=True):
            assert torch.equal(logits(tunable, padded=padded), was)
            assert not torch.allclose(logits(other, padded=padded), was, atol=1e-3)
        torch.testing.assert_close(logits(other), logits(other, padded=True), atol=1e-5, rtol=1e-5)


@every_method
@every_family
def test_stock_parameters_keep_their_names_or_get_them_back(method, name):
    tunable, known = shake(tuned(name, method)), METHODS[method]
    plain = {key: value.shape for key, value in tuned(name, "full").model.state_dict().items()}
    with torch.inference_mode():
        before = logits(tunable)
        if known.fold is not None:
            known.fold(tunable)
        torch.testing.assert_close(logits(tunable), before, atol=1e-5, rtol=1e-5)
    own = {key: value.shape for key, value in tunable.model.state_dict().items()}
    assert plain.items() <= own.items()
    assert (own == plain) == known.is_stock


@every_method
def test_start_values_come_from_the_seed_and_leave_the_global_random_state_alone(method):
    encoder = tiny_encoder("bert")
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, same, other = (tuned("bert", method, encoder=encoder, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    names = [name for name in one.trainable() if not name.startswith("head.")]
    assert all(torch.equal(one.trainable()[name], same.trainable()[name]) for name in names)
    new = [name for name in names if name.removeprefix("model.") not in encoder.model.state_dict()]
    if new:
        assert any(not torch.equal(one.trainable()[name], other.trainable()[name]) for name in new)


@every_method
@pytest.mark.parametrize("name", ["bert", "albert", "deberta"])
def test_a_plan_without_layers_trains_the_head_alone(method, name):
    tunable = tuned(name, method, ())
    assert all(key.startswith("head.") for key in tunable.trainable())
    if METHODS[method].fold is not None:
        METHODS[method].fold(tunable)


@every_method
@every_family
def test_embeddings_train_in_full_fine_tuning_only(method, name):
    if method != "full":
        with pytest.raises(OptionError, match="never trains embeddings"):
            Plan(layers=(1, 2, 3, 4), head=4, embeddings=True, method=method)
        return
    tunable = make_tunable(tiny_encoder(name), Plan.full(4), outputs=OUTPUTS)
    assert all(parameter.requires_grad for parameter in tunable.encoder.parts().embeddings.values())


@every_method
def test_options_that_a_method_does_not_have_are_refused_in_one_line(method):
    with pytest.raises(OptionError, match=f"^method {method}: unknown option 'colour'.*known: [^\n]*$"):
        METHODS[method].check({"colour": "blue"})


@every_method
def test_values_of_the_wrong_kind_are_refused_in_one_line(method):
    for option, default in METHODS[method].defaults.items():
        wrong = 3 if isinstance(default, str) else "many"
        with pytest.raises(OptionError, match=f"^method {method}: {option} {wrong!r} must be [^\n]*$"):
            METHODS[method].check({option: wrong})


@every_method
def test_default_options_are_accepted_and_explained(method):
    known = METHODS[method]
    assert known.check({}) == dict(known.defaults)
    assert known.summary.endswith(".")
    assert known.learning_rate > 0
