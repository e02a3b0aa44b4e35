"""One pass of texts through the layers of an encoder, from which everything that needs their states reads.

Pooled states and cached token states come from the same pass, so that the encoder does not run twice for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import TOKENS_PER_BATCH, Tokens
from frostline.kernels.batch_layout import Ints, Layout


@dataclass(frozen=True, kw_only=True)
class TextBatch:
    """Texts that run together.

    Args:
        rows: positions of the texts among all texts.
        tokens: their tokens.
        layout: positions of each text's tokens.
    """

    rows: Ints
    tokens: Tokens
    layout: Layout


def each_layer(
    encoder: Encoder, tokens: Tokens, *, last: int, batches: Sequence[Ints] | None = None
) -> Iterator[tuple[TextBatch, int, Tensor]]:
    """Yield the texts of a batch, a layer's number and its states, (tokens, width): layers 0..last of each batch.

    The states of the last layer have not been through the family's final norm.

    Args:
        encoder: the encoder, in eval mode; runs without gradients.
        tokens: tokens of all texts.
        last: highest layer to run, 0..L.
        batches: positions of texts; by default all of them, in batches of similar length.
    """
    with torch.no_grad():
        for rows in tokens.batches(TOKENS_PER_BATCH) if batches is None else batches:
            some = tokens.take(rows)
            batch = TextBatch(rows=rows, tokens=some, layout=encoder.layout(some))
            start = encoder.embed(some, batch.layout)
            yield batch, 0, start
            for layer, states in enumerate(encoder.run_each(start, batch.layout, 1, last), start=1):
                yield batch, layer, states
