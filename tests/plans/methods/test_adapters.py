"""Adapters sit where the papers put them: on what each half of a layer is about to add to its input."""

from __future__ import annotations

import json
import math

import pytest
import torch
from scipy import stats
from tests.plans.methods.tuned import WIDTH, count, logits, shake, states, tuned
from tests.search.race_tools import write_rows
from tests.studies.study_tools import save_tiny
from tests.tiny import CONFIGS
from torch import nn

from frostline import Plan, Recipe, tune
from frostline.errors import OptionError
from frostline.plans.methods import METHODS
from frostline.plans.methods._adapters import Adapter
from frostline.prediction.loading import load_tuned
from frostline.training.loop import load_weights, weights_of

BOTTLENECK = 6
PAPER = {"activation": "relu", "initialisation": "normal"}  # as in the implementation of He et al. 2022
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


def test_an_adapter_can_have_another_activation():
    adapter, states = Adapter(3, 2, activation="relu"), torch.randn(5, 3)
    for parameter in adapter.parameters():
        nn.init.normal_(parameter)
    inner = states @ adapter.down.weight.T + adapter.down.bias
    expected = states + (inner * (inner > 0)) @ adapter.up.weight.T + adapter.up.bias
    torch.testing.assert_close(adapter(states), expected)


def test_an_adapter_can_start_with_normal_weights():
    torch.manual_seed(0)
    adapter = Adapter(400, 100, initialisation="normal")
    for linear in (adapter.down, adapter.up):
        drawn = linear.weight.detach()
        assert drawn.abs().max() > 0.06  # three deviations, which no truncated weight reaches
        assert 0.0195 < drawn.std() < 0.0205
        assert stats.kstest(drawn.flatten().numpy(), "norm", args=(0, 0.02)).pvalue > 0.01
        assert not linear.bias.any()


@both
def test_the_options_of_adapters_reach_every_one_of_them(method):
    usual, other = tuned("bert", method, bottleneck=BOTTLENECK), tuned("bert", method, bottleneck=BOTTLENECK, **PAPER)
    with torch.no_grad():
        load_weights(other, weights_of(usual))
        assert not torch.equal(logits(usual), logits(other))  # the same weights, another activation
        for number in (2, 4):
            for place in PLACES[method]:
                adapter = other.layer(number).get_submodule(f"{place}_adapter")
                inner = -adapter.down(torch.ones(1, WIDTH)).abs()
                assert not adapter._activate(inner).any()


def test_a_tuned_model_with_other_adapters_predicts_the_same_after_loading(tmp_path):
    write_rows(tmp_path / "letters.csv", 60)
    plan = Plan(layers=(1, 2), head=2, method="houlsby", options={"bottleneck": 4, **PAPER})
    encoder = str(save_tiny(tmp_path / "tiny", layers=2))
    recipe = Recipe(epochs=1, threads=1, cache_dtype="float32")
    model = tune(encoder, str(tmp_path / "letters.csv"), plan=plan, recipe=recipe, output=tmp_path / "run")
    loaded = load_tuned(tmp_path / "run")
    assert loaded.tunable.plan.options == plan.options
    torch.testing.assert_close(loaded.outputs(model.task.test), model.outputs["test"])
    # Read as the default, the same weights would predict something else.
    path = tmp_path / "run" / "model" / "frostline-model.json"
    about = json.loads(path.read_text())
    about["plan"]["options"] = {"bottleneck": 4}
    path.write_text(json.dumps(about))
    assert not torch.equal(load_tuned(tmp_path / "run").outputs(model.task.test), loaded.outputs(model.task.test))


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


@both
@pytest.mark.parametrize(("option", "known"), [("activation", "gelu, relu"), ("initialisation", "truncated, normal")])
def test_an_unknown_activation_or_initialisation_is_refused_in_one_line(method, option, known):
    with pytest.raises(OptionError, match=f"^method {method}: {option} 'tanh': must be one of {known}$"):
        METHODS[method].check({option: "tanh"})
