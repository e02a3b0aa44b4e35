"""ALBERT: one set of layer parameters used L times, until a plan or surgery treats layers differently."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, Model


class Albert(Family):
    """BERT-like layers that share parameters, over narrow embeddings with a projection.

    Unrolled (`num_hidden_groups = num_hidden_layers`), every layer has its own copy of the parameters: outputs are the
    same, the parameter count grows, and the stock class still loads it.
    """

    name = "albert"
    title = "ALBERT"
    examples = "albert-base-v2, albert-large-v2"
    can_average = False
    note = "layers share parameters; if they must differ, each gets its own copy, and the model has more parameters"
    colour = "#cc79a7"
    layers_path = "encoder.albert_layer_groups"
    embedding_paths = ("embeddings", "encoder.embedding_hidden_mapping_in")
    projections = {
        "query": "attention.query",
        "key": "attention.key",
        "value": "attention.value",
        "project": "attention.dense",
        "up": "ffn",
        "down": "ffn_output",
    }
    norms = {"attention": "attention.LayerNorm", "output": "full_layer_layer_norm"}
    ends = {"attention": "attention.output_dropout", "output": "ffn_output"}
    attention_path = "attention"
    activation_path = "activation"
    dropouts = {"attention": "attention.attention_dropout", "project": "attention.output_dropout"}
    upper_keys = Family.upper_keys | {"num_hidden_groups"}

    def check(self, config: Config) -> str | None:
        """Refuse groups of several layers, which would make 'layer' ambiguous; no public ALBERT has them."""
        if config.inner_group_num != 1:
            return f"inner_group_num is {config.inner_group_num}, and only 1 is supported"
        return super().check(config)

    def layers(self, model: Model) -> list[nn.Module]:
        """Return the module of each layer, repeated if it is shared."""
        groups = model.encoder.albert_layer_groups
        depth = self.depth(model.config)
        return [groups[int(i / (depth / len(groups)))].albert_layers[0] for i in range(depth)]

    def shares_layers(self, config: Config) -> bool:
        """Whether it is not unrolled."""
        return bool(config.num_hidden_groups != config.num_hidden_layers)

    def unrolled(self, config: Config) -> Config:
        """Return a configuration with one group per layer."""
        new = copy.deepcopy(config)
        new.num_hidden_groups = new.num_hidden_layers
        return new

    def keeps_sharing(self, config: Config, numbers: Sequence[int]) -> bool:
        """Whether all layers are in one group and are only cut at the top."""
        return bool(config.num_hidden_groups == 1) and list(numbers) == list(range(1, len(numbers) + 1))

    def reordered(self, config: Config, numbers: Sequence[int], origins: Sequence[int]) -> Config:
        """Return the configuration for these layers, with one group per layer if it is unrolled."""
        new = super().reordered(config, numbers, origins)
        if not self.shares_layers(config):
            new.num_hidden_groups = len(numbers)
        return new

    def set_layers(self, model: Model, layers: Sequence[nn.Module]) -> None:
        """Replace the layers by one group per layer."""
        from transformers.models.albert.modeling_albert import AlbertLayerGroup

        groups = []
        for layer in layers:
            with torch.device("meta"):  # no weights, and nothing drawn from the global random state
                group = AlbertLayerGroup(model.config)
            group.albert_layers[0] = layer
            groups.append(group)
        model.encoder.albert_layer_groups = nn.ModuleList(groups)

    def embed(self, model: Model, ids: Tensor, types: Tensor, positions: Tensor) -> Tensor:
        """Return state 0, after the projection to the layers' width."""
        states = super().embed(model, ids, types, positions)
        return cast(Tensor, model.encoder.embedding_hidden_mapping_in(states))


FAMILIES.add("albert", Albert())
