"""Full weights: ordinary fine-tuning of the chosen layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.plans.methods import method

if TYPE_CHECKING:
    from frostline.training.model import Tunable


@method(learning_rate=5e-5, is_stock=True)
def full(tunable: Tunable, *, seed: int) -> None:
    """All weights of the chosen layers train."""
    for parameter in tunable.planned():
        parameter.requires_grad_(True)
