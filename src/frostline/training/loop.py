"""The only training loop.

accelerate chooses the device, casts, and runs backward. The order of rows and the random numbers of dropout depend on
the seed and the step alone, so that a run that continues from a checkpoint computes what it would have computed.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from frostline.encoders.head_stack import HeadStack
from frostline.errors import TuneError
from frostline.kernels.batch_layout import Ints
from frostline.kernels.dropout import Noise
from frostline.plans.lengths import LEAST_STEPS, is_mark
from frostline.progress import Progress, Step, silent
from frostline.records import Recipe
from frostline.records.recipe import rate_at
from frostline.tasks.metrics import METRICS
from frostline.training.averaging import Average
from frostline.training.checkpoints import Checkpoints, Progressed
from frostline.training.dataset import Examples
from frostline.training.freeze_audit import Audit, AuditReport
from frostline.training.half_products import precision_of
from frostline.training.members import SoupMember, make_members, rates_of
from frostline.training.model import Tunable
from frostline.training.word_gradients import lasting_word_gradients

Weights = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The record of a training run, besides the weights.

    Args:
        history: one record per evaluation: step, epoch, loss, rate, seconds, and the metrics on validation.
        best: the record of the evaluation whose weights were kept.
        audit: report on frozen and changed parameters.
        seconds: duration of training, evaluations included.
        outputs: outputs of the kept weights on the validation rows; None where the run was resumed since.
    """

    history: tuple[Mapping[str, Any], ...]
    best: Mapping[str, Any]
    audit: AuditReport
    seconds: float
    outputs: Tensor | None = None


