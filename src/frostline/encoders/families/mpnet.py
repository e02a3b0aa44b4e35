"""MPNet: BERT's layers and one relative attention bias that all of them add; it belongs to the embeddings."""

from __future__ import annotations

from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor, nn

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, Model, additive_mask, positions_after_padding_index
from frostline.encoders.families._prefix_attention import gather

_PADDING_INDEX = 1  # fixed in the stock code, which ignores the configuration


class MpNet(Family):
    """BERT's layers with a relative attention bias shared by all of them."""

    name = "mpnet"
    title = "MPNet"
    examples = "microsoft/mpnet-base, all-mpnet-base-v2"
    can_average = False
    colour = "#e69f00"
    embedding_paths = ("embeddings", "encoder.relative_attention_bias")
    projections = {
        "query": "attention.attn.q",
        "key": "attention.attn.k",
        "value": "attention.attn.v",
        "project": "attention.attn.o",
        "up": "intermediate.dense",
        "down": "output.dense",
    }
    norms = {"attention": "attention.LayerNorm", "output": "output.LayerNorm"}
    ends = {"attention": "attention.dropout", "output": "output.dropout"}
    attention_path = "attention.attn"
    dropouts = {"attention": "attention.attn.dropout", "project": "attention.dropout", "down": "output.dropout"}
    has_token_types = False

    def max_length(self, config: Config) -> int:
        """Return two less than the size of the position table, as in RoBERTa."""
        return int(config.max_position_embeddings) - _PADDING_INDEX - 1

    def positions(self, config: Config, ids: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """Return positions counted from the padding index."""
        return positions_after_padding_index(_PADDING_INDEX, ids, starts, lengths)

    def context(self, model: Model, mask: Tensor, dtype: torch.dtype) -> dict[str, Tensor | None]:
        """Return the arguments of a layer: the padding mask and the bias by relative position."""
        bias = self.position_bias(model, mask.shape[1])
        return {
            "attention_mask": additive_mask(mask, dtype),
            "position_bias": bias[None].expand(mask.shape[0], -1, -1, -1),
        }

    def call(self, model: Model, layer: nn.Module, states: Tensor, context: Any, *, origin: int) -> Tensor:
        """Return the stock layer's output, given the shared bias."""
        return cast(Tensor, layer(states, **context)[0])

    def position_bias(self, model: Model, length: int) -> Tensor:
        """Return the bias by relative position, from the stock bucketing."""
        encoder = model.encoder
        position = torch.arange(length, device=encoder.relative_attention_bias.weight.device)
        buckets = encoder.relative_position_bucket(position[None, :] - position[:, None])
        return cast(Tensor, encoder.relative_attention_bias(buckets).permute(2, 0, 1))

    def _attend_to_prefix(self, attention: Any) -> None:
        """Replace the forward pass: MPNet's attention does not use transformers' attention interface."""
        attention.forward = MethodType(_forward_with_prefix, attention)


def _forward_with_prefix(
    attention: Any, states: Tensor, mask: Tensor | None = None, position_bias: Tensor | None = None, **others: object
) -> tuple[Tensor]:
    """Run the stock attention's forward pass, over a prefix too."""
    query, key, value = (
        part(states).unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)
        for part in (attention.q, attention.k, attention.v)
    )
    query = query * attention.attention_head_size**-0.5
    scores = query @ key.transpose(-1, -2)
    for bias in (position_bias, mask):
        scores = scores if bias is None else scores + bias
    return (attention.o(gather(query, scores, value, attention.prefix, attention.dropout)),)


FAMILIES.add("mpnet", MpNet())
