"""A method: how the chosen layers train."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.plans.methods import chosen_layers, method

if TYPE_CHECKING:
    from frostline.training.model import Tunable


@method(learning_rate=1e-3, is_stock=True)
def queries(tunable: Tunable, *, seed: int, keys: bool = False) -> None:
    """Only the query projections of the chosen layers train, and the key projections where that is asked for."""
    paths = tunable.encoder.family.projections
    for layer in chosen_layers(tunable):
        for name in ("query", "key") if keys else ("query",):
            layer.get_submodule(paths[name]).requires_grad_(True)
