"""Sums over texts, per layer and class, from which closed-form scores follow for data of any size.

They are added up batch by batch and can be merged: counts, sums and second moments of each class, and two sums of
higher order for the small-sample corrections. All are relative to a reference point near the mean: far from the origin,
differences of large sums would be lost in rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from frostline.states.cka import rounding


@dataclass(frozen=True, kw_only=True)
class ClassMoments:
    """Sums over texts x of each class, relative to the references, float64."""

    counts: Tensor  # (classes,)
    references: Tensor  # (layers, width)
    sums: Tensor  # (layers, classes, width), of x
    seconds: Tensor  # (layers, classes, width, width), of x x'
    thirds: Tensor  # (layers, width), of |x|^2 x, over all classes
    fourths: Tensor  # (layers,), of |x|^4, over all classes

    @classmethod
    def of(cls, states: Tensor, labels: Tensor, *, classes: int, references: Tensor | None = None) -> ClassMoments:
        """Return the sums of one batch; references default to its means.

        Args:
            states: (layers, texts, width).
            labels: (texts,), from 0 to classes - 1.
            classes: number of classes in all batches together.
            references: (layers, width).
        """
        points = states.double().mean(1) if references is None else references
        relative = states.double() - points[:, None]
        lengths = relative.square().sum(-1)
        by_class = [relative[:, labels == label] for label in range(classes)]
        return cls(
            counts=torch.bincount(labels, minlength=classes),
            references=points,
            sums=torch.stack([part.sum(1) for part in by_class], dim=1),
            seconds=torch.stack([part.transpose(1, 2) @ part for part in by_class], dim=1),
            thirds=(lengths[:, None] @ relative)[:, 0],
            fourths=lengths.square().sum(-1),
        )

    @property
    def count(self) -> int:
        """The number of texts."""
        return int(self.counts.sum())

    def undefined_where_constant(self, values: Tensor) -> Tensor:
        """Return the values with NaN at layers where all texts have the same state up to rounding."""
        centred = self.centred()
        spread = torch.einsum("lcdd->ld", centred.seconds) / self.count
        size = centred.references.square() + spread
        return values.masked_fill((spread <= rounding(torch.float32) ** 2 * size).all(1), float("nan"))

    def merge(self, other: ClassMoments) -> ClassMoments:
        """Return the sums over the texts of both."""
        moved = other.moved(self.references - other.references)
        return ClassMoments(
            counts=self.counts + other.counts,
            references=self.references,
            sums=self.sums + moved.sums,
            seconds=self.seconds + moved.seconds,
            thirds=self.thirds + moved.thirds,
            fourths=self.fourths + moved.fourths,
        )

    def centred(self) -> ClassMoments:
        """Return the same sums relative to the mean of all texts."""
        return self.moved(self.sums.sum(1) / self.count)

    def moved(self, steps: Tensor) -> ClassMoments:
        """Return the same sums relative to references moved by `steps`, (layers, width)."""
        n = self.counts.double()[:, None, None]
        step = steps[:, None, :]
        outer = self.sums[..., :, None] * step[..., None, :]
        seconds = self.seconds - outer - outer.transpose(2, 3) + n * (step[..., :, None] * step[..., None, :])
        total, second, size = self.sums.sum(1), self.seconds.sum(1), steps.square().sum(-1)
        along = (total * steps).sum(-1)
        lengths = torch.einsum("lcdd->l", self.seconds)
        bent = (second @ steps[..., None])[..., 0]
        thirds = (
            self.thirds - 2 * bent + size[:, None] * total - (lengths - 2 * along + self.count * size)[:, None] * steps
        )
        fourths = (
            self.fourths
            - 4 * (self.thirds * steps).sum(-1)
            + 4 * (bent * steps).sum(-1)
            + 2 * size * lengths
            - 4 * size * along
            + self.count * size.square()
        )
        return ClassMoments(
            counts=self.counts,
            references=self.references + steps,
            sums=self.sums - n[..., 0] * step,
            seconds=seconds,
            thirds=thirds,
            fourths=fourths,
        )
