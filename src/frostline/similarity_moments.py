"""Linear CKA for any number of texts: sums that grow batch by batch, and that shards can merge.

The result is that of all texts at once, not an average over batches. For centred states the matrix needs |X_a' X_b|^2
and sums over texts of a_i b_i, where a_i = |x_i|^2. The mean is not known before the end, so the sums are kept relative
to a reference point and moved to the mean when the matrix is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import torch
from torch import Tensor

from frostline.errors import MeasureError
from frostline.similarity import hsic_from_sums, rounding

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class SimilarityMoments:
    """Sums over texts for a list of layers, of one encoder or of several, float64.

    With x, y the states of layers a, b of a text relative to the layers' references:
    """

    count: int
    references: tuple[Tensor, ...]  # (width of a,)
    sums: tuple[Tensor, ...]  # of x
    lengths: Tensor  # (layers,), of |x|^2
    joint: Tensor  # (layers, layers), of |x|^2 |y|^2
    products: dict[Pair, Tensor]  # of x y', for a <= b
    weighted: dict[Pair, Tensor]  # of |x|^2 y, for all a, b

    @classmethod
    def of(cls, layers: Sequence[Tensor], references: Sequence[Tensor] | None = None) -> SimilarityMoments:
        """The sums of one batch: for each layer (texts, width). References default to the batch's means."""
        points = tuple(layer.double().mean(0) for layer in layers) if references is None else tuple(references)
        states = [layer.double() - point for layer, point in zip(layers, points, strict=True)]
        lengths = torch.stack([state.square().sum(1) for state in states])
        every = range(len(states))
        return cls(
            count=len(states[0]),
            references=points,
            sums=tuple(state.sum(0) for state in states),
            lengths=lengths.sum(1),
            joint=lengths @ lengths.T,
            products={(a, b): states[a].T @ states[b] for a, b in combinations_with_replacement(every, 2)},
            weighted={(a, b): lengths[a] @ states[b] for a in every for b in every},
        )

    def add(self, layers: Sequence[Tensor]) -> SimilarityMoments:
        """The sums with one more batch."""
        return self.merge(SimilarityMoments.of(layers, self.references))

    def merge(self, other: SimilarityMoments) -> SimilarityMoments:
        """The sums of both."""
        if len(self.sums) != len(other.sums):
            raise ValueError(f"{len(self.sums)} layers cannot be merged with {len(other.sums)}")
        moved = other.moved([mine - its for mine, its in zip(self.references, other.references, strict=True)])
        return SimilarityMoments(
            count=self.count + other.count,
            references=self.references,
            sums=tuple(one + two for one, two in zip(self.sums, moved.sums, strict=True)),
            lengths=self.lengths + moved.lengths,
            joint=self.joint + moved.joint,
            products={pair: self.products[pair] + moved.products[pair] for pair in self.products},
            weighted={pair: self.weighted[pair] + moved.weighted[pair] for pair in self.weighted},
        )

    def moved(self, steps: Sequence[Tensor]) -> SimilarityMoments:
        """The same sums relative to references that lie a step further."""
        n, sums, every = self.count, self.sums, range(len(steps))
        step = torch.stack([by.square().sum() for by in steps])
        along = torch.stack([total @ by for total, by in zip(sums, steps, strict=True)])
        lengths = self.lengths - 2 * along + n * step
        products = {
            (a, b): product
            - torch.outer(sums[a], steps[b])
            - torch.outer(steps[a], sums[b])
            + n * torch.outer(steps[a], steps[b])
            for (a, b), product in self.products.items()
        }
        weighted = {
            (a, b): self.weighted[a, b] - 2 * steps[a] @ self._product(a, b) + step[a] * sums[b] - lengths[a] * steps[b]
            for a in every
            for b in every
        }
        cross = torch.stack([torch.stack([self.weighted[a, b] @ steps[b] for b in every]) for a in every])
        twice = torch.stack([torch.stack([steps[a] @ self._product(a, b) @ steps[b] for b in every]) for a in every])
        joint = (
            self.joint
            - 2 * (cross + cross.T)
            + 4 * twice
            + torch.outer(self.lengths, step)
            + torch.outer(step, self.lengths)
            - 2 * (torch.outer(along, step) + torch.outer(step, along))
            + n * torch.outer(step, step)
        )
        return SimilarityMoments(
            count=n,
            references=tuple(point + by for point, by in zip(self.references, steps, strict=True)),
            sums=tuple(total - n * by for total, by in zip(sums, steps, strict=True)),
            lengths=lengths,
            joint=joint,
            products=products,
            weighted=weighted,
        )

    def matrix(self, *, unbiased: bool = True) -> Tensor:
        """CKA between all layers, as `cka_matrix` gives it for all texts at once."""
        if self.count < 4:
            raise MeasureError(f"similarity needs at least 4 texts, but got {self.count}")
        centred = self.moved([total / self.count for total in self.sums])
        every = range(len(self.sums))
        cross = torch.stack([torch.stack([centred._product(a, b).square().sum() for b in every]) for a in every])
        shared = hsic_from_sums(cross, centred.joint, centred.lengths, centred.lengths, self.count, unbiased=unbiased)
        is_constant = torch.stack([centred._is_constant(layer) for layer in every])
        own = torch.where(is_constant | (shared.diag() <= 0), float("nan"), shared.diag())
        return shared / torch.outer(own, own).sqrt()

    def _is_constant(self, layer: int) -> Tensor:
        """For centred sums: whether no dimension varies by more than rounding."""
        spread = self.products[layer, layer].diag() / self.count
        size = self.references[layer].square() + spread
        return (spread <= rounding(torch.float32) ** 2 * size).all()

    def _product(self, a: int, b: int) -> Tensor:
        return self.products[a, b] if a <= b else self.products[b, a].T
