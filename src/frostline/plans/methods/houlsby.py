"""Houlsby's adapters: two bottlenecks in each chosen layer, and its norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.plans.methods import chosen_layers, method
from frostline.plans.methods._adapters import XIE_RATES, add_adapters, check_adapters

if TYPE_CHECKING:
    from frostline.training.model import Tunable


@method(learning_rate=3e-4, rates=XIE_RATES, is_stock=False, adds_parameters=True, validate=check_adapters)
def houlsby(
    tunable: Tunable, *, seed: int, bottleneck: int = 256, activation: str = "gelu", initialisation: str = "truncated"
) -> None:
    """Two adapters in each chosen layer train, after attention and after the feed-forward part, and its norms.

    Each adapts the output of its part of the layer before the residual connection. (Houlsby et al. 2019; also used by
    Xie et al. 2022, with `activation` 'relu' and `initialisation` 'normal'.)
    """
    for layer in chosen_layers(tunable):
        for path in tunable.encoder.family.norms.values():
            layer.get_submodule(path).requires_grad_(True)
    add_adapters(
        tunable,
        ("attention", "output"),
        bottleneck=bottleneck,
        activation=activation,
        initialisation=initialisation,
        seed=seed,
    )
