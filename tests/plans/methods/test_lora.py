"""LoRA: starts as the plain model, has as many weights as the formula says, and folds."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from tests.plans.methods.tuned import INNER, WIDTH, count, logits, shake, tuned
from tests.tiny import CONFIGS
from torch import nn

from frostline.encoders.families import FAMILIES
from frostline.errors import OptionError
from frostline.plans.methods import METHODS

FUSED = ("deberta", "modernbert")  # one projection makes query, key and value
RANK = 8


def sizes(name: str, targets: str) -> int:
    """Inputs and outputs of the targeted projections of one layer, added up."""
    if targets == "query+value":
        return WIDTH + 3 * WIDTH if name in FUSED else 2 * (WIDTH + WIDTH)
    attention = (WIDTH + 3 * WIDTH) if name in FUSED else 3 * (WIDTH + WIDTH)
    up = WIDTH + (2 * INNER if name == "modernbert" else INNER)  # a gate makes it twice as wide
    return attention + (WIDTH + WIDTH) + up + (INNER + WIDTH)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("targets", ["query+value", "all"])
def test_as_many_weights_train_as_the_formula_says(name, targets):
    tunable = tuned(name, "lora", rank=RANK, targets=targets)
    assert count(tunable) == 2 * RANK * sizes(name, targets)


def test_layers_that_share_parameters_share_their_low_rank_change():
    assert count(tuned("albert", "lora", (1, 2, 3, 4))) == RANK * sizes("albert", "query+value")


@pytest.mark.parametrize("name", CONFIGS)
def test_before_training_it_is_the_plain_model(name):
    tunable, plain = tuned(name, "lora", targets="all"), tuned(name, "full")
    with torch.inference_mode():
        assert torch.equal(logits(tunable, padded=True), logits(plain, padded=True))
        torch.testing.assert_close(logits(tunable), logits(plain), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_change_is_alpha_over_rank_times_b_times_a(name):
    tunable = shake(tuned(name, "lora", rank=2, alpha=6))
    plain = tuned(name, "full")
    path = tunable.encoder.family.projections["value"]
    changed = tunable.layer(2).get_submodule(path)
    low, high = changed.lora_A["default"].weight, changed.lora_B["default"].weight
    METHODS["lora"].fold(tunable)
    folded = tunable.layer(2).get_submodule(path)
    assert type(folded) is nn.Linear
    expected = plain.layer(2).get_submodule(path).weight + 3 * high @ low
    torch.testing.assert_close(folded.weight, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_folding_everything_gives_the_same_logits_from_plain_modules(name):
    tunable = shake(tuned(name, "lora", (1, 3), 3, targets="all"))
    with torch.inference_mode():
        before = logits(tunable)
        METHODS["lora"].fold(tunable)
        torch.testing.assert_close(logits(tunable), before, atol=1e-5, rtol=1e-5)
    assert not any("lora" in type(module).__module__ for module in tunable.modules())
    assert not hasattr(tunable.model, "peft_config")


def test_only_the_named_projections_change():
    tunable = tuned("bert", "lora", targets="up+project")
    places = {name.split(".lora_")[0] for name in tunable.trainable() if "lora_" in name}
    parts = ("attention.output.dense", "intermediate.dense")
    assert places == {f"model.encoder.layer.{layer}.{part}" for layer in (1, 3) for part in parts}


def test_dropout_is_on_in_training_only():
    tunable = shake(tuned("albert", "lora", dropout=0.5))  # ALBERT has no other
    with torch.inference_mode():
        assert torch.equal(logits(tunable), logits(tunable))
        tunable.train()
        assert not torch.allclose(logits(tunable), logits(tunable), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank 0: must be 1 or more"),
        ({"rank": -4}, "rank -4: must be 1 or more"),
        ({"alpha": 0}, "alpha 0: must be 1 or more"),
        ({"dropout": 1.0}, "dropout 1.0: must be at least 0 and below 1"),
        ({"dropout": float("nan")}, "dropout nan must be finite"),
        ({"targets": "qery"}, "targets 'qery': unknown 'qery' (did you mean query?); known, joined by +: query, key"),
        ({"targets": "query+"}, "targets 'query+': unknown ''"),
        ({"targets": ""}, "targets '': unknown ''"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(options, message):
    with pytest.raises(OptionError) as caught:
        METHODS["lora"].check(options)
    assert str(caught.value).startswith(f"method lora: {message}")
    assert "\n" not in str(caught.value)


def test_every_family_has_the_targets_that_are_accepted():
    for family in FAMILIES.names():
        METHODS["lora"].check({"targets": "+".join(FAMILIES[family].projections)})


def test_a_target_that_only_another_family_has_is_refused_when_the_encoder_is_known(monkeypatch):
    gated = {**FAMILIES["modernbert"].projections, "gate": "mlp.Wi"}
    monkeypatch.setattr(type(FAMILIES["modernbert"]), "projections", gated)
    METHODS["lora"].check({"targets": "query+gate"})
    with pytest.raises(OptionError, match=r"method lora on BERT: targets 'query\+gate': unknown 'gate'"):
        tuned("bert", "lora", targets="query+gate")
    assert count(tuned("modernbert", "lora", targets="gate")) == count(tuned("modernbert", "lora", targets="up"))


def test_peft_is_imported_only_where_it_is_needed():
    code = (
        "import sys; from frostline.plans.methods import METHODS; METHODS['lora'].check({}); "
        "print('peft' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
