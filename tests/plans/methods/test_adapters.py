"""Adapters sit where the papers put them: on what each half of a layer is about to add to its input."""

from __future__ import annotations

import math

import pytest
import torch
from tests.plans.methods.tuned import WIDTH, count, logits, shake, states, tuned
from tests.tiny import CONFIGS
from torch import nn

from frostline.errors import OptionError
from frostline.plans.methods import METHODS
from frostline.plans.methods._adapters import Adapter

BOTTLENECK = 6
ONE = (WIDTH * BOTTLENECK + BOTTLENECK) + (BOTTLENECK * WIDTH + WIDTH)
PLACES = {"houlsby": ("attention", "output"), "pfeiffer": ("output",)}
PROJECTIONS = {"attention": "project", "output": "down"}
# These have no dropout around the projection.
WITHOUT_DROPOUT = {("distilbert", "attention"), ("albert", "output"), ("modernbert", "attention")}

both = pytest.mark.parametrize("method", PLACES)
every_family = pytest.mark.parametrize("name", CONFIGS)


def norms(name: str, layers: int) -> int:
    """Weights of the norms of that many layers, none of them the lowest."""
    return layers * 2 * (WIDTH if name == "modernbert" else 2 * WIDTH)  # ModernBERT's norms have no bias


@every_family
def test_houlsbys_has_two_adapters_and_the_norms_of_each_layer(name):
    assert count(tuned(name, "houlsby", bottleneck=BOTTLENECK)) == 2 * 2 * ONE + norms(name, 2)


@every_family
def test_pfeiffers_has_one_adapter_in_each_layer(name):
    assert count(tuned(name, "pfeiffer", bottleneck=BOTTLENECK)) == 2 * ONE


@both
def test_layers_that_share_parameters_share_their_adapters(method):
    tunable = tuned("albert", method, (1, 2, 3, 4), bottleneck=BOTTLENECK)
    assert count(tunable) == (2 * ONE + norms("albert", 1) if method == "houlsby" else ONE)


def test_an_adapter_adds_a_narrow_detour():
    adapter, states = Adapter(3, 2), torch.randn(5, 3)
    for parameter in adapter.parameters():
        nn.init.normal_(parameter)
    inner = states @ adapter.down.weight.T + adapter.down.bias
    inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
    expected = states + inner @ adapter.up.weight.T + adapter.up.bias
    torch.testing.assert_close(adapter(states), expected)


def test_an_adapter_starts_near_the_identity_with_truncated_weights():
    adapter = Adapter(400, 100)
    for linear in (adapter.down, adapter.up):
        assert linear.weight.abs().max() <= 0.04
        assert 0.015 < linear.weight.std() < 0.02
        assert not linear.bias.any()


@both
@every_family
@pytest.mark.parametrize("padded", [False, True])
def test_an_adapter_that_adds_a_constant_equals_a_projection_whose_bias_has_it(method, name, padded):
    tunable, plain = tuned(name, method, bottleneck=BOTTLENECK), tuned(name, "full")
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for number in (2, 4):
            for place in PLACES[method]:
                constant = torch.randn(WIDTH, generator=source)
                adapter = tunable.layer(number).get_submodule(f"{place}_adapter")
                adapter.up.weight.zero_()
                adapter.up.bias.copy_(constant)
                linear = plain.layer(number).get_submodule(plain.encoder.family.projections[PROJECTIONS[place]])
                linear.bias = nn.Parameter(constant if linear.bias is None else linear.bias + constant)
        torch.testing.assert_close(states(tunable, padded=padded), states(plain, padded=padded), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(logits(tunable, padded=padded), logits(plain, padded=padded), atol=1e-5, rtol=1e-5)


@every_family
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("place", ["attention", "output"])
def test_an_adapter_reads_what_its_projection_gives_after_dropout(name, padded, place):
    tunable = shake(tuned(name, "houlsby", bottleneck=BOTTLENECK))
    layer, family = tunable.layer(2), tunable.encoder.family
    given: list[torch.Tensor] = []
    read: list[torch.Tensor] = []
    linear = layer.get_submodule(family.projections[PROJECTIONS[place]])
    linear.register_forward_hook(lambda _, __, out: given.append(out), prepend=True)
    layer.get_submodule(f"{place}_adapter").register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    with torch.inference_mode():
        states(tunable, padded=padded)
        assert len(read) == len(given) == 1
        assert torch.equal(read[0], given[0])
        for module in layer.modules():
            if isinstance(module, nn.Dropout):
                module.p = 1.0
        tunable.train()
        states(tunable, padded=padded)
    assert bool(read[1].any()) == ((name, place) in WITHOUT_DROPOUT)


@both
@pytest.mark.parametrize("bottleneck", [0, -3])
def test_a_bottleneck_that_cannot_be_is_refused_in_one_line(method, bottleneck):
    with pytest.raises(OptionError, match=f"^method {method}: bottleneck {bottleneck}: must be 1 or more$"):
        METHODS[method].check({"bottleneck": bottleneck})
