"""The freeze audit: frozen parameters stay identical to the bit, and tuned ones change.

A mismatch is an error: a layer that should have trained and did not would otherwise look like any other result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from frostline.errors import AuditError
from frostline.files.checksums import bits_of
from frostline.records._json import Record
from frostline.training.model import Tunable


@dataclass(frozen=True, kw_only=True)
class AuditReport(Record):
    """The parameters that trained and those that stayed frozen.

    Args:
        trainable: number of trainable parameters.
        total: number of parameters of the model, without the layers above the head.
        depth: the lowest layer that backward ran through; 0 for the embeddings, None where it only reached the head.
        tensors: number of trainable tensors.
        moved: number of those that have changed.
        frozen: number of frozen tensors.
    """

    trainable: int
    total: int
    depth: int | None
    tensors: int
    moved: int
    frozen: int

    def __str__(self) -> str:
        share = 100 * self.trainable / max(1, self.total)
        where = {None: "the head only", 0: "the embeddings"}.get(self.depth, f"layer {self.depth}")
        return (
            f"{self.trainable:,} of {self.total:,} parameters train ({share:.1f}%); backward ran down to {where}; "
            f"{self.frozen} frozen tensors unchanged to the bit, {self.moved} of {self.tensors} tuned ones have moved"
        )


class Audit:
    """Checks one training run: made before it, asked after the first backward pass, the first step and the end."""

    def __init__(self, tunable: Tunable) -> None:
        """Hash all parameters before training; raise if anything outside the head and the plan would train."""
        self._tunable = tunable
        self._before = digests(tunable.named_parameters())
        allowed = {id(value) for value in (*tunable.head.parameters(), *tunable.planned())}
        for name, value in tunable.trainable().items():
            if id(value) not in allowed:
                raise AuditError(f"{name} would train, but is not part of the plan {tunable.plan}")

    def after_backward(self, depth: int | None) -> None:
        """Raise unless exactly what trains has a finite gradient, and backward ran down to the lowest of it."""
        for name, parameter in self._tunable.named_parameters():
            if parameter.requires_grad and parameter.grad is None:
                raise AuditError(f"{name} should train, but no gradient reaches it")
            if not parameter.requires_grad and parameter.grad is not None:
                raise AuditError(f"{name} should be frozen, but has a gradient")
            if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
                raise AuditError(f"{name}: its gradient is not finite")
        lowest = self._tunable.plan.lowest
        expected = None if lowest > self._tunable.plan.head else lowest
        if depth != expected:
            raise AuditError(f"backward ran down to layer {depth}, but the plan's lowest layer is {expected}")

    def after_step(self) -> int:
        """Raise if a frozen parameter has changed by a bit; return the number of frozen tensors."""
        frozen = digests((name, value) for name, value in self._tunable.named_parameters() if not value.requires_grad)
        for name, digest in frozen.items():
            if digest != self._before[name]:
                raise AuditError(f"{name} should be frozen, but has changed")
        return len(frozen)

    def at_end(self, depth: int | None, *, updates: int) -> AuditReport:
        """Check the same at the end, and that every trainable tensor has changed; return the report.

        Args:
            depth: the lowest layer that backward ran through.
            updates: steps with a rate above 0; after a single one, weights that feed zeros (LoRA's A, an adapter's
                `down`) have had no gradient yet.
        """
        frozen = self.after_step()
        trained = self._tunable.trainable()
        moved = [name for name, digest in digests(trained.items()).items() if digest != self._before[name]]
        for name in trained:
            if name not in moved and updates > 1:
                raise AuditError(f"{name} should have been trained, but has not moved")
        return AuditReport(
            trainable=sum(value.numel() for value in trained.values()),
            total=count_kept(self._tunable),
            depth=depth,
            tensors=len(trained),
            moved=len(moved),
            frozen=frozen,
        )


def count_kept(tunable: Tunable) -> int:
    """Return the number of parameters that are kept: the encoder up to the head, what a method adds, and the head.

    The base model's own pooler and final norm are not counted: they are in the head.
    """
    parts = tunable.encoder.parts()
    replaced = {id(value) for named in (parts.pooler, parts.final_norm) for value in named.values()}
    return sum(value.numel() for value in tunable.parameters() if id(value) not in replaced)


def digests(named: Iterable[tuple[str, nn.Parameter]]) -> dict[str, bytes]:
    """Return a hash of every tensor's bits."""
    return {name: hashlib.sha256(bits_of(value)).digest() for name, value in named}
