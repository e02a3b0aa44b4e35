"""Sums over the tokens of each example, squared and added up by blocks of examples."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from frostline.kernels.batch_layout import Ints


class Spans:
    """The tokens of each example in a packed batch, in which an example's texts are neighbours."""

    def __init__(self, lengths: Ints, examples: Ints, blocks: Ints, *, device: torch.device) -> None:
        firsts = np.flatnonzero(np.diff(examples, prepend=-1))
        ends = np.append(firsts[1:], len(examples))
        stops = np.cumsum(lengths)
        starts = stops - lengths
        self.blocks: list[int] = blocks[examples[firsts]].tolist()
        self._ranges = [(int(starts[first]), int(stops[end - 1])) for first, end in zip(firsts, ends, strict=True)]
        # By block, so that a block's sum stays in the processor's cache.
        self._in_order = np.argsort(self.blocks, kind="stable").tolist()
        counts = torch.tensor([stop - start for start, stop in self._ranges], device=device)
        self._example = torch.arange(len(counts), device=device).repeat_interleave(counts)
        self._block = torch.tensor(self.blocks, device=device)

    def add_squared_sums(self, into: Tensor, rows: Tensor) -> None:
        """Add to each block, (blocks, width), its examples' squared sums of rows, (tokens, width)."""
        sums = rows.new_zeros(len(self.blocks), rows.shape[1]).index_add_(0, self._example, rows)
        into.index_add_(0, self._block, sums.square_())

    def add_squared_products(self, into: Tensor, left: Tensor, right: Tensor) -> None:
        """Add to each block, (blocks, m, n), its examples' squared products of (tokens, m) and (tokens, n).

        The product of an example is the sum over its tokens of the outer products of left and right: left' right.
        """
        filled = left.any(1).nonzero()[:, 0]
        if len(filled) <= len(self.blocks) and len(torch.unique(self._example[filled])) == len(filled):
            self._add_single_rows(into, left, right, filled)
            return
        product = torch.empty_like(into[0])
        for example in self._in_order:
            rows = slice(*self._ranges[example])
            torch.mm(left[rows].T, right[rows], out=product)
            into[self.blocks[example]].addcmul_(product, product)

    def _add_single_rows(self, into: Tensor, left: Tensor, right: Tensor, filled: Tensor) -> None:
        """Do the same if no example has more than one nonzero row: a product of squares is the squared product."""
        block = self._block[self._example[filled]]
        for number, sums in enumerate(into):
            rows = filled[block == number]
            sums.addmm_(left[rows].square().T, right[rows].square())
