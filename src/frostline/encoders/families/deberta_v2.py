"""DeBERTa v2 and v3: DeBERTa with separate projections, log-bucketed positions and, in v2, a convolution.

The convolution reads the embeddings, is added to the first layer's output, and so belongs to layer 1: it is frozen,
tuned, dropped and moved with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Model
from frostline.encoders.families._prefix_attention import gather
from frostline.encoders.families.deberta import Deberta


class DebertaV2(Deberta):
    """Attention by content and bucketed relative position, on padded batches."""

    name = "deberta-v2"
    title = "DeBERTa v2 and v3"
    examples = "microsoft/deberta-v3-small, microsoft/deberta-v3-base, microsoft/deberta-v2-xlarge"
    can_average = False
    embedding_paths = ("embeddings", "encoder.rel_embeddings", "encoder.LayerNorm")
    takes_bfloat16 = True
    has_multiple_choice = True
    projections = {
        "query": "attention.self.query_proj",
        "key": "attention.self.key_proj",
        "value": "attention.self.value_proj",
        "project": "attention.output.dense",
        "up": "intermediate.dense",
        "down": "output.dense",
    }

    def attached(self, model: Model, origin: int) -> list[nn.Module]:
        """Return the convolution, for layer 1."""
        conv = model.encoder.conv
        return [conv] if origin == 1 and conv is not None else []

    def reordered(self, config: Config, numbers: Sequence[int], origins: Sequence[int]) -> Config:
        """Return the configuration for these layers, without convolution if layer 1 is not one of them."""
        new = super().reordered(config, numbers, origins)
        if 1 not in origins and getattr(config, "conv_kernel_size", 0) > 0:
            new.conv_kernel_size = 0
        return new

    def set_layers(self, model: Model, layers: Sequence[nn.Module]) -> None:
        """Replace the layers, and remove the convolution if the configuration has none."""
        super().set_layers(model, layers)
        if getattr(model.config, "conv_kernel_size", 0) < 1:
            model.encoder.conv = None

    def is_stock(self, model: Model, origins: Sequence[int]) -> bool:
        """Whether there is no convolution or it is at the lowest layer, where the stock class applies it."""
        return model.encoder.conv is None or origins[0] == 1

    def call(self, model: Model, layer: nn.Module, states: Tensor, context: Any, *, origin: int) -> Tensor:
        """Return the stock layer's output, for layer 1 with the convolution over the layer's input."""
        out = super().call(model, layer, states, context, origin=origin)
        for conv in self.attached(model, origin):
            # Padding is zero in the embeddings that it usually reads; after surgery it may read other states.
            out = cast(Tensor, conv(states * context.mask[..., None], out, context.mask))
        return out

    @staticmethod
    def _forward_with_prefix(
        attention: Any,
        states: Tensor,
        mask: Tensor,
        output_attentions: bool = False,
        query_states: Tensor | None = None,
        relative_pos: Tensor | None = None,
        rel_embeddings: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Run the stock attention's forward pass, over a prefix too; the stock code has texts and heads on one axis."""
        heads = attention.num_attention_heads
        query, key, value = (
            attention.transpose_for_scores(part(states), heads)
            for part in (attention.query_proj, attention.key_proj, attention.value_proj)
        )
        parts = 1 + ("c2p" in attention.pos_att_type) + ("p2c" in attention.pos_att_type)
        scaled = query * (query.shape[-1] * parts) ** -0.5
        scores = scaled @ key.transpose(-1, -2)
        if attention.relative_attention:
            dropped = attention.pos_dropout(rel_embeddings)
            scores = scores + attention.disentangled_attention_bias(query, key, relative_pos, dropped, parts)
        scaled, scores, value = (side.unflatten(0, (-1, heads)) for side in (scaled, scores, value))
        scores = scores.masked_fill(~mask.bool(), torch.finfo(scores.dtype).min)
        return gather(scaled, scores, value, attention.prefix, attention.dropout), None


FAMILIES.add("deberta-v2", DebertaV2())