def train(
    tunable: Tunable,
    rows: Examples,
    validation: Examples | None,
    recipe: Recipe,
    *,
    metrics: tuple[str, ...],
    learning_rate: float,
    new_layers: frozenset[int] = frozenset(),
    checkpoints: Checkpoints | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train the layers of the plan in place; the model ends with the weights of the best evaluation.

    Args:
        tunable: the model; changed in place.
        rows: the training rows.
        validation: the rows on which the best epoch is chosen; None keeps the last epoch.
        recipe: batch, epochs, schedule and the like.
        metrics: names of task metrics; the first one decides.
        learning_rate: the highest rate of the schedule.
        new_layers: re-initialised layers, which may have a higher rate.
        checkpoints: store of the state, so that an interrupted run can continue.
        progress: progress callback.
    """
    run = TrainingRun(tunable, rows, validation, recipe, metrics, learning_rate, new_layers, checkpoints, progress)
    audit = run.all_epochs()
    return run.trained(run.so_far, audit, run.best_outputs)


class TrainingRun:
    """One run of the loop and its state; methods without an underscore differ when several heads train at once."""

    def __init__(
        self,
        tunable: Tunable,
        rows: Examples,
        validation: Examples | None,
        recipe: Recipe,
        metrics: tuple[str, ...],
        learning_rate: float,
        new_layers: frozenset[int] = frozenset(),
        checkpoints: Checkpoints | None = None,
        progress: Progress = silent,
    ) -> None:
        self.tunable, self.rows, self.validation, self.recipe = tunable, rows, validation, recipe
        self.metrics, self.checkpoints = metrics, checkpoints
        self.progress = progress
        self.accelerator = _accelerator(tunable, recipe)
        self.steps_per_epoch = math.ceil(len(rows) / (recipe.batch * recipe.accumulate))
        self.steps = recipe.steps or self.steps_per_epoch * recipe.epochs
        self.passes = math.ceil(recipe.passes(self.steps_per_epoch))
        self.heads = tunable.head.count if isinstance(tunable.head, HeadStack) else 1  # the loss is their sum
        self.members = make_members(tunable, recipe, learning_rate, new_layers)
        # Looked up once: walking through the whole model takes longer than a step of a head alone.
        self.parameters = list(tunable.trainable().values())
        self.order_of = lru_cache(len(self.members))(partial(order_of_rows, len(rows)))
        self.average = Average(tunable.trainable()) if recipe.schedule == "averaged" else None
        self.audit = Audit(tunable)
        self.so_far = Progressed()
        self.best: Weights = {}
        self.best_outputs: Tensor | None = None
        self.first = 0  # the first step of this process, after which the audit checks gradients

    def all_epochs(self) -> AuditReport:
        """Train, and leave the best weights in the model."""
        checkpoint = None if self.checkpoints is None else self.checkpoints.newest()[0]
        if checkpoint is not None and checkpoint.so_far.step <= self.steps:  # not of a longer run
            self.so_far, self.best, average = checkpoint.restore(self.tunable, self.members)
            self.first = self.so_far.step
            if self.average is not None:
                self.average.restore(average)
        with lasting_word_gradients(self.tunable.model), precision_of(self.tunable.model, self.recipe):
            self._all_steps()
        # Audit the last weights: the best may be those before the first step that changed any.
        report = self.audit.at_end(self.so_far.depth, updates=self.so_far.updates)
        if self.best:
            load_weights(self.tunable, self.best)
        elif self.average is not None:
            load_weights(self.tunable, self.average.weights)
        return report

    def _all_steps(self) -> None:
        began, before = time.perf_counter(), self.so_far.seconds
        while self.so_far.step < self.steps and not self.so_far.is_over:
            self._step(self.so_far.step)
            self.so_far.step += 1
            self.so_far.seconds = before + time.perf_counter() - began
            evaluated = self._is_time_to_evaluate()
            if evaluated:
                self.evaluate()
                self.so_far.seconds = before + time.perf_counter() - began
            is_last = self.so_far.is_over or self.so_far.step == self.steps
            if self.checkpoints is not None and self.checkpoints.is_due(
                self.so_far.step, evaluated=evaluated, is_last=is_last
            ):
                average = {} if self.average is None else self.average.weights
                self.checkpoints.write(self.so_far, self.tunable, self.members, best=self.best, average=average)

    def trained(self, so_far: Progressed, audit: AuditReport, outputs: Tensor | None) -> Trained:
        """Return the record of the run, or of one of its heads."""
        return Trained(
            history=tuple(so_far.history),
            best=so_far.best or so_far.history[-1],
            audit=audit,
            seconds=self.so_far.seconds,
            outputs=outputs,
        )

    def _step(self, step: int) -> None:
        """Update the weights of every member once."""
        total = sum(self._update(member, step) for member in self.members) / len(self.members)
        if self.average is not None:
            self.average.add(step, [member.weights for member in self.members])
        self.so_far.updates += any(rate > 0 for rate in rates_of(self.members))
        self.so_far.loss_sum += total
        self.so_far.loss_steps += 1
        mean = self.so_far.loss_sum / self.so_far.loss_steps / self.heads
        epoch = step // self.steps_per_epoch + 1
        detail = f"epoch {epoch}/{self.passes}, loss {mean:.3f}{self.so_far.shown()}"
        self.progress(Step(stage="training", detail=detail, done=step + 1, total=self.steps))

    def _update(self, member: SoupMember, step: int) -> float:
        """Update the weights of a member once, from `accumulate` batches; return its loss."""
        recipe, (epoch, in_epoch) = self.recipe, divmod(step, self.steps_per_epoch)
        member.enter(self.tunable)
        for group in member.optimizer.param_groups:
            group["lr"] = group["highest"] * rate_at(step, self.steps, recipe)
        size = recipe.batch * recipe.accumulate
        chosen = self.order_of(seed=member.seed, epoch=epoch)[in_epoch * size : (in_epoch + 1) * size]
        _seed(member.seed, step, self.tunable.encoder.device)
        noise = Noise(member.seed, step)
        if not self.tunable.training:
            self.tunable.train()
        total = 0.0
        for start in range(0, len(chosen), recipe.batch):
            batch = chosen[start : start + recipe.batch]
            with self.accelerator.autocast():
                logits = self.rows.logits(self.tunable, batch, noise=noise)
                labels = self.rows.labels[torch.as_tensor(batch)].to(logits.device)
                loss = self.loss(logits, labels, share=len(batch) / len(chosen))
            self.accelerator.backward(loss)
            total += float(loss.detach())
        norm = self.clip(recipe.clip or math.inf)
        for name, value in (("the loss", total), ("a gradient", norm)):
            if not math.isfinite(value):
                raise TuneError(f"training diverged at step {step + 1}: {name} is {value}; try a lower learning rate")
        is_audited = step == self.first and member is self.members[0]
        if is_audited:
            self.audit.after_backward(self.tunable.depth_of_backward)
            self.so_far.depth = self.tunable.depth_of_backward
        member.optimizer.step()
        member.optimizer.zero_grad(set_to_none=True)
        if is_audited:
            self.audit.after_step()
        return total

    def loss(self, logits: Tensor, labels: Tensor, *, share: float) -> Tensor:
        """Return the loss of a batch, weighted by its share of the step's rows."""
        return loss_of(logits, labels, self.tunable.head.kind) * share

    def clip(self, most: float) -> float:
        """Clip the gradient to this norm; return its norm before."""
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, most))

    def _is_time_to_evaluate(self) -> bool:
        step, every = self.so_far.step, self.recipe.evaluate_every
        if step == self.steps or (every is not None and step % every == 0):
            return True
        return step % self.steps_per_epoch == 0 if self.average is None else every is None and is_mark(step)

    def judged_weights(self) -> contextlib.AbstractContextManager[None]:
        """Have the weights in the model that are judged and kept: the average, where the schedule has one."""
        return contextlib.nullcontext() if self.average is None else self.average.in_model()

    def evaluate(self) -> None:
        """Judge the weights on validation, and keep them if they are the best so far."""
        with self.judged_weights():
            outputs = None if self.validation is None else self.validation.outputs(self.tunable)
            if self.is_best(self.so_far, outputs):
                self.best_outputs = outputs
                if self.chooses:
                    self.best = weights_of(self.tunable)

    @property
    def chooses(self) -> bool:
        """Whether the weights of the best evaluation are kept instead of the last."""
        return self.validation is not None and self.recipe.select == "best"

    def is_best(self, so_far: Progressed, outputs: Tensor | None) -> bool:
        """Record an evaluation; return whether it is the best so far.

        Args:
            so_far: the progress that the evaluation is added to.
            outputs: outputs on the validation rows.
        """
        record = self._record(so_far, outputs)
        so_far.history.append(record)
        so_far.loss_sum, so_far.loss_steps = 0.0, 0
        decides, signed = f"validation_{self.metrics[0]}", METRICS[self.metrics[0]].signed
        if so_far.best is None or not self.chooses or signed(record[decides]) > signed(so_far.best[decides]):
            so_far.best, so_far.since = record, 0
            return True
        # An averaged model is judged often and early, when the loss falls long before the metric moves.
        losses = [each["validation_loss"] for each in so_far.history[:-1]] if self.average is not None else []
        so_far.since = 0 if losses and record["validation_loss"] < min(losses) else so_far.since + 1
        is_early = self.average is not None and so_far.step < LEAST_STEPS
        patience = self.recipe.patience
        so_far.is_over = patience is not None and so_far.since >= patience and not is_early
        return False

    def _record(self, so_far: Progressed, outputs: Tensor | None) -> dict[str, Any]:
        values: dict[str, float] = {}
        if self.validation is not None and outputs is not None:
            kind, labels = self.tunable.head.kind, self.validation.labels
            values = {**judge(outputs, labels, self.metrics, kind), "loss": loss_of(outputs, labels, kind).item()}
        return {
            "step": so_far.step,
            "epoch": round(so_far.step / self.steps_per_epoch, 4),
            "loss": so_far.loss_sum / so_far.loss_steps,
            "learning_rate": max(rates_of(self.members)),
            **{f"validation_{name}": value for name, value in values.items()},
            "seconds": round(so_far.seconds, 3),
        }


