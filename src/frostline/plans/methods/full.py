"""Full weights: ordinary fine-tuning of the chosen layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from frostline.plans.methods import PlanKind, method

if TYPE_CHECKING:
    from frostline.training.model import Tunable


# Xie et al. 2022, table 4.
_RATES: Mapping[PlanKind, tuple[float, ...]] = {
    "whole": (1e-6, 5e-6, 8e-6, 1e-5, 2e-5),
    "lower": (5e-6, 1e-5, 5e-5, 1e-4),
    "upper": (1e-6, 3e-6, 1e-5, 3e-5),
    "few": (8e-6, 1e-5, 2e-5, 3e-5, 5e-5),
}


@method(learning_rate=5e-5, is_stock=True, rates=_RATES)
def full(tunable: Tunable, *, seed: int) -> None:
    """All weights of the chosen layers train."""
    for parameter in tunable.planned():
        parameter.requires_grad_(True)
