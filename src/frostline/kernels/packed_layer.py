"""One post-norm layer on unpadded tokens: the same states as on a padded batch, without computing the padding.

Everything except attention runs on one (tokens, width) matrix. Attention runs in a few groups of similar length
(`batch_layout.py`), so batches stay random, as training needs them; sorting texts by length would change that. If only
one token of each text is read from the output, only that one is computed.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from frostline.kernels.attention import Bias, attend, attend_at
from frostline.kernels.batch_layout import Layout, Reads
from frostline.kernels.dropout import Noise, drop
from frostline.kernels.layer_parts import LayerParts


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
    """Return the layer's output for texts laid end to end: (tokens, width), or (texts, width) for single tokens.

    Args:
        parts: modules of the layer.
        states: (tokens, width).
        layout: positions of each text's tokens.
        bias: function from a length to the family's position bias.
        training: whether dropout is on.
        noise: random numbers of the training step, for dropout.
        reads: the tokens to compute.
    """
    attention = partial(attend_at, reads=reads) if reads.is_single else attend
    dropout = parts.attention_dropout if training else 0.0
    gathered = attention(parts, states, layout, bias=bias, dropout=dropout, noise=noise)
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
