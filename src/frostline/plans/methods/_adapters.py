"""Bottleneck adapters, which the methods houlsby and pfeiffer insert into layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frostline.plans.methods import PlanKind, chosen_layers

if TYPE_CHECKING:
    from frostline.training.model import Tunable

# Xie et al. 2022, table 5.
XIE_RATES: Mapping[PlanKind, tuple[float, ...]] = {
    "whole": (1e-5, 3e-5, 1e-4),
    "lower": (1e-5, 3e-5, 1e-4),
    "upper": (1e-5, 3e-5, 1e-4),
    "few": (3e-5, 1e-4, 3e-4),
}


class Adapter(nn.Module):
    """h + up(gelu(down(h))): a bottleneck after the attention or feed-forward part of a layer.

    Weights start like BERT's, normal with deviation 0.02 and cut at two deviations, biases at zero: close enough to the
    identity for the pretrained model to work from the first step, and far enough for gradients to reach `down`.
    """

    def __init__(self, width: int, bottleneck: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, bottleneck)
        self.up = nn.Linear(bottleneck, width)
        for linear in (self.down, self.up):
            nn.init.trunc_normal_(linear.weight, std=0.02, a=-0.04, b=0.04)
            nn.init.zeros_(linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Return the adapted states, (..., width)."""
        out: Tensor = states + self.up(F.gelu(self.down(states)))
        return out

    def after(self, module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        """Adapt another module's output, as a forward hook."""
        out: Tensor = self(output)
        return out


def add_adapters(tunable: Tunable, positions: tuple[str, ...], *, bottleneck: int, seed: int) -> None:
    """Insert a fresh adapter into every chosen layer at each of the positions."""
    family, width = tunable.encoder.family, tunable.encoder.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in chosen_layers(tunable):
            like = next(layer.parameters())
            for position in positions:
                family.attach_adapter(layer, position, Adapter(width, bottleneck).to(like))
