"""Heads at several layers of one frozen encoder, trained in one pass over the rows.

The loop is that of `loop.py`. Every head has the gradient, the clipping, the history and the best epoch that it would
have alone: the optimizer treats every weight by itself, and all heads share the order of rows and the dropout masks.
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
from frostline.training.loop import Trained, TrainingRun, Weights, weights_of
from frostline.training.model import Tunable


def stacked(encoder: Encoder, heads: HeadStack) -> Tunable:
    """Return a frozen copy of the encoder with heads that read its layers."""
    return Tunable(encoder.copy(), heads, Plan(layers=(), head=encoder.depth)).to(encoder.device).eval()


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
    """Train every head in place as `train` would train it alone; return the record of each.

    Args:
        tunable: the result of `stacked`.
        rows: the training rows, with states (tokens, heads, width).
        validation: the rows on which each head's epoch is chosen; None keeps the last one.
        recipe: batch, epochs, schedule and the like.
        metrics: names of task metrics; the first one decides.
        learning_rate: the highest rate of the schedule.
        progress: progress callback.
    """
    run = _Together(tunable, rows, validation, recipe, metrics, learning_rate, progress=progress)
    before = weights_of(tunable)
    audit = run.all_epochs()
    _check_all_moved(before, run.last, updates=run.so_far.updates)
    best = run.best_outputs
    outputs: Sequence[Tensor | None] = [None] * len(run.each) if best is None else best.unbind(-1)
    return [run.trained(so_far, audit, own) for so_far, own in zip(run.each, outputs, strict=True)]


class _Together(TrainingRun):
    """The loop for several heads: each is clipped, evaluated and kept by itself."""

    last: Weights  # of the last evaluation

    @cached_property
    def each(self) -> list[Progressed]:
        """The progress of every head."""
        return [Progressed() for _ in range(self.heads)]

    @cached_property
    def _sums(self) -> Tensor:
        """(heads,): the sums of losses since the last evaluation."""
        return torch.zeros(self.heads, device=self.tunable.encoder.device)

    def loss(self, logits: Tensor, labels: Tensor, *, share: float) -> Tensor:
        """Return the sum of the heads' losses: no head contributes to the gradient of another."""
        losses = losses_of(logits, labels, self.tunable.head.kind) * share
        self._sums.add_(losses.detach())
        return losses.sum()

    def clip(self, most: float) -> float:
        """Clip the gradient of each head to this norm; return the largest norm before."""
        gradients = [value.grad for value in self.parameters if value.grad is not None]
        parts = torch.stack([torch.linalg.vector_norm(value.flatten(1), dim=1) for value in gradients])
        norms = torch.linalg.vector_norm(parts, dim=0)
        if not math.isinf(most):
            factors = (most / (norms + 1e-6)).clamp(max=1)  # as torch does it for one model
            for value in gradients:
                value.mul_(factors.view(-1, *[1] * (value.dim() - 1)))
        return float(norms.max())

    def evaluate(self) -> None:
        """Evaluate every head that has not stopped, and keep those that are the best so far."""
        with self.judged_weights():
            outputs = None if self.validation is None else self.validation.outputs(self.tunable)
            now = weights_of(self.tunable)
        sums = self._sums.tolist()
        self._sums.zero_()
        for head, so_far in enumerate(self.each):
            if so_far.is_over:
                continue
            self.each[head] = so_far = replace(
                so_far,
                step=self.so_far.step,
                seconds=self.so_far.seconds,
                loss_sum=sums[head],
                loss_steps=self.so_far.loss_steps,
            )
            if self.is_best(so_far, None if outputs is None else outputs[..., head]):
                self._keep(head, now, outputs)
        self.so_far.loss_sum, self.so_far.loss_steps = 0.0, 0
        self.so_far.is_over = all(so_far.is_over for so_far in self.each)
        self.last = now

    def _keep(self, head: int, now: dict[str, Tensor], outputs: Tensor | None) -> None:
        if outputs is not None:
            self.best_outputs = outputs.clone() if self.best_outputs is None else self.best_outputs
            self.best_outputs[..., head] = outputs[..., head]
        if self.chooses:
            self.best = self.best or {name: value.clone() for name, value in now.items()}
            for name, value in now.items():
                self.best[name][head] = value[head]


def losses_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Return (heads,): the loss of every head, from logits (rows, outputs, heads)."""
    if kind == "regression":
        return (logits.float().squeeze(1) - labels.float()[:, None]).square().mean(0)
    return F.cross_entropy(logits.float(), labels[:, None].expand(-1, logits.shape[-1]), reduction="none").mean(0)


def _check_all_moved(before: dict[str, Tensor], after: dict[str, Tensor], *, updates: int) -> None:
    """Raise if a head has not moved: to the audit, stacked tensors have moved when one head has."""
    for name, value in after.items():
        still = (value == before[name]).flatten(1).all(1).nonzero().flatten().tolist()
        if still and updates > 1:
            raise AuditError(f"{name} of head {still[0] + 1} should have been trained, but has not moved")
