"""Heads at several layers of one frozen encoder, trained in one pass over the rows.

The loop is the only one there is. Every head has the gradient, the clipping, the history and the best epoch that it
would have alone: the optimizer treats every weight by itself, and rows and coins are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.head_stack import HeadStack
from frostline.errors import AuditError
from frostline.progress import Progress, silent
from frostline.records import Plan, Recipe
from frostline.training.checkpoints import Progressed
from frostline.training.dataset import Examples
from frostline.training.loop import Run, Trained, Weights, weights_of
from frostline.training.model import Tunable


def stacked(encoder: Encoder, heads: HeadStack) -> Tunable:
    """The encoder, copied and frozen, under heads that read its layers."""
    tunable = Tunable(encoder.copy(), heads, Plan(layers=(), head=encoder.depth))
    return tunable.to(encoder.device).eval()


def train_heads(
    tunable: Tunable,
    rows: Examples,
    validation: Examples | None,
    recipe: Recipe,
    *,
    metrics: tuple[str, ...],
    learning_rate: float,
    progress: Progress = silent,
) -> list[Trained]:
    """Train every head as `train` would train it alone, in place; what came out of each.

    Args:
        tunable: what `stacked` gives.
        rows: to learn from, with states (tokens, heads, width).
        validation: to choose each head's epoch on; None keeps the last one.
        recipe: how.
        metrics: names of task metrics; the first one decides.
        learning_rate: the highest one.
        progress: progress callback.
    """
    run = _Together(tunable, rows, validation, recipe, metrics, learning_rate, progress=progress)
    before = weights_of(tunable)
    audit = run.all_epochs()
    _check_all_moved(before, run.last, updates=run.so_far.updates)
    outputs: Sequence[Tensor | None] = [None] * len(run.each)
    if run.best_outputs is not None:
        outputs = run.best_outputs.unbind(-1)
    return [run.trained(so_far, audit, one) for so_far, one in zip(run.each, outputs, strict=True)]


class _Together(Run):
    """The loop for several heads: each is clipped, judged and kept by itself."""

    last: Weights  # those of the last evaluation

    @cached_property
    def each(self) -> list[Progressed]:
        """How far every head is."""
        return [Progressed() for _ in range(self.heads)]

    @cached_property
    def _sums(self) -> Tensor:
        """(heads,): their losses since the last evaluation."""
        return torch.zeros(self.heads, device=self.tunable.encoder.device)

    def loss(self, logits: Tensor, labels: Tensor, *, share: float) -> Tensor:
        """The sum of the heads' losses: none has a part in the gradient of another."""
        each = losses_of(logits, labels, self.tunable.head.kind) * share
        self._sums.add_(each.detach())
        return each.sum()

    def clip(self, longest: float) -> float:
        """The length of the longest gradient of a head; each is shortened by itself."""
        gradients = [value.grad for value in self.parameters if value.grad is not None]
        parts = torch.stack([torch.linalg.vector_norm(value.flatten(1), dim=1) for value in gradients])
        lengths = torch.linalg.vector_norm(parts, dim=0)
        if not math.isinf(longest):
            factors = (longest / (lengths + 1e-6)).clamp(max=1)  # as torch does it for one model
            for value in gradients:
                value.mul_(factors.view(-1, *[1] * (value.dim() - 1)))
        return float(lengths.max())

    def evaluate(self) -> None:
        """Judge every head that has not stopped, and keep those that are the best so far."""
        outputs = None if self.validation is None else self.validation.outputs(self.tunable)
        now, sums = weights_of(self.tunable), self._sums.tolist()
        self._sums.zero_()
        for place, so_far in enumerate(self.each):
            if so_far.is_over:
                continue
            self.each[place] = so_far = replace(
                so_far,
                step=self.so_far.step,
                seconds=self.so_far.seconds,
                loss_sum=sums[place],
                loss_steps=self.so_far.loss_steps,
            )
            if self.is_best(so_far, None if outputs is None else outputs[..., place]):
                self._keep(place, now, outputs)
        self.so_far.loss_sum, self.so_far.loss_steps = 0.0, 0
        self.so_far.is_over = all(so_far.is_over for so_far in self.each)
        self.last = now

    def _keep(self, place: int, now: dict[str, Tensor], outputs: Tensor | None) -> None:
        if outputs is not None:
            self.best_outputs = outputs.clone() if self.best_outputs is None else self.best_outputs
            self.best_outputs[..., place] = outputs[..., place]
        if self.chooses:
            self.best = self.best or {name: value.clone() for name, value in now.items()}
            for name, value in now.items():
                self.best[name][place] = value[place]


def losses_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """(heads,): the loss of every head, from logits (rows, outputs, heads)."""
    if kind == "regression":
        return (logits.float().squeeze(1) - labels.float()[:, None]).square().mean(0)
    wanted = labels[:, None].expand(-1, logits.shape[-1])
    return F.cross_entropy(logits.float(), wanted, reduction="none").mean(0)


def _check_all_moved(before: dict[str, Tensor], after: dict[str, Tensor], *, updates: int) -> None:
    """The audit sees stacked tensors, which have moved when one head has."""
    for name, value in after.items():
        still = (value == before[name]).flatten(1).all(1).nonzero().flatten().tolist()
        if still and updates > 1:
            raise AuditError(f"{name} of head {still[0] + 1} should have been trained, but has not moved")
