"""The parameters of the embeddings, of each layer, of the final norm and of the pooler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from frostline.encoders.families._family import Family, Model

Named = dict[str, nn.Parameter]


@dataclass(frozen=True, kw_only=True)
class ParameterGroups:
    """The base model's parameters by part, under their names in the base model."""

    embeddings: Named
    layers: tuple[Named, ...]  # layer 1 first; a parameter that layers share is listed at each of them
    final_norm: Named
    pooler: Named


def count_of(named: Named) -> int:
    """Return the number of scalars in the parameters."""
    return sum(parameter.numel() for parameter in named.values())


def parts_of(family: Family, model: Model, order: Sequence[int] | None = None) -> ParameterGroups:
    """Return the base model's parameters by part.

    Args:
        family: the model's family.
        model: the base model.
        order: each layer's number in the pretrained model, if surgery has moved layers.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=False)}

    def named(modules: Iterable[nn.Module]) -> Named:
        return {names[id(parameter)]: parameter for module in modules for parameter in module.parameters()}

    def at(paths: Iterable[str | None]) -> Named:
        return named(module for path in paths if (module := find(model, path)) is not None)

    layers = family.layers(model)
    origins = order or range(1, len(layers) + 1)
    return ParameterGroups(
        embeddings=at(family.embedding_paths),
        layers=tuple(
            named([layer, *family.attached(model, origin)]) for layer, origin in zip(layers, origins, strict=True)
        ),
        final_norm=at([family.final_norm_path]),
        pooler=at([family.pooler_path]),
    )


def find(model: nn.Module, path: str | None) -> nn.Module | None:
    """Return the submodule at the path; None without a path, or if this configuration has no such module."""
    return None if path is None else dict(model.named_modules(remove_duplicate=False)).get(path)
