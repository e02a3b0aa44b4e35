"""Products in bfloat16 are those of rounded numbers, and nothing else of a model changes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.tiny import CONFIGS
from tests.training.tuning_tools import examples_for, many_labels, many_tokens, tiny_tunable
from torch import nn

from frostline.records import Plan, Recipe
from frostline.training.half_products import half_products, precision_of, usual_precision
from frostline.training.loop import train

ROUNDING = 2.0**-8  # of one number in bfloat16


def layer_and_states(*, bias: bool = True, shape: tuple[int, ...] = (5, 7)) -> tuple[nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Linear(shape[-1], 3, bias=bias), torch.randn(shape, requires_grad=True)


def rounded(values: torch.Tensor) -> torch.Tensor:
    return values.bfloat16().double()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 7), (2, 4, 7)])
def test_products_are_those_of_rounded_numbers(bias, shape):
    layer, states = layer_and_states(bias=bias, shape=shape)
    with half_products(layer):
        product = layer(states)
    upstream = torch.randn_like(product)
    product.backward(upstream)
    direct = rounded(states) @ rounded(layer.weight).T
    added = torch.zeros(3) if layer.bias is None else layer.bias
    torch.testing.assert_close(product.double() - added.double(), direct, rtol=ROUNDING, atol=1e-6)
    of_states = rounded(upstream) @ rounded(layer.weight)
    torch.testing.assert_close(states.grad.double(), of_states, rtol=ROUNDING, atol=1e-6)
    of_weight = rounded(upstream).flatten(0, -2).T @ rounded(states).flatten(0, -2)
    torch.testing.assert_close(layer.weight.grad.double(), of_weight, rtol=ROUNDING, atol=1e-6)
    if bias:
        torch.testing.assert_close(layer.bias.grad, upstream.flatten(0, -2).sum(0))
    assert product.dtype == states.grad.dtype == layer.weight.grad.dtype == torch.float32


def test_without_gradients_products_are_exact():
    layer, states = layer_and_states()
    with half_products(layer), torch.no_grad():
        assert torch.equal(layer(states), F.linear(states, layer.weight, layer.bias))
    with half_products(layer):
        assert not torch.equal(layer(states), F.linear(states, layer.weight, layer.bias))


def test_frozen_weights_have_no_gradient_and_states_do():
    layer, states = layer_and_states()
    layer.requires_grad_(False)
    with half_products(layer):
        layer(states).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is None
    assert states.grad is not None


def test_the_first_layer_that_trains_needs_no_gradient_of_its_states():
    layer, states = layer_and_states()
    with half_products(layer):
        layer(states.detach()).sum().backward()
    assert layer.weight.grad is not None


def test_the_model_is_as_before_after_the_block_and_after_an_error():
    layer, states = layer_and_states()
    with pytest.raises(RuntimeError), half_products(layer):
        layer(states[:, :2])
    assert "forward" not in vars(layer)
    assert torch.equal(layer(states), F.linear(states, layer.weight, layer.bias))


def test_numbers_that_are_not_float32_are_left_alone():
    layer, states = layer_and_states()
    layer.double()
    with half_products(layer):
        assert torch.equal(layer(states.double()), F.linear(states.double(), layer.weight, layer.bias))


def test_only_the_precision_asked_for_changes_products():
    layer, states = layer_and_states()
    exact = layer(states)
    for precision, same in ((None, True), ("float32", True), ("bfloat16", False)):
        with precision_of(layer, Recipe(precision=precision)):
            assert torch.equal(layer(states), exact) is same


def test_a_run_has_fast_products_where_the_processor_has_them(monkeypatch):
    for capabilities, expected in (({"avx512_bf16": True}, "bfloat16"), ({"amx_bf16": True}, "bfloat16"),
                                   ({"avx2": True, "amx_bf16": False}, "float32")):  # fmt: skip
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=capabilities: found)
        assert usual_precision(torch.device("cpu")) == expected
        assert usual_precision(torch.device("cuda")) == "float32"


@pytest.mark.parametrize("name", CONFIGS)
def test_every_family_trains_and_is_judged_in_float32(name):
    """The outputs that were judged on validation are those of the model as it is saved, to the last digit."""
    tunable = tiny_tunable(name, Plan.full(4), dropout=0.0)
    rows = examples_for(tunable, many_tokens(), many_labels())
    recipe = Recipe(precision="bfloat16", epochs=1, batch=8, learning_rate=1e-3, cache_dtype="float32")
    trained = train(tunable, rows, rows, recipe, metrics=("accuracy",), learning_rate=1e-3)
    tunable.eval()
    assert torch.equal(trained.outputs, rows.outputs(tunable))


def test_batches_of_any_size_have_the_products_of_their_own_rows_alone():
    """Rows of zeros that fill a matrix up never reach a result."""
    torch.manual_seed(0)
    layer, upstream = nn.Linear(7, 3), torch.randn(130, 3)
    states = torch.randn(130, 7)
    products, of_states, of_weights = [], [], []
    for rows in (1, 63, 64, 65, 130):
        layer.zero_grad()
        own = states[:rows].clone().requires_grad_()
        with half_products(layer):
            product = layer(own)
        product.backward(upstream[:rows])
        products.append(product.detach()[:1])
        of_states.append(own.grad[:1])
        direct = rounded(upstream[:rows]).T @ rounded(states[:rows])
        of_weights.append((layer.weight.grad.double() - direct).abs().max() / direct.abs().max())
        assert product.shape == (rows, 3)
        assert own.grad.shape == (rows, 7)
    for values in (products, of_states):
        torch.testing.assert_close(torch.cat(values), values[0].expand(len(values), -1), rtol=ROUNDING, atol=1e-6)
    assert max(of_weights) < ROUNDING
