"""Token states of texts at one layer that never changes, read or computed, always in the same number format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from frostline.encoder import Encoder
    from frostline.tokens import Ints, Tokens

DType = Literal["float16", "float32"]

_TOKENS_PER_BATCH = 4096


class FrozenStates:
    """The states of texts at one layer, in the order of the texts, whether kept on disk or computed when asked for.

    Either way they have been rounded to the same number format, so that results do not depend on free disk.
    """

    def __init__(self, encoder: Encoder, tokens: Tokens, layer: int, *, dtype: DType, first_only: bool) -> None:
        """States that are computed when asked for.

        Args:
            encoder: in eval mode.
            tokens: of the texts.
            layer: 0..L.
            dtype: that states are rounded to.
            first_only: keep each text's first token alone.
        """
        self.encoder = encoder
        self.tokens = tokens
        self.layer = layer
        self.dtype = dtype
        self.first_only = first_only
        self.kept: np.ndarray[Any, Any] | None = None
        self.lengths: Ints = np.ones_like(tokens.lengths) if first_only else tokens.lengths
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])

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
            return torch.cat([rounded(states, self.dtype) for _, states in self._compute([np.asarray(rows)])]).float()
        pieces = [self.kept[self._starts[row] : self._starts[row + 1]] for row in rows]
        return torch.from_numpy(np.concatenate(pieces)).to(self.encoder.device).float()

    def compute(self) -> Iterator[tuple[Ints, Tensor]]:
        """Places of texts and their states, (tokens, width), in batches of similar length."""
        yield from self._compute(self.tokens.batches(_TOKENS_PER_BATCH))

    def _compute(self, batches: Sequence[Ints]) -> Iterator[tuple[Ints, Tensor]]:
        with torch.no_grad():
            for rows in batches:
                batch = self.tokens.take(rows)
                layout = self.encoder.layout(batch)
                states = self.encoder.embed(batch, layout)
                yield rows, self.encoder.run(states, layout, 1, self.layer, first_token_only=self.first_only)

    def place(self, row: int) -> slice:
        """Where a text's states lie."""
        return slice(int(self._starts[row]), int(self._starts[row + 1]))


def rounded(states: Tensor, dtype: DType) -> Tensor:
    """The states in the cache's number format; in float32 where float16 cannot hold them."""
    if dtype == "float32":
        return states.float()
    half = states.half()
    return half if bool(half.isfinite().all()) else states.float()
