"""The models that train side by side in one run: usually one, several for a soup, the mean of their weights.

Models that start from the same weights, and differ by their learning rate and the order of rows, end in one basin: the
mean of their weights is about as good as the mean of their predictions, and better than any of them (model soups,
Wortsman et al. 2022). It costs no more to use than one of them. All members share one model, whose parameters point to
the weights of the member whose turn it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from frostline.records import Recipe
from frostline.training.model import Tunable
from frostline.training.optimizers import make_optimizer


@dataclass(frozen=True, kw_only=True)
class SoupMember:
    """A model that trains: its weights, its optimizer, and the seed of its order of rows and of its dropout."""

    weights: dict[str, Tensor]
    optimizer: torch.optim.AdamW
    seed: int

    def enter(self, tunable: Tunable) -> None:
        """Let the parameters of the shared model point to this member's weights."""
        for name, value in tunable.trainable().items():
            value.data = self.weights[name]


def make_members(
    tunable: Tunable, recipe: Recipe, learning_rate: float, new_layers: frozenset[int] = frozenset()
) -> list[SoupMember]:
    """Return the members of a run, which all start from the weights of the model.

    Args:
        tunable: the model.
        recipe: rates, soup, seed.
        learning_rate: the highest rate of the schedule.
        new_layers: re-initialised layers, which may have a higher rate.
    """
    return [
        SoupMember(
            weights={name: value.data.clone() if number else value.data for name, value in tunable.trainable().items()},
            optimizer=make_optimizer(tunable, recipe, factor * learning_rate, new_layers),
            seed=seed_of(recipe.seed, number),
        )
        for number, factor in enumerate(recipe.soup or (1.0,))
    ]


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a member; the first one has that of the run."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) if number else seed


def rates_of(members: Sequence[SoupMember]) -> list[float]:
    """Return the learning rates that the members have now."""
    return [group["lr"] for member in members for group in member.optimizer.param_groups]
