"""Pfeiffer's adapters: one bottleneck in each chosen layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.plans.methods import method
from frostline.plans.methods._adapters import XIE_RATES, add_adapters, check_adapters

if TYPE_CHECKING:
    from frostline.training.model import Tunable


@method(learning_rate=3e-4, rates=XIE_RATES, is_stock=False, adds_parameters=True, validate=check_adapters)
def pfeiffer(
    tunable: Tunable, *, seed: int, bottleneck: int = 256, activation: str = "gelu", initialisation: str = "truncated"
) -> None:
    """One adapter in each chosen layer trains, after the feed-forward part; everything else is frozen.

    It adapts the output of the feed-forward part before the residual connection. (Pfeiffer et al. 2021.)
    """
    add_adapters(
        tunable, ("output",), bottleneck=bottleneck, activation=activation, initialisation=initialisation, seed=seed
    )
