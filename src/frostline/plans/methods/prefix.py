"""Prefixes: a few trainable keys and values that every token of a chosen layer can attend to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from frostline.plans.methods import at_least_one, chosen_layers, method

if TYPE_CHECKING:
    from frostline.training.model import Tunable


class Prefix(nn.Module):
    """Keys and values, (length, width) each, that precede those of the tokens."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(length, width).normal_(std=0.02))
        self.values = nn.Parameter(torch.empty(length, width).normal_(std=0.02))

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return the keys and the values."""
        return self.keys, self.values


@method(learning_rate=1e-2, is_stock=False, adds_parameters=True, validate=at_least_one("length"))
def prefix(tunable: Tunable, *, seed: int, length: int = 16) -> None:
    """A few keys and values that every token can attend to train in each chosen layer; the layer is frozen.

    The vectors train directly, not through a reparameterisation network, and start normal with deviation 0.02.
    (Li and Liang 2021.)
    """
    family, width = tunable.encoder.family, tunable.encoder.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in chosen_layers(tunable):
            like = next(layer.parameters())
            family.attach_prefix(layer, Prefix(length, width).to(like))
