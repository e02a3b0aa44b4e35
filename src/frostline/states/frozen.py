"""Token states of texts at one layer that never changes, read or computed, always in the same number format."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.tokens import TOKENS_PER_BATCH, Tokens
from frostline.kernels.batch_layout import Ints, Reads

if TYPE_CHECKING:
    from frostline.encoders.encoder import Encoder

DType = Literal["float16", "float32"]


@dataclass(frozen=True, kw_only=True)
class StatesAt:
    """Which states of the texts: those of a layer, 0..L, at the tokens that are read."""

    layer: int
    reads: Reads = Reads.ALL


class FrozenStates:
    """The states of texts at one layer, in the order of the texts, whether kept on disk or computed when asked for.

    Either way they have been rounded to the same number format, so that results do not depend on free disk but for the
    last digits: texts that are computed in other company come out with other roundings.
    """

    def __init__(self, encoder: Encoder, tokens: Tokens, layer: int, *, dtype: DType, reads: Reads) -> None:
        """States that are computed when asked for.

        Args:
            encoder: in eval mode.
            tokens: of the texts.
            layer: 0..L.
            dtype: that states are rounded to.
            reads: the tokens of each text that are kept.
        """
        self.encoder = encoder
        self.tokens = tokens
        self.layer = layer
        self.dtype = dtype
        self.reads = reads
        self.kept: np.ndarray[Any, Any] | None = None
        self.lengths: Ints = np.ones_like(tokens.lengths) if reads.is_single else tokens.lengths
        self._starts: Ints = np.cumsum(self.lengths) - self.lengths

    def take(self, texts: Ints) -> FrozenStates:
        """The states of some of the texts, in this order; nothing is copied."""
        some = copy.copy(self)
        some.tokens = self.tokens.take(texts)
        some.lengths, some._starts = self.lengths[texts], self._starts[texts]
        return some

    @property
    def size(self) -> int:
        """Bytes that the states take."""
        return int(self.lengths.sum()) * self.encoder.width * (2 if self.dtype == "float16" else 4)

    @property
    def is_kept(self) -> bool:
        """Whether states are read and not computed."""
        return self.kept is not None

    def rows(self, rows: Sequence[int] | Ints) -> Tensor:
        """(tokens, width), float32: the states of these texts laid end to end."""
        if self.kept is None:
            (found,) = compute([self], [np.asarray(rows)])
            return rounded(found[1][0], self.dtype).float()
        if self.reads.is_single:
            states = self.kept[self._starts[np.asarray(rows)]]
        else:
            states = np.concatenate([self.kept[self.place(int(row))] for row in rows])
        return torch.from_numpy(np.ascontiguousarray(states)).to(self.encoder.device).float()

    def place(self, row: int) -> slice:
        """Where a text's states lie."""
        return slice(int(self._starts[row]), int(self._starts[row] + self.lengths[row]))


def compute(
    wanted: Sequence[FrozenStates], batches: Sequence[Ints] | None = None
) -> Iterator[tuple[Ints, list[Tensor]]]:
    """Places of texts and their states at each of several layers, (tokens, width), all from one pass.

    Layers are run whole also where only single tokens are kept: what is computed with others must not differ by a bit
    from what is computed alone.

    Args:
        wanted: of the same texts and encoder, at different layers.
        batches: places of texts; by default all of them, in batches of similar length.
    """
    encoder, tokens = wanted[0].encoder, wanted[0].tokens
    layers = {states.layer for states in wanted}
    with torch.no_grad():
        for rows in tokens.batches(TOKENS_PER_BATCH) if batches is None else batches:
            batch = tokens.take(rows)
            layout = encoder.layout(batch)
            start = encoder.embed(batch, layout)
            passing = {0: start}
            for number, state in enumerate(encoder.each(start, layout, 1, max(layers)), start=1):
                if number in layers:
                    passing[number] = state
            yield rows, [layout.read(passing[states.layer], states.reads) for states in wanted]


def rounded(states: Tensor, dtype: DType) -> Tensor:
    """The states in the cache's number format; in float32 where float16 cannot hold them."""
    if dtype == "float32":
        return states.float()
    half = states.half()
    return half if bool(half.isfinite().all()) else states.float()
