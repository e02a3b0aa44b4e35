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
    tuned = [parts.layers[number - 1] for number in tunable.plan.layers]
    for named in (*tuned, *([parts.embeddings] if tunable.plan.embeddings else [])):
        for parameter in named.values():
            parameter.requires_grad_(True)
