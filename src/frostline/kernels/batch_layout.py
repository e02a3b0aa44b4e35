"""The layout of a batch's tokens: end to end, padded, or in a few groups of similar length for attention.

Everything except attention works on single tokens, so a batch is one (tokens, width) matrix without padding. Attention
needs the tokens of a text side by side: texts are divided into a few groups of similar length, and only groups are
padded. The order of texts does not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]

# A group costs a fixed overhead and saves padding; below this share of padding, splitting further is not worth it.
_ACCEPTED_PADDING = 0.10
_MOST_GROUPS = 6


class Reads(Enum):
    """Which tokens of each text are read from the output of a layer."""

    FIRST = "first"
    LAST = "last"
    ALL = "all"

    @property
    def is_single(self) -> bool:
        """Whether one token of each text is read."""
        return self is not Reads.ALL


@dataclass(frozen=True, kw_only=True)
class Group:
    """Texts of similar length: the positions of their tokens in the batch and in the padded group."""

    index: Tensor  # (texts, longest): position of each token in the batch; padding points at the text's first token
    mask: Tensor  # (texts, longest): true at real tokens
    is_full: bool  # no padding at all
    texts: Tensor  # (texts,): positions among the batch's texts
    places: Tensor  # (real tokens,): position of each in the batch
    real: Tensor  # (real tokens,): position of each in the padded group, counted text by text

    def pad(self, states: Tensor) -> Tensor:
        """Return (texts, longest, ...) from the batch's (tokens, ...); padding repeats the text's first token."""
        return cast(Tensor, _Pad.apply(states, self))  # type: ignore[no-untyped-call]

    def gather(self, states: Tensor) -> Tensor:
        """Pad as `pad` does, with autograd's backward pass."""
        return states.index_select(0, self.index.flatten()).view(*self.index.shape, *states.shape[1:])

    def scatter(self, padded: Tensor, into: Tensor) -> None:
        """Write a padded group's real tokens to their positions in the batch."""
        flat = padded.reshape(self.mask.numel(), *padded.shape[2:])
        into.index_copy_(0, self.places, flat if self.is_full else flat.index_select(0, self.real))


