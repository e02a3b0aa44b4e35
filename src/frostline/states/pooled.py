"""Pooled states of all layers from one pass over the texts.

Only the token states of one batch are in memory. Batches consist of texts of similar length, so that short texts are
cheap; results are in the order of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import TOKENS_PER_BATCH, Tokens
from frostline.errors import MeasureError, OptionError, did_you_mean
from frostline.files.disk_arrays import nameless_array
from frostline.kernels.batch_layout import Ints, Layout, Reads
from frostline.progress import Progress, Step, silent
from frostline.states.layer_pass import TextBatch, each_layer

Pooling = Literal["mean", "first", "all", "released"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
STAGE = "running the encoder"  # in progress messages

_LAST_SPECIAL = 2  # of RoBERTa's ids: <s>, <pad> and </s> are 0, 1 and 2


def pooled_states(
    encoder: Encoder,
    tokens: Tokens,
    *,
    poolings: Sequence[Pooling] = ("mean",),
    progress: Progress = silent,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    memory_limit: int | None = None,
) -> dict[Pooling, Tensor]:
    """Return one vector per layer and text for each pooling: (layers 0..L, texts, width), float32.

    Args:
        encoder: the encoder; runs in eval mode, without gradients.
        tokens: tokens of the texts.
        poolings: 'mean' of the tokens except the first, the 'first' token, the mean of 'all' tokens, or 'released', the
            mean of tokens with an id above 2 (for RoBERTa without <s> and </s>), as in the script of Xie et al. 2022.
        progress: progress callback.
        tokens_per_batch: largest number of tokens in a padded batch.
        memory_limit: size in bytes beyond which the result is in a temporary file, mapped into memory.
    """
    pooled = PooledStates(encoder, tokens, poolings=poolings, memory_limit=memory_limit)
    pooled.run(progress, batches=tokens.batches(tokens_per_batch))
    return pooled.result()


class PooledStates:
    """Pooled states of all layers that are collected from a pass over the texts."""

    def __init__(
        self,
        encoder: Encoder,
        tokens: Tokens,
        *,
        poolings: Sequence[Pooling] = ("mean",),
        memory_limit: int | None = None,
    ) -> None:
        """Make room for the states; the arguments are those of `pooled_states`."""
        self.encoder, self.tokens = encoder, tokens
        self._pool = {pooling: _pooler(pooling) for pooling in poolings}
        shape = (encoder.depth + 1, len(tokens), encoder.width)
        on_disk = memory_limit is not None and len(self._pool) * 4 * prod(shape) > memory_limit
        self._states: dict[Pooling, Tensor] = {
            pooling: torch.from_numpy(nameless_array(shape, "float32")) if on_disk else torch.empty(shape)
            for pooling in self._pool
        }

    def run(self, progress: Progress = silent, *, batches: Sequence[Ints] | None = None) -> None:
        """Collect the states in a pass of their own."""
        done = 0
        for batch, layer, states in each_layer(self.encoder, self.tokens, last=self.encoder.depth, batches=batches):
            self.add(batch, layer, states)
            if layer == self.encoder.depth:
                done += len(batch.rows)
                progress(Step(stage=STAGE, done=done, total=len(self.tokens)))

    def add(self, batch: TextBatch, layer: int, states: Tensor) -> None:
        """Pool the states of a batch at one layer, as `each_layer` yields them."""
        with torch.no_grad():
            states = self.encoder.finish(states) if layer == self.encoder.depth else states
            positions = torch.as_tensor(batch.rows)
            for pooling, into in self._states.items():
                into[layer, positions] = self._pool[pooling](batch.tokens, batch.layout, states.float()).cpu()

    def result(self) -> dict[Pooling, Tensor]:
        """Return (layers 0..L, texts, width) for each pooling, once every text has passed; raise if not finite."""
        for states in self._states.values():
            _check_finite(self.encoder, states)
        return dict(self._states)


@dataclass(frozen=True, kw_only=True)
class SeenTexts:
    """Texts that have passed through an encoder: their tokens and their pooled states.

    Args:
        tokens: tokens of the texts.
        states: (layers 0..L, texts, width) for each pooling.
        texts: (texts,), their numbers among all texts of the split.
    """

    tokens: Tokens
    states: Mapping[Pooling, Tensor]
    texts: Ints


def _pooler(pooling: str) -> Callable[[Tokens, Layout, Tensor], Tensor]:
    if pooling == "first":
        return lambda batch, layout, states: layout.read(states, Reads.FIRST)
    if pooling in ("mean", "all"):
        return lambda batch, layout, states: layout.mean(states, skip_first=pooling == "mean")
    if pooling == "released":
        return lambda batch, layout, states: layout.mean_of(states, torch.as_tensor(batch.ids > _LAST_SPECIAL))
    raise OptionError(f"pooling {pooling!r}{did_you_mean(pooling, POOLINGS)}: must be one of {', '.join(POOLINGS)}")


def _check_finite(encoder: Encoder, states: Tensor) -> None:
    for layer, layer_states in enumerate(states):
        is_finite = layer_states.isfinite().all(-1)
        if not bool(is_finite.all()):
            row = int(is_finite.long().argmin()) + 1
            raise MeasureError(
                f"{encoder.name}: state {layer} of text {row} is not finite; the weights or the text break the model"
            )
