"""Pooled states of all layers from one pass over the texts.

Token states of one batch at a time are held, pooled and dropped. Texts of similar length go together, so that short
texts cost what they should; results come back in the order of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from frostline.encoder import Encoder
from frostline.errors import MeasureError, OptionError, did_you_mean
from frostline.layout import Layout
from frostline.tokens import Tokens

Pooling = Literal["mean", "first", "all"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
Progress = Callable[[int, int], None]  # texts done, texts in all

# Large enough for full speed on a CPU, small enough to stay in its cache between two layers.
_TOKENS_PER_BATCH = 4096


def pooled_states(
    encoder: Encoder,
    tokens: Tokens,
    *,
    pooling: Pooling = "mean",
    progress: Progress | None = None,
    tokens_per_batch: int = _TOKENS_PER_BATCH,
) -> Tensor:
    """One vector per layer and text: (layers 0..L, texts, width), float32.

    Args:
        encoder: run in eval mode, without gradients.
        tokens: of the texts.
        pooling: 'mean' of the tokens except the first, the 'first' token, or the mean of 'all' tokens.
        progress: told how many texts are done after each batch.
        tokens_per_batch: bounds the memory that token states take.
    """
    pool = _pooler(pooling)
    out = torch.empty(encoder.depth + 1, len(tokens), encoder.width)
    done = 0
    with torch.inference_mode():
        for rows in tokens.batches(tokens_per_batch):
            batch = tokens.take(rows)
            layout = encoder.layout(batch)
            place = torch.as_tensor(rows)
            for layer, states in enumerate(encoder.states(batch, layout)):
                out[layer, place] = pool(layout, states).float().cpu()
            done += len(rows)
            if progress is not None:
                progress(done, len(tokens))
    _check_finite(encoder, out)
    return out


def _pooler(pooling: str) -> Callable[[Layout, Tensor], Tensor]:
    if pooling == "first":
        return Layout.first
    if pooling in ("mean", "all"):
        return lambda layout, states: layout.mean(states, skip_first=pooling == "mean")
    raise OptionError(f"pooling {pooling!r}{did_you_mean(pooling, POOLINGS)}: must be one of {', '.join(POOLINGS)}")


def _check_finite(encoder: Encoder, states: Tensor) -> None:
    bad: Sequence[Sequence[int]] = (~states.isfinite().all(-1)).nonzero().tolist()
    if bad:
        layer, row = bad[0]
        raise MeasureError(
            f"{encoder.name}: state {layer} of text {row + 1} is not finite; the weights or the text break the model"
        )
