"""Token states of texts at all layers, side by side, from one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from frostline.files.disk_arrays import nameless_array
from frostline.kernels.batch_layout import Reads
from frostline.states.frozen import DType, FrozenStates, compute, rounded

if TYPE_CHECKING:
    from frostline.encoders.encoder import Encoder
    from frostline.encoders.tokens import Tokens


def states_of_layers(encoder: Encoder, tokens: Tokens, *, dtype: DType, reads: Reads) -> FrozenStates:
    """The states of texts at layers 1..L, whose rows are (tokens, layers, width).

    They are kept in a file that goes with them: nobody asks a second time for the states of a model that was tuned for
    one trial.

    Args:
        encoder: in eval mode.
        tokens: of the texts.
        dtype: of the states; float32 where float16 cannot hold them.
        reads: the tokens of each text that are kept.
    """
    encoder.model.eval()
    layers = [FrozenStates(encoder, tokens, layer, dtype=dtype, reads=reads) for layer in range(1, encoder.depth + 1)]
    whole = layers[-1]
    kept = nameless_array((int(whole.lengths.sum()), encoder.depth, encoder.width), dtype)
    for texts, found in compute(layers):
        values = rounded(torch.stack(found, 1), dtype)
        if str(values.dtype) != f"torch.{dtype}":
            return states_of_layers(encoder, tokens, dtype="float32", reads=reads)
        kept[np.concatenate([np.r_[whole.place(int(text))] for text in texts])] = values.cpu().numpy()
    whole.kept = kept
    return whole
