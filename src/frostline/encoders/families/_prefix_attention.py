"""Attention over a prefix on padded batches, for stock attention modules with an attached prefix.

A prefix gives each head a few more keys and values. They have no position: no rotation, no position bias, and every
token attends to them, also in layers with local attention.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_NAME = "frostline_prefix"


def with_prefix_attention(config: Any) -> Any:
    """Return a copy of the configuration with which an attention module attends to its prefix.

    Most stock attention modules look up their attention function in a table of transformers, by a name in their
    configuration.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attend)
    new = copy.deepcopy(config)
    new._attn_implementation = _NAME
    return new


def gather(query: Tensor, scores: Tensor, value: Tensor, prefix: nn.Module, drop: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the output of attention over prefix and tokens: (texts, longest, width).

    Args:
        query: (texts, heads, longest, size), already scaled.
        scores: masked scores of the tokens, (texts, heads, longest, longest).
        value: (texts, heads, longest, size).
        prefix: module that returns additional keys and values.
        drop: dropout of attention weights.
    """
    more_keys, more_values = _by_head(prefix, query.shape[1])
    weights = drop(torch.cat([query @ more_keys.transpose(-1, -2), scores], dim=-1).softmax(-1))
    to_prefix, to_tokens = torch.split(weights, [more_keys.shape[-2], scores.shape[-1]], dim=-1)
    return (to_prefix @ more_values + to_tokens @ value).transpose(1, 2).flatten(2)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    dropout: float = 0.0,
    **others: object,
) -> tuple[Tensor, None]:
    """Attend as transformers' functions do: (texts, heads, longest, size) in, (texts, longest, heads, size) out."""
    more_keys, more_values = _by_head(module.prefix, query.shape[1])
    key, value = (
        torch.cat([more.expand(len(side), -1, -1, -1), side], dim=2)
        for more, side in ((more_keys, key), (more_values, value))
    )
    if attention_mask is not None:
        attention_mask = F.pad(attention_mask, (more_keys.shape[-2], 0))  # 0 is added: visible
    out = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout, scale=scaling)
    return out.transpose(1, 2), None


def _by_head(prefix: nn.Module, heads: int) -> tuple[Tensor, Tensor]:
    """Return the prefix's keys and values, (heads, count, size) each."""
    keys, values = (side.view(len(side), heads, -1).transpose(0, 1) for side in cast(tuple[Tensor, Tensor], prefix()))
    return keys, values
