"""Norms and biases only: a small part of a layer's own weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.plans.methods import method

if TYPE_CHECKING:
    from frostline.training.model import Tunable


@method(learning_rate=1e-3, is_stock=True, name="norm-and-bias")
def norm_and_bias(tunable: Tunable, *, seed: int) -> None:
    """Only the norms and the biases of the chosen layers train."""
    family = tunable.encoder.family
    parts = tunable.encoder.parts()
    for number in tunable.plan.layers:
        norms = [tunable.layer(number).get_submodule(path) for path in family.norms.values()]
        chosen = {id(parameter) for norm in norms for parameter in norm.parameters()}
        for name, parameter in parts.layers[number - 1].items():
            if id(parameter) in chosen or name.rsplit(".", 1)[-1].endswith("bias"):
                parameter.requires_grad_(True)
