"""Numbers of parameters of an encoder, its head and a plan, from the configuration alone.

Modules are built on the meta device, which allocates no memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config
from frostline.encoders.heads import family_head
from frostline.encoders.parameter_groups import count_of, parts_of
from frostline.errors import OptionError
from frostline.records import Plan


@dataclass(frozen=True, kw_only=True)
class ParameterCounts:
    """Numbers of parameters by part."""

    embeddings: int
    layers: tuple[int, ...]  # shared parameters (ALBERT) are counted once, at the lowest layer that uses them
    unrolled: tuple[int, ...]  # the same with a copy for every layer
    head: int

    @property
    def total(self) -> int:
        """All parameters of the whole encoder with its head."""
        return self.embeddings + sum(self.layers) + self.head

    def kept(self, plan: Plan) -> int:
        """Return the number of parameters at and below the layer of the plan's head."""
        return self.embeddings + sum(self._of(plan)[: plan.head]) + self.head

    def trainable(self, plan: Plan) -> int:
        """Return the number of parameters that the plan trains, with all weights of its layers and the head."""
        chosen = sum(self._of(plan)[number - 1] for number in plan.layers)
        return chosen + self.head + (self.embeddings if plan.embeddings else 0)

    def _of(self, plan: Plan) -> tuple[int, ...]:
        """Return each layer's count; layers that share parameters get copies if the plan tunes only some of them."""
        if plan.head > len(self.layers):
            raise OptionError(f"plan {plan}: the encoder has layers 1..{len(self.layers)}")
        return self.unrolled if 0 < len(plan.layers) < plan.head else self.layers


def count_parameters(config: Config, *, labels: int | None = None) -> ParameterCounts:
    """Return the parameter counts of an encoder and its head.

    Args:
        config: a Hugging Face configuration of a supported family.
        labels: number of outputs of the family's classification head; None counts the bare model with its pooler, as
            tables in papers do.

    Example:
        >>> from transformers import BertConfig
        >>> frostline.count_parameters(BertConfig()).total
        109482240
    """
    from transformers import AutoModel

    family = FAMILIES[config.model_type]
    with torch.device("meta"):
        parts = parts_of(family, AutoModel.from_config(config))
        head = {**parts.final_norm, **parts.pooler}
        if labels is not None:
            head = dict(family_head(config, labels=labels, has_weights=False).named_parameters())
    seen: set[int] = set()
    layers = []
    for named in parts.layers:
        own = {name: parameter for name, parameter in named.items() if id(parameter) not in seen}
        seen.update(id(parameter) for parameter in own.values())
        layers.append(count_of(own))
    return ParameterCounts(
        embeddings=count_of(parts.embeddings),
        layers=tuple(layers),
        unrolled=tuple(count_of(named) for named in parts.layers),
        head=count_of(head),
    )
