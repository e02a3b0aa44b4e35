"""Token states of texts at all layers, from one pass."""

from __future__ import annotations

import torch

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.files.disk_arrays import nameless_array
from frostline.kernels.batch_layout import Reads
from frostline.states.frozen import DType, FrozenStates, compute, round_states


def states_of_layers(encoder: Encoder, tokens: Tokens, *, dtype: DType, reads: Reads) -> FrozenStates:
    """Return the states of texts at layers 1..L, whose rows are (tokens, layers, width).

    They are in a temporary file, not in the cache: the states of a model that was tuned for one trial are used once.

    Args:
        encoder: the encoder; put in eval mode.
        tokens: tokens of the texts.
        dtype: number format of the states; float32 is used if float16 overflows.
        reads: the tokens of each text to keep.
    """
    encoder.model.eval()
    layers = [FrozenStates(encoder, tokens, layer, dtype=dtype, reads=reads) for layer in range(1, encoder.depth + 1)]
    whole = layers[-1]
    kept = nameless_array((int(whole.lengths.sum()), encoder.depth, encoder.width), dtype)
    for texts, states in compute(layers):
        values = round_states(torch.stack(states, 1), dtype)
        if str(values.dtype) != f"torch.{dtype}":
            return states_of_layers(encoder, tokens, dtype="float32", reads=reads)
        kept[whole.positions(texts)] = values.cpu().numpy()
    whole.kept = kept
    return whole
