"""Self-attention on unpadded tokens, in groups of texts of similar length.

There are three implementations, equal up to rounding. With gradients on a CPU: a hand-written backward pass, whose
dropout is the same after a resume. With a query at one token of each text only: the projections of keys and values are
applied to the query side, so that keys and values are never computed. Otherwise: torch's fused attention.

What the hand-written backward pass gains (`make bench-kernels`: 16 texts, widths 384 and 768, one thread): with
dropout, as in training, torch's fused attention takes 1.7 to 4.2 times as long on padded texts, 1.4 to 1.7 times on our
groups, and text by text 1.2 to 1.4 times on texts of 5 to 45 tokens and 1.0 times on texts of 20 to 256. Without
dropout, text by text wins: 0.6 to 0.9 of our time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frostline.kernels.batch_layout import Group, Layout, Reads
from frostline.kernels.dropout import Noise, drop
from frostline.kernels.layer_parts import LayerParts

Bias = Callable[[int], Tensor | None]


def attend(
    parts: LayerParts, states: Tensor, layout: Layout, *, bias: Bias, dropout: float, noise: Noise | None
) -> Tensor:
    """Return the output of attention at each token, before the output projection: (tokens, width).

    Args:
        parts: modules of the layer.
        states: (tokens, width).
        layout: positions of each text's tokens.
        bias: function from a length to the family's position bias.
        dropout: dropout probability of attention weights; 0 outside training.
        noise: random numbers of the training step.
    """
    query, key, value = (part(states) for part in (parts.query, parts.key, parts.value))
    biases = [bias(group.index.shape[1]) for group in layout.groups]
    is_simple = parts.prefix is None and not any(b is not None and b.requires_grad for b in biases)
    if query.requires_grad and is_simple and query.device.type == "cpu" and query.dtype == torch.float32:
        return cast(
            Tensor,
            _GroupedAttention.apply(  # type: ignore[no-untyped-call]
                query, key, value, layout.groups, biases, parts.heads, dropout, noise
            ),
        )
    pieces = []
    for group, position_bias in zip(layout.groups, biases, strict=True):
        sides = [_heads(group.pad(side), parts.heads) for side in (query, key, value)]
        rows = None if position_bias is None else position_bias[None]
        gathered = _fused(group, sides[0], sides[1], sides[2], rows, parts.prefix, dropout)
        pieces.append(gathered.transpose(1, 2).flatten(0, 1)[group.real])
    return torch.cat(pieces)[layout.back].flatten(1)


def attend_at(
    parts: LayerParts,
    states: Tensor,
    layout: Layout,
    *,
    reads: Reads,
    bias: Bias,
    dropout: float,
    noise: Noise | None,
) -> Tensor:
    """Return the output of attention at one token of each text, the first or the last: (texts, width)."""
    query = parts.query(layout.read(states, reads)).unflatten(-1, (parts.heads, -1))  # (texts, heads, size)
    is_plain = type(parts.key) is nn.Linear and type(parts.value) is nn.Linear and parts.prefix is None
    projected = [] if is_plain else [parts.key(states), parts.value(states)]
    pieces = []
    for group in layout.groups:
        group_query = query.index_select(0, group.texts)
        rows = _bias_of(bias(group.index.shape[1]), group, reads)
        if is_plain:
            gathered = _absorbed(parts, group_query, group.pad(states), group, rows, dropout, noise)
        else:
            key, value = (_heads(group.pad(side), parts.heads) for side in projected)
            gathered = _fused(group, group_query[:, :, None], key, value, rows, parts.prefix, dropout)[:, :, 0]
        pieces.append(gathered)
    order = torch.argsort(torch.cat([group.texts for group in layout.groups]))
    return torch.cat(pieces)[order].flatten(1)


def _bias_of(position_bias: Tensor | None, group: Group, reads: Reads) -> Tensor | None:
    """Return the position bias of the query token, (texts or 1, heads, 1, longest), from (heads, longest, longest)."""
    if position_bias is None or reads is Reads.FIRST:
        return None if position_bias is None else position_bias[None, :, :1]
    return position_bias[:, group.mask.sum(1) - 1].transpose(0, 1)[:, :, None]


def _heads(padded: Tensor, heads: int) -> Tensor:
    """Return (texts, heads, longest, size) from (texts, longest, width)."""
    return padded.view(*padded.shape[:2], heads, -1).transpose(1, 2)


def _fused(
    group: Group,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    position_bias: Tensor | None,
    prefix: nn.Module | None,
    dropout: float,
) -> Tensor:
    """Return the output of torch's fused attention; a prefix is visible to all tokens and has no position bias."""
    mask = _mask(group, position_bias)
    if prefix is not None:
        prefixes = prefix()  # keys and values, each (count, width)
        key, value = (
            torch.cat([_heads(more.expand(len(side), -1, -1), side.shape[1]), side], dim=2)
            for more, side in zip(prefixes, (key, value), strict=True)
        )
        if mask is not None:
            mask = F.pad(mask, (len(prefixes[0]), 0), value=True if mask.dtype == torch.bool else 0.0)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


