"""Which parameters belong to the embeddings, to each layer and to the head, and how many they are.

Counting works from a configuration alone: modules are made on the meta device, which allocates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from frostline.families.family import Config, Family, Model
    from frostline.records import Plan

Named = dict[str, nn.Parameter]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The base model's parameters by part, under their names in the base model."""

    embeddings: Named
    layers: tuple[Named, ...]  # layer 1 first; a parameter that layers share is listed at each of them
    final_norm: Named
    pooler: Named


@dataclass(frozen=True, kw_only=True)
class ParameterCounts:
    """How many parameters each part has; what layers share is counted once, at the lowest layer that uses it."""

    embeddings: int
    layers: tuple[int, ...]
    head: int

    @property
    def total(self) -> int:
        """All parameters of the whole encoder with its head."""
        return self.embeddings + sum(self.layers) + self.head

    def kept(self, plan: Plan) -> int:
        """Parameters that are left when everything above the plan's head is dropped."""
        return self.embeddings + sum(self.layers[: plan.head]) + self.head

    def trainable(self, plan: Plan) -> int:
        """Parameters that the plan trains, all weights of its layers and the head included."""
        chosen = sum(self.layers[number - 1] for number in plan.layers)
        return chosen + self.head + (self.embeddings if plan.embeddings else 0)


def parts_of(family: Family, model: Model, order: Sequence[int] | None = None) -> Parts:
    """The base model's parameters by part.

    Args:
        family: the model's family.
        model: the base model.
        order: each layer's number in the pretrained model, where surgery has moved layers.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=False)}

    def named(modules: Iterable[nn.Module]) -> Named:
        return {names[id(parameter)]: parameter for module in modules for parameter in module.parameters()}

    def at(paths: Iterable[str | None]) -> Named:
        return named(module for path in paths if path and (module := find(model, path)) is not None)

    layers = family.layers(model)
    origins = order or range(1, len(layers) + 1)
    return Parts(
        embeddings=at(family.embedding_paths),
        layers=tuple(
            named([layer, *family.attached(model, origin)]) for layer, origin in zip(layers, origins, strict=True)
        ),
        final_norm=at([family.final_norm_path]),
        pooler=at([family.pooler_path]),
    )


def find(model: nn.Module, path: str) -> nn.Module | None:
    """The submodule at the path, or None where this configuration has none."""
    found = model
    for name in path.split("."):
        child = getattr(found, name, None)
        if not isinstance(child, nn.Module):
            return None
        found = child
    return found


def count_parameters(config: Config, *, labels: int | None = None, unrolled: bool = False) -> ParameterCounts:
    """Parameter counts of an encoder and its head, from the configuration alone.

    Args:
        config: a Hugging Face configuration of a supported family.
        labels: outputs of the family's classification head; None counts the bare model with its pooler, as the
            tables in papers do.
        unrolled: whether layers that share parameters get their own.
    """
    from transformers import AutoModel

    from frostline.families import FAMILIES
    from frostline.heads import family_head

    family = FAMILIES[config.model_type]
    config = family.unrolled(config) if unrolled else config
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    parts = parts_of(family, model)
    if labels is None:
        head = _size(parts.final_norm) + _size(parts.pooler)
    else:
        with torch.device("meta"):
            head = sum(parameter.numel() for parameter in family_head(config, labels=labels).parameters())
    seen: set[int] = set()
    layers = []
    for named in parts.layers:
        own = {name: parameter for name, parameter in named.items() if id(parameter) not in seen}
        seen.update(id(parameter) for parameter in own.values())
        layers.append(_size(own))
    return ParameterCounts(embeddings=_size(parts.embeddings), layers=tuple(layers), head=head)


def _size(named: Named) -> int:
    return sum(parameter.numel() for parameter in named.values())
