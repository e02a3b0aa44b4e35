"""ModernBERT: pre-norm layers with rotary positions, most of them attending locally; a final norm closes the stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, Model, additive_mask
from frostline.kernels.batch_layout import Reads


class ModernBert(Family):
    """Pre-norm layers, rotary positions, local and global attention, a final norm that belongs to the head."""

    name = "modernbert"
    title = "ModernBERT"
    examples = "answerdotai/ModernBERT-base, answerdotai/ModernBERT-large"
    can_average = False
    note = "a head below the last layer reads through the final norm"
    colour = "#5b4a9e"
    layers_path = "layers"
    final_norm_path = "final_norm"
    pooler_path = None
    can_pack = False
    projections = {
        "query": "attn.Wqkv",  # one projection makes query, key and value
        "key": "attn.Wqkv",
        "value": "attn.Wqkv",
        "project": "attn.Wo",
        "up": "mlp.Wi",
        "down": "mlp.Wo",
    }
    norms = {"attention": "attn_norm", "output": "mlp_norm"}
    ends = {"attention": "attn.out_drop", "output": "mlp.Wo"}
    attention_path = "attn"
    dropout_attributes = ("attention_dropout",)
    upper_keys = Family.upper_keys | {"classifier_pooling"}

    def reordered(self, config: Config, numbers: Sequence[int], origins: Sequence[int]) -> Config:
        """Return the configuration for these layers, each with its own kind of attention."""
        new = super().reordered(config, numbers, origins)
        new.layer_types = [config.layer_types[number - 1] for number in numbers]
        return new

    def is_stock(self, model: Model, origins: Sequence[int]) -> bool:
        """Whether layer 1 is the lowest: in the stock class only the lowest layer has no norm before attention."""
        return origins[0] == 1

    def head_reads(self, config: Config, kind: str) -> Reads:
        """Return the first token or, for a mean-pooling head, all tokens."""
        return Reads.FIRST if config.classifier_pooling == "cls" else Reads.ALL

    def embed(self, model: Model, ids: Tensor, types: Tensor, positions: Tensor) -> Tensor:
        """Return state 0; positions are added in the layers, and there are no token types."""
        return cast(Tensor, model.embeddings(input_ids=ids[None])[0])

    def context(self, model: Model, mask: Tensor, dtype: torch.dtype) -> dict[str, dict[str, Any]]:
        """Return the arguments of a layer, a mask and a rotary table, for each kind of attention."""
        position = torch.arange(mask.shape[1], device=mask.device)
        everywhere = additive_mask(mask, dtype)
        nearby = (position[None, :] - position[:, None]).abs() <= model.config.sliding_window
        local = torch.zeros(nearby.shape, dtype=dtype, device=mask.device)
        local = local.masked_fill_(~nearby, torch.finfo(dtype).min)[None, None]
        if everywhere is not None:
            local = torch.minimum(local, everywhere)
        like_states = torch.empty((1, 1), dtype=dtype, device=mask.device)  # only its dtype and device are read
        masks = {"full_attention": everywhere, "sliding_attention": local}
        return {
            kind: {
                "attention_mask": masks[kind],
                "position_embeddings": model.rotary_emb(like_states, position[None], kind),
            }
            for kind in set(model.config.layer_types)
        }

    def call(self, model: Model, layer: Any, states: Tensor, context: Any, *, origin: int) -> Tensor:
        """Return the stock layer's output with the mask and rotary table of its kind."""
        return cast(Tensor, layer(states, **context[layer.attention_type]))


FAMILIES.add("modernbert", ModernBert())