def _mask(group: Group, position_bias: Tensor | None) -> Tensor | None:
    """Return torch's attention mask: true at real tokens, or the position bias with the lowest number at padding."""
    mask = group.mask[:, None, None, :]
    if group.is_full:
        return position_bias
    if position_bias is None:
        return mask
    return position_bias.masked_fill(~mask, torch.finfo(position_bias.dtype).min)


def _absorbed(
    parts: LayerParts,
    asking: Tensor,
    states: Tensor,
    group: Group,
    position_bias: Tensor | None,
    dropout: float,
    noise: Noise | None,
) -> Tensor:
    """Return the output of attention for one query per text, (texts, heads, size), from (texts, longest, width).

    q'(Wx + b) = (W'q)'x + q'b, and sum p (Wx + b) = W sum p x + b sum p: two small products per text instead of two per
    token.
    """
    _, heads, size = asking.shape
    key, value = (cast(Tensor, part.weight).view(heads, size, -1) for part in (parts.key, parts.value))
    key_bias, value_bias = (cast(Tensor | None, part.bias) for part in (parts.key, parts.value))
    moved = torch.bmm(asking.transpose(0, 1), key).transpose(0, 1)  # (texts, heads, width)
    scores = torch.bmm(moved, states.transpose(1, 2))
    if key_bias is not None:
        # Equal at all tokens of a text, so it does not change the output; without it, its gradient would be None.
        scores = scores + (asking * key_bias.view(heads, size)).sum(-1, keepdim=True)
    scores = scores * size**-0.5
    if position_bias is not None:
        scores = scores + position_bias[:, :, 0]
    if not group.is_full:
        scores = scores.masked_fill(~group.mask[:, None], torch.finfo(scores.dtype).min)
    weights = drop(scores.softmax(-1), dropout, training=dropout > 0, noise=noise)
    mixed = torch.bmm(weights, states)
    gathered = torch.bmm(mixed.transpose(0, 1), value.transpose(1, 2)).transpose(0, 1)
    if value_bias is not None:
        gathered = gathered + weights.sum(-1, keepdim=True) * value_bias.view(heads, size)
    return gathered


class _GroupedAttention(torch.autograd.Function):
    """Attention with a hand-written backward pass: each group is padded once, and no sum is computed twice."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        groups: Sequence[Group],
        biases: Sequence[Tensor | None],
        heads: int,
        dropout: float,
        noise: Noise | None,
    ) -> Tensor:
        out = torch.empty_like(query)
        scale = (query.shape[1] // heads) ** -0.5
        saved: list[Tensor | None] = []
        for group, bias in zip(groups, biases, strict=True):
            q, k, v = (_flat_heads(group.gather(side), heads) for side in (query, key, value))
            scores = torch.bmm(q, k.transpose(1, 2)).mul_(scale)
            by_text = scores.view(-1, heads, *scores.shape[1:])
            if bias is not None:
                by_text.add_(bias)
            if not group.is_full:
                by_text.masked_fill_(~group.mask[:, None, None, :], torch.finfo(scores.dtype).min)
            weights = torch.softmax(scores, -1)
            keep = _draw_mask(weights, dropout, noise)
            used = weights if keep is None else weights * keep
            group.scatter(_joined(torch.bmm(used, v), heads), out)
            saved += [q, k, v, weights, used, keep]
        ctx.save_for_backward(*saved)
        ctx.groups, ctx.heads, ctx.scale = groups, heads, scale
        return out

    @staticmethod
    def backward(ctx: Any, *above: Any) -> Any:
        (gradient,) = above
        out = [torch.empty_like(gradient) for _ in range(3)]
        for number, group in enumerate(ctx.groups):
            q, k, v, weights, used, keep = ctx.saved_tensors[6 * number : 6 * number + 6]
            padded = group.gather(gradient)
            if not group.is_full:
                padded = padded.masked_fill_(~group.mask[..., None], 0.0)
            up = _flat_heads(padded, ctx.heads)
            by_weight = torch.bmm(up, v.transpose(1, 2))
            if keep is not None:
                by_weight.mul_(keep)
            by_score = torch._softmax_backward_data(by_weight, weights, -1, weights.dtype).mul_(ctx.scale)
            sides = torch.bmm(by_score, k), torch.bmm(by_score.transpose(1, 2), q), torch.bmm(used.transpose(1, 2), up)
            for side, into in zip(sides, out, strict=True):
                group.scatter(_joined(side, ctx.heads), into)
        return *out, None, None, None, None, None


def _flat_heads(padded: Tensor, heads: int) -> Tensor:
    """Return (texts x heads, longest, size) from (texts, longest, width)."""
    return _heads(padded, heads).flatten(0, 1).contiguous()


def _joined(by_head: Tensor, heads: int) -> Tensor:
    """Return (texts, longest, width) from (texts x heads, longest, size)."""
    return by_head.view(-1, heads, *by_head.shape[1:]).transpose(1, 2).flatten(2)


def _draw_mask(weights: Tensor, dropout: float, noise: Noise | None) -> Tensor | None:
    """Return the dropout mask of attention weights, scaled to keep their mean, or None without dropout."""
    if not dropout:
        return None
    if noise is not None:
        return noise.keep(tuple(weights.shape), dropout)
    return F.dropout(torch.ones_like(weights), dropout)
