"""One post-norm layer on unpadded tokens: the same states as on a padded batch, without computing the padding.

Everything but attention runs on one (tokens, width) matrix. Attention runs in a few groups of similar length
(`layout.py`), which keeps batches random: sorting by length would not, and random batches are what training wants.
Where only one token of each text is read from the output, only that is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from frostline.kernels.attention import attend, attend_at
from frostline.kernels.batch_layout import Layout, Reads
from frostline.kernels.dropout import Noise, drop
from frostline.kernels.layer_parts import LayerParts

Bias = Callable[[int], Tensor | None]


def run_layer(
    parts: LayerParts,
    states: Tensor,
    layout: Layout,
    *,
    bias: Bias,
    training: bool,
    noise: Noise | None = None,
    reads: Reads = Reads.ALL,
) -> Tensor:
    """The layer's output for texts laid end to end: (tokens, width), or (texts, width) of a single token.

    Args:
        parts: the layer's pieces.
        states: (tokens, width).
        layout: where each text's tokens lie.
        bias: the family's position bias for a given length.
        training: whether dropout is on.
        noise: the training step's coins for it.
        reads: compute these tokens only.
    """
    rule = partial(attend_at, reads=reads) if reads.is_single else attend
    gathered = rule(parts, states, layout, bias=bias, dropout=parts.attention_dropout if training else 0.0, noise=noise)
    attended = drop(parts.project(gathered), parts.project_dropout, training=training, noise=noise)
    if parts.attention_adapter is not None:
        attended = parts.attention_adapter(attended)
    states = parts.attention_norm(attended + layout.read(states, reads))
    fed = parts.down(parts.activation(parts.up(states)))
    fed = drop(fed, parts.down_dropout, training=training, noise=noise)
    if parts.output_adapter is not None:
        fed = parts.output_adapter(fed)
    out: Tensor = parts.output_norm(fed + states)
    return out
