"""Full weights: ordinary fine-tuning of the chosen layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.plans.methods import method

if TYPE_CHECKING:
    from frostline.training.model import Tunable


@method(learning_rate=5e-5, is_stock=True)
def full(tunable: Tunable, *, seed: int) -> None:
    """All weights of the chosen layers train."""
    parts = tunable.encoder.parts()
    for number in tunable.plan.layers:
        for parameter in parts.layers[number - 1].values():
            parameter.requires_grad_(True)
    if tunable.plan.embeddings:
        for parameter in parts.embeddings.values():
            parameter.requires_grad_(True)
