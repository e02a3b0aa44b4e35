"""Which parameters belong to the embeddings, to each layer, to the final norm and to the pooler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from frostline.encoders.families._family import Family, Model

Named = dict[str, nn.Parameter]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The base model's parameters by part, under their names in the base model."""

    embeddings: Named
    layers: tuple[Named, ...]  # layer 1 first; a parameter that layers share is listed at each of them
    final_norm: Named
    pooler: Named


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