class _Pad(torch.autograd.Function):
    """Padding whose backward pass reads real tokens only: the output at padding must be ignored anyway."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, group: Group) -> Tensor:
        ctx.group, ctx.shape = group, states.shape
        return group.gather(states)

    @staticmethod
    def backward(ctx: Any, *above: Any) -> Any:
        below = above[0].new_zeros(ctx.shape)
        ctx.group.scatter(above[0], below)
        return below, None


class Layout:
    """The positions of the tokens of each text of a batch."""

    def __init__(self, lengths: Ints, *, device: torch.device | None = None) -> None:
        """Lay out texts of these lengths end to end."""
        self._lengths = lengths
        self.device = device or torch.device("cpu")
        self.lengths = torch.as_tensor(lengths, device=self.device)
        self.starts = torch.cat([self.lengths.new_zeros(1), self.lengths.cumsum(0)[:-1]])
        self.tokens = int(lengths.sum())

    def __len__(self) -> int:
        return len(self._lengths)

    @cached_property
    def padded(self) -> Group:
        """All texts as one group: an ordinary padded batch."""
        return self._group(np.arange(len(self)))

    @cached_property
    def groups(self) -> list[Group]:
        """The texts in a few groups of similar length."""
        order = np.argsort(-self._lengths, kind="stable")
        return [self._group(order[start:stop]) for start, stop in pairwise(_cut(self._lengths[order]))]

    @cached_property
    def back(self) -> Tensor:
        """Index that puts the real tokens of all groups, one group after the other, back in the batch's order."""
        return torch.argsort(torch.cat([group.places for group in self.groups]))

    def pad(self, states: Tensor) -> Tensor:
        """Return (texts, longest, ...) from (tokens, ...), zeros at padding."""
        padded = states[self.padded.index]
        mask = self.padded.mask.view(*self.padded.mask.shape, *[1] * (states.dim() - 1))
        return padded if self.padded.is_full else padded * mask

    def unpad(self, states: Tensor) -> Tensor:
        """Return (tokens, width) from (texts, longest, width)."""
        return states.flatten(0, 1)[self.padded.real]

    def read(self, states: Tensor, reads: Reads) -> Tensor:
        """Return all of (tokens, ...), or one token of each text, (texts, ...).

        States that already have one token per text are returned unchanged.
        """
        if reads is Reads.ALL or len(states) == len(self):
            return states
        return states[self.starts if reads is Reads.FIRST else self.starts + self.lengths - 1]

    def mean(self, states: Tensor, *, skip_first: bool) -> Tensor:
        """Return each text's mean token: (texts, width) from (tokens, width).

        The mean of a text with a single token is that token, whether or not the first token is skipped.
        """
        sums = states.new_zeros(len(self), states.shape[1]).index_add_(0, self._text, states)
        if not skip_first:
            return sums / self.lengths[:, None]
        firsts = self.read(states, Reads.FIRST)
        rest = (sums - firsts) / (self.lengths[:, None] - 1).clamp(min=1)
        return torch.where(self.lengths[:, None] > 1, rest, firsts)

    def mean_of(self, states: Tensor, kept: Tensor) -> Tensor:
        """Return each text's mean over the kept tokens, or over all if none is kept: (texts, width).

        Args:
            states: (tokens, width).
            kept: (tokens,), true at the tokens to average.
        """
        counts = states.new_zeros(len(self)).index_add_(0, self._text, kept.to(states.dtype))[self._text]
        weights = torch.where(counts > 0, kept.to(states.dtype) / counts.clamp(min=1), 1 / self.lengths[self._text])
        return states.new_zeros(len(self), states.shape[1]).index_add_(0, self._text, weights[:, None] * states)

    @property
    def _text(self) -> Tensor:
        """(tokens,): the number of each token's text."""
        return torch.arange(len(self), device=self.device).repeat_interleave(self.lengths)

    def _group(self, texts: Ints) -> Group:
        lengths = self._lengths[texts]
        column = np.arange(int(lengths.max()))[None, :]
        mask = column < lengths[:, None]
        starts = np.concatenate([[0], np.cumsum(self._lengths)[:-1]])[texts]
        index = np.where(mask, starts[:, None] + column, starts[:, None])
        return Group(
            index=torch.as_tensor(index, device=self.device),
            mask=torch.as_tensor(mask, device=self.device),
            is_full=bool(mask.all()),
            texts=torch.as_tensor(texts, device=self.device),
            places=torch.as_tensor(index[mask], device=self.device),
            real=torch.as_tensor(np.flatnonzero(mask), device=self.device),
        )


def group_sizes(lengths: Ints) -> list[tuple[int, int]]:
    """Return the number of texts and the longest length of each group that attention runs in."""
    longest_first = -np.sort(-lengths)
    return [(stop - start, int(longest_first[start])) for start, stop in pairwise(_cut(longest_first))]


def _cut(lengths: Ints) -> list[int]:
    """Return where to cut texts, longest first, into groups; each cut saves the most padding, until little is left."""
    cuts = [0, len(lengths)]
    while len(cuts) <= _MOST_GROUPS:
        padding = [lengths[start] * (stop - start) - lengths[start:stop].sum() for start, stop in pairwise(cuts)]
        if sum(padding) <= _ACCEPTED_PADDING * lengths.sum():
            break
        worst = int(np.argmax(padding))
        cuts.insert(worst + 1, cuts[worst] + _best_cut(lengths[cuts[worst] : cuts[worst + 1]]))
    return cuts


def _best_cut(lengths: Ints) -> int:
    """Return the cut in two of texts, longest first, that leaves the least padding."""
    cut = np.arange(1, len(lengths))
    return int(np.argmin(lengths[0] * cut + lengths[1:] * (len(lengths) - cut))) + 1
