"""Bottleneck adapters, which the methods houlsby and pfeiffer insert into layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frostline.plans.methods import PlanKind, at_least_one, chosen_layers

if TYPE_CHECKING:
    from frostline.training.model import Tunable

_DEVIATION = 0.02  # of the weights, as in BERT
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}
INITIALISATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "truncated": lambda weight: nn.init.trunc_normal_(weight, std=_DEVIATION, a=-2 * _DEVIATION, b=2 * _DEVIATION),
    "normal": lambda weight: nn.init.normal_(weight, std=_DEVIATION),
}
# Xie et al. 2022, table 5.
XIE_RATES: Mapping[PlanKind, tuple[float, ...]] = {
    "whole": (1e-5, 3e-5, 1e-4),
    "lower": (1e-5, 3e-5, 1e-4),
    "upper": (1e-5, 3e-5, 1e-4),
    "few": (3e-5, 1e-4, 3e-4),
}


class Adapter(nn.Module):
    """h + up(activation(down(h))): a bottleneck after the attention or feed-forward part of a layer.

    Weights start like BERT's, normal with deviation 0.02, biases at zero: close enough to the identity for the
    pretrained model to work from the first step, and far enough for gradients to reach `down`. BERT's own code cuts the
    normal at two deviations ('truncated'); the implementation of He et al. 2022, which Xie et al. 2022 use, does not
    ('normal'), and its activation is ReLU.
    """

    def __init__(
        self, width: int, bottleneck: int, *, activation: str = "gelu", initialisation: str = "truncated"
    ) -> None:
        super().__init__()
        self.down = nn.Linear(width, bottleneck)
        self.up = nn.Linear(bottleneck, width)
        self._activate = ACTIVATIONS[activation]
        for linear in (self.down, self.up):
            INITIALISATIONS[initialisation](linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Return the adapted states, (..., width)."""
        out: Tensor = states + self.up(self._activate(self.down(states)))
        return out

    def after(self, module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        """Adapt another module's output, as a forward hook."""
        out: Tensor = self(output)
        return out


def check_adapters(options: Mapping[str, Any]) -> str | None:
    """Return an error message about the options of adapters, or None."""
    for name, choices in (("activation", ACTIVATIONS), ("initialisation", INITIALISATIONS)):
        if options[name] not in choices:
            return f"{name} {options[name]!r}: must be one of {', '.join(choices)}"
    return at_least_one("bottleneck")(options)


def add_adapters(
    tunable: Tunable, positions: tuple[str, ...], *, bottleneck: int, activation: str, initialisation: str, seed: int
) -> None:
    """Insert a fresh adapter into every chosen layer at each of the positions."""
    family, width = tunable.encoder.family, tunable.encoder.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in chosen_layers(tunable):
            like = next(layer.parameters())
            for position in positions:
                adapter = Adapter(width, bottleneck, activation=activation, initialisation=initialisation)
                family.attach_adapter(layer, position, adapter.to(like))
