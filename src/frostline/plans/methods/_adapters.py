"""Bottleneck adapters: what the methods houlsby and pfeiffer hang into a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frostline.plans.methods import chosen_layers

if TYPE_CHECKING:
    from frostline.training.model import Tunable


class Adapter(nn.Module):
    """h + up(gelu(down(h))): a narrow detour around a half of a layer.

    Weights start as BERT's do, normal with deviation 0.02 and cut at two deviations, biases at zero: near enough to the
    identity for the pretrained model to work from the first step on, and not so near that no gradient reaches `down`.
    """

    def __init__(self, width: int, bottleneck: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, bottleneck)
        self.up = nn.Linear(bottleneck, width)
        for linear in (self.down, self.up):
            nn.init.trunc_normal_(linear.weight, std=0.02, a=-0.04, b=0.04)
            nn.init.zeros_(linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        """The states, (..., width), and the detour."""
        out: Tensor = states + self.up(F.gelu(self.down(states)))
        return out

    def after(self, module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        """As a forward hook: another module's output, adapted."""
        out: Tensor = self(output)
        return out


def add_adapters(tunable: Tunable, places: tuple[str, ...], *, bottleneck: int, seed: int) -> None:
    """Hang a fresh adapter into every chosen layer at each of the places."""
    family, width = tunable.encoder.family, tunable.encoder.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in chosen_layers(tunable):
            like = next(layer.parameters())
            for place in places:
                family.hang_adapter(layer, place, Adapter(width, bottleneck).to(like))


def check_bottleneck(options: Mapping[str, Any]) -> str | None:
    """Why the bottleneck cannot be, or None."""
    width = options["bottleneck"]
    return f"bottleneck {width}: must be 1 or more" if width < 1 else None
