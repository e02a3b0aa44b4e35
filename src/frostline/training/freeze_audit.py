"""The freeze audit: what a plan freezes does not change by a bit, and what it tunes does.

A mismatch is an error, never a silent success: a layer that was meant to train and did not looks like any other result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from frostline.errors import AuditError
from frostline.files.checksums import bits_of
from frostline.training.model import Tunable


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What was found.

    Args:
        trainable: numbers that train.
        total: numbers in the model, without what lies above the head.
        depth: the lowest layer that backward ran through; 0 for the embeddings, None where it only reached the head.
        tensors: how many tensors train.
        moved: how many of them are not what they were.
        frozen: how many tensors are frozen.
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
    """Watches one training run: made before it, asked after the first backward pass, the first step and the end."""

    def __init__(self, tunable: Tunable) -> None:
        """Take down the state of everything before training."""
        self._tunable = tunable
        self._before = digests(_all(tunable))
        _check_names(tunable)

    def after_backward(self, depth: int | None) -> None:
        """Exactly what trains has a finite gradient, and backward went no deeper than the lowest of it."""
        for name, parameter in _all(self._tunable):
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

    def after_step(self) -> None:
        """What is frozen has not changed by a bit."""
        frozen = [(name, value) for name, value in _all(self._tunable) if not value.requires_grad]
        for name, digest in digests(frozen).items():
            if digest != self._before[name]:
                raise AuditError(f"{name} should be frozen, but has changed")

    def at_end(self, depth: int | None, *, updates: int) -> AuditReport:
        """The same, and every tensor that trains is not what it was.

        Args:
            depth: the lowest layer that backward ran through.
            updates: steps with a rate above 0; after a single one, what starts next to zeros (LoRA's A, an adapter's
                way down) has had no gradient yet.
        """
        self.after_step()
        trained = [(name, value) for name, value in _all(self._tunable) if value.requires_grad]
        moved = [name for name, digest in digests(trained).items() if digest != self._before[name]]
        for name, _ in trained:
            if name not in moved and updates > 1:
                raise AuditError(f"{name} should have been trained, but has not moved")
        everything = _all(self._tunable)
        return AuditReport(
            trainable=sum(value.numel() for _, value in trained),
            total=count_kept(self._tunable),
            depth=depth,
            tensors=len(trained),
            moved=len(moved),
            frozen=len(everything) - len(trained),
        )


def count_kept(tunable: Tunable) -> int:
    """Numbers in the model that is kept: the encoder up to the head, what a method adds, and the head.

    The base model's own pooler and final norm are not counted: the head has them.
    """
    parts = tunable.encoder.parts()
    replaced = {id(value) for named in (parts.pooler, parts.final_norm) for value in named.values()}
    return sum(value.numel() for value in tunable.parameters() if id(value) not in replaced)


def digests(named: Iterable[tuple[str, nn.Parameter]]) -> dict[str, bytes]:
    """A hash of every tensor's bits."""
    return {name: hashlib.sha256(bits_of(value)).digest() for name, value in named}


def _all(tunable: Tunable) -> list[tuple[str, nn.Parameter]]:
    return list(tunable.named_parameters())


def _check_names(tunable: Tunable) -> None:
    """What trains belongs to the head, to a layer of the plan, or to the embeddings where the plan says so."""
    plan, parts = tunable.plan, tunable.encoder.parts()
    allowed = {id(value) for value in tunable.head.parameters()}
    for number in plan.layers:
        allowed |= {id(value) for value in parts.layers[number - 1].values()}
    if plan.embeddings:
        allowed |= {id(value) for value in parts.embeddings.values()}
    for name, value in tunable.trainable().items():
        if id(value) not in allowed:
            raise AuditError(f"{name} would train, but the plan {plan} does not name it")
