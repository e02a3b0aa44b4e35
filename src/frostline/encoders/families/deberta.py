"""DeBERTa: attention by content and by relative position; the relative embeddings belong to the embeddings."""

from __future__ import annotations

from types import MethodType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, Model
from frostline.encoders.families._prefix_attention import gather
from frostline.errors import EncoderError


class RelativeContext(NamedTuple):
    """The input that DeBERTa's layers share for one padded batch."""

    mask: Tensor  # (texts, longest), 1 at real tokens
    attention_mask: Tensor
    relative_positions: Tensor | None
    relative_embeddings: Tensor | None


class Deberta(Family):
    """Attention by content and relative position, on padded batches."""

    name = "deberta"
    title = "DeBERTa"
    examples = "microsoft/deberta-base, microsoft/deberta-large"
    can_average = False
    colour = "#d8c92f"
    embedding_paths: tuple[str, ...] = ("embeddings", "encoder.rel_embeddings")
    pooler_path = None
    can_pack = False
    takes_bfloat16 = False  # the stock code uses a number that bfloat16 cannot represent
    has_multiple_choice = False
    projections = {
        "query": "attention.self.in_proj",  # one projection makes query, key and value
        "key": "attention.self.in_proj",
        "value": "attention.self.in_proj",
        "project": "attention.output.dense",
        "up": "intermediate.dense",
        "down": "output.dense",
    }

    def max_length(self, config: Config) -> int | None:
        """Return the size of the position table, if there is one; relative positions set no limit."""
        return int(config.max_position_embeddings) if config.position_biased_input else None

    def embed(self, model: Model, ids: Tensor, types: Tensor, positions: Tensor) -> Tensor:
        """Return state 0; it is unpadded, so the stock code has no padding to set to zero."""
        if model.embeddings.position_embeddings is None:
            positions = torch.zeros_like(positions)  # not used, and possibly beyond the table
        return super().embed(model, ids, types, positions)

    def context(self, model: Model, mask: Tensor, dtype: torch.dtype) -> RelativeContext:
        """Return the pairwise mask, relative positions, and the (normalised) relative embeddings."""
        encoder = model.encoder
        like_states = torch.empty((1, mask.shape[1], 1), device=mask.device)  # only its length is read
        return RelativeContext(
            mask=mask.long(),
            attention_mask=encoder.get_attention_mask(mask.long()),
            relative_positions=encoder.get_rel_pos(like_states),
            relative_embeddings=encoder.get_rel_embedding(),
        )

    def call(self, model: Model, layer: nn.Module, states: Tensor, context: Any, *, origin: int) -> Tensor:
        """Return the stock layer's output, given the shared input."""
        outputs = layer(
            states,
            context.attention_mask,
            relative_pos=context.relative_positions,
            rel_embeddings=context.relative_embeddings,
        )
        return cast(Tensor, outputs[0])

    def _attend_to_prefix(self, attention: Any) -> None:
        """Replace the forward pass: DeBERTa's attention does not use transformers' attention interface."""
        if getattr(attention, "talking_head", False):
            raise EncoderError("a prefix cannot be attached to a DeBERTa with mixed attention heads (talking_head)")
        attention.forward = MethodType(self._forward_with_prefix, attention)

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
        """Run the stock attention's forward pass, over a prefix too; the names of arguments are the stock ones."""
        query, key, value = attention.transpose_for_scores(attention.in_proj(states)).chunk(3, dim=-1)
        query, value = (
            side + attention.transpose_for_scores(bias[None, None])
            for side, bias in ((query, attention.q_bias), (value, attention.v_bias))
        )
        parts = 1 + len(attention.pos_att_type)  # content, and each kind of position
        query = query * (attention.attention_head_size * parts) ** -0.5
        scores = query @ key.transpose(-1, -2)
        if attention.relative_attention and rel_embeddings is not None and relative_pos is not None:
            dropped = attention.pos_dropout(rel_embeddings)
            scores = scores + attention.disentangled_att_bias(query, key, relative_pos, dropped, parts)
        scores = scores.masked_fill(~mask.bool(), torch.finfo(scores.dtype).min)
        return gather(query, scores, value, attention.prefix, attention.dropout), None


FAMILIES.add("deberta", Deberta())
