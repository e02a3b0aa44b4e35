"""One post-norm layer on unpadded tokens: the same states as on a padded batch, without computing the padding.

Everything but attention runs on one (tokens, width) matrix. Attention runs in a few groups of similar length
(`layout.py`), which keeps batches random: sorting by length would not, and random batches are what training wants.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from frostline.families.family import LayerParts
from frostline.layout import Group, Layout

Bias = Callable[[int], Tensor | None]


def run_layer(parts: LayerParts, states: Tensor, layout: Layout, *, bias: Bias, training: bool) -> Tensor:
    """The layer's output for texts laid end to end.

    Args:
        parts: the layer's pieces.
        states: (tokens, width).
        layout: where each text's tokens lie.
        bias: the family's position bias for a given length.
        training: whether dropout is on.
    """
    attended = parts.project(attend(parts, states, layout, bias=bias, training=training))
    attended = F.dropout(attended, parts.project_dropout, training)
    states = parts.attention_norm(attended + states)
    fed = F.dropout(parts.down(parts.activation(parts.up(states))), parts.down_dropout, training)
    out: Tensor = parts.output_norm(fed + states)
    return out


def attend(parts: LayerParts, states: Tensor, layout: Layout, *, bias: Bias, training: bool) -> Tensor:
    """What self-attention gathers for each token, before the output projection: (tokens, width)."""
    tokens = states.shape[0]
    heads = [part(states).view(tokens, parts.heads, -1) for part in (parts.query, parts.key, parts.value)]
    dropout = parts.attention_dropout if training else 0.0
    outputs = []
    for group in layout.groups:
        query, key, value = (part[group.index].transpose(1, 2) for part in heads)
        mask = _group_bias(group, bias(group.index.shape[1]))
        gathered = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        outputs.append(gathered.transpose(1, 2)[group.mask])
    return torch.cat(outputs)[layout.back].reshape(tokens, -1)


def _group_bias(group: Group, position_bias: Tensor | None) -> Tensor | None:
    """What attention takes as its mask: true at real tokens, or the position bias with padding at the lowest number."""
    mask = group.mask[:, None, None, :]
    if position_bias is None:
        return None if group.is_full else mask
    return (
        position_bias[None] if group.is_full else position_bias.masked_fill(~mask, torch.finfo(position_bias.dtype).min)
    )
