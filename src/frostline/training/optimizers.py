"""The optimizer of a run: AdamW, with a group of parameters for each learning rate and weight decay."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.encoders.head_stack import HeadStack
from frostline.records import Recipe
from frostline.training.model import Tunable


def make_optimizer(
    tunable: Tunable, recipe: Recipe, learning_rate: float, new_layers: frozenset[int] = frozenset()
) -> torch.optim.AdamW:
    """Return AdamW with one group per rate and decay; each group stores its highest rate."""
    parts = tunable.encoder.parts()
    is_new = {id(value) for number in new_layers for value in parts.layers[number - 1].values()}
    factors = {
        id(value): factor
        for factor, values in zip(recipe.layer_rates or (), parts.layers, strict=False)  # of a whole encoder
        for value in values.values()
    }
    in_head = {id(value) for value in tunable.head.parameters()}
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, value in tunable.trainable().items():
        rate = learning_rate * (recipe.new_layer_rate if id(value) in is_new else 1.0) * factors.get(id(value), 1.0)
        rate = recipe.head_rate if recipe.head_rate is not None and id(value) in in_head else rate
        axes = value.dim() - isinstance(tunable.head, HeadStack)
        decays = axes > 1 and "norm" not in name.lower()
        groups.setdefault((rate, recipe.weight_decay if decays else 0.0), []).append(value)
    return torch.optim.AdamW(
        [
            {"params": values, "lr": rate, "highest": rate, "weight_decay": decay}
            for (rate, decay), values in groups.items()
        ],
        fused=True,
    )