def loss_of(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Return the loss of the stock classes: mean squared error for values, cross-entropy for classes and choices."""
    if kind == "regression":
        return F.mse_loss(logits.float().squeeze(-1), labels.float())
    return F.cross_entropy(logits.float(), labels)


def judge(outputs: Tensor, labels: Tensor, metrics: tuple[str, ...], kind: str) -> dict[str, float]:
    """Return the task metrics of outputs (rows, outputs)."""
    if not bool(outputs.isfinite().all()):
        raise TuneError("the model's outputs are not finite; try a lower learning rate")
    guesses = outputs.squeeze(-1) if kind == "regression" else outputs.argmax(-1)
    return {name: METRICS[name](labels.numpy(), guesses.numpy()) for name in metrics}


def _seed(seed: int, step: int, device: torch.device) -> None:
    """Seed torch's random numbers for a step; on the CPU without the time that torch needs to seed GPUs."""
    mixed = int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)
    (torch.default_generator if device.type == "cpu" else torch).manual_seed(mixed)


def order_of_rows(count: int, *, seed: int, epoch: int) -> Ints:
    """Return the order of rows in an epoch, which depends on seed and epoch alone."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(count)


def weights_of(tunable: Tunable) -> Weights:
    """Return a copy of all trainable parameters."""
    return {name: value.detach().clone() for name, value in tunable.trainable().items()}


def load_weights(tunable: Tunable, weights: Mapping[str, Tensor]) -> None:
    """Load weights that `weights_of` returned."""
    own = tunable.trainable()
    if own.keys() != weights.keys():
        raise ValueError("the weights belong to another plan")
    with torch.no_grad():
        for name, value in weights.items():
            own[name].copy_(value)


def _accelerator(tunable: Tunable, recipe: Recipe) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)  # a second run in one process may ask for another precision
    is_cpu = tunable.encoder.device.type == "cpu"
    mixed = "bf16" if recipe.precision == "bfloat16" and not is_cpu else "no"  # on the CPU see half_products.py
    return Accelerator(cpu=is_cpu, mixed_precision=mixed, log_with=None)
