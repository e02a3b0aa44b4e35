"""Token states of texts at frozen layers, read or computed, always in the same number format."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.files.disk_arrays import nameless_array
from frostline.kernels.batch_layout import Ints, Reads
from frostline.states.layer_pass import each_layer

DType = Literal["float16", "float32"]


@dataclass(frozen=True, kw_only=True)
class StatesAt:
    """A layer, 0..L, and the tokens whose states are read there."""

    layer: int
    reads: Reads = Reads.ALL


class FrozenStates:
    """The states of texts at one layer, in the order of the texts, kept on disk or computed on demand.

    Both are rounded to the same number format, so results do not depend on free disk, except for the last digits:
    results depend on the batch a text is computed in, up to rounding.
    """

    def __init__(self, encoder: Encoder, tokens: Tokens, layer: int, *, dtype: DType, reads: Reads) -> None:
        """Make states that are computed on demand.

        Args:
            encoder: the encoder, in eval mode.
            tokens: tokens of the texts.
            layer: 0..L.
            dtype: number format to which states are rounded.
            reads: the tokens of each text to keep.
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
        """Return the states of some of the texts, in this order, without copying them."""
        part = copy.copy(self)
        part.tokens = self.tokens.take(texts)
        part.lengths, part._starts = self.lengths[texts], self._starts[texts]
        return part

    @property
    def size(self) -> int:
        """The size of the states in bytes."""
        return int(self.lengths.sum()) * self.encoder.width * (2 if self.dtype == "float16" else 4)

    @property
    def is_kept(self) -> bool:
        """Whether states are read instead of computed."""
        return self.kept is not None

    def rows(self, rows: Sequence[int] | Ints) -> Tensor:
        """Return the states of these texts laid end to end: (tokens, width), float32."""
        if self.kept is None:
            ((_, (computed,)),) = compute([self], [np.asarray(rows)])
            return round_states(computed, self.dtype).float()
        if self.reads.is_single:
            states = self.kept[self._starts[np.asarray(rows)]]
        else:
            states = np.concatenate([self.kept[self.span(int(row))] for row in rows])
        return torch.from_numpy(np.ascontiguousarray(states)).to(self.encoder.device).float()

    def positions(self, rows: Sequence[int] | Ints) -> Ints:
        """Return the positions of the states of these texts, one text after the other."""
        return np.concatenate([np.r_[self.span(int(row))] for row in rows])

    def span(self, row: int) -> slice:
        """Return the positions of a text's states."""
        return slice(int(self._starts[row]), int(self._starts[row] + self.lengths[row]))


class JoinedStates:
    """The states of two lists of texts at the same layer, the second list after the first; nothing is copied."""

    def __init__(self, first: FrozenStates, second: FrozenStates, texts: Ints | None = None) -> None:
        """Join states that are read or computed as before.

        Args:
            first: the states of the first texts.
            second: the states of the others.
            texts: numbers of some of the texts of both, in any order; None for all of them.
        """
        self.first, self.second = first, second
        self._every_length = np.concatenate([first.lengths, second.lengths])
        self._texts = np.arange(len(self._every_length)) if texts is None else texts
        self.lengths: Ints = self._every_length[self._texts]

    def take(self, texts: Ints) -> JoinedStates:
        """Return the states of some of the texts, in this order."""
        return JoinedStates(self.first, self.second, self._texts[texts])

    @property
    def is_kept(self) -> bool:
        """Whether all states are read instead of computed."""
        return self.first.is_kept and self.second.is_kept

    def rows(self, rows: Sequence[int] | Ints) -> Tensor:
        """Return the states of these texts laid end to end: (tokens, width), float32."""
        numbers = self._texts[np.asarray(rows)]
        is_first = numbers < len(self.first.lengths)
        if is_first.all():
            return self.first.rows(numbers)
        if not is_first.any():
            return self.second.rows(numbers - len(self.first.lengths))
        owner = torch.from_numpy(np.repeat(is_first, self._every_length[numbers]))
        ones = self.first.rows(numbers[is_first])
        others = self.second.rows(numbers[~is_first] - len(self.first.lengths))
        states = ones.new_empty((len(owner), *ones.shape[1:]))
        states[owner.to(ones.device)], states[~owner.to(ones.device)] = ones, others
        return states


def compute(
    wanted: Sequence[FrozenStates], batches: Sequence[Ints] | None = None
) -> Iterator[tuple[Ints, list[Tensor]]]:
    """Yield positions of texts and their states at each of several layers, (tokens, width), all from one pass.

    Layers run on all tokens even if only single ones are kept: states computed together must be bit-identical to states
    computed alone.

    Args:
        wanted: states of the same texts and encoder at different layers.
        batches: positions of texts; by default all of them, in batches of similar length.
    """
    layers = {states.layer for states in wanted}
    passing: dict[int, Tensor] = {}
    for batch, layer, states in each_layer(wanted[0].encoder, wanted[0].tokens, last=max(layers), batches=batches):
        if layer in layers:
            passing[layer] = states
        if layer == max(layers):
            yield batch.rows, [batch.layout.read(passing[one.layer], one.reads) for one in wanted]
            passing = {}


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


def round_states(states: Tensor, dtype: DType) -> Tensor:
    """Return the states in the cache's number format, or in float32 if float16 overflows."""
    if dtype == "float32":
        return states.float()
    half = states.half()
    return half if bool(half.isfinite().all()) else states.float()
