"""The speed of this machine at training, from a few steps that are run and timed.

The time of a step has four parts: a fixed time, one per layer that runs, one per FLOP and one per updated parameter.
They are fitted to steps of a few very different plans on the encoder itself; the error of the fit is the range that
estimates are given with.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from frostline.costs.cost import Costs
from frostline.costs.flops import Work, shape_of
from frostline.encoders.encoder import Encoder
from frostline.kernels.batch_layout import Ints, Layout
from frostline.kernels.dropout import Noise
from frostline.records import Cost, Plan, Recipe
from frostline.records._json import Record
from frostline.training.loop import loss_of
from frostline.training.model import Tunable, make_tunable
from frostline.training.optimizers import make_optimizer

_STEPS = 3  # timed per plan
_PARTS = 4  # of a step
_FEW_RANGE = 3.0  # factor of the range when no more plans than parts are timed: they always fit
_LEAST_RANGE = 1.5  # factor of the narrowest range: machines are noisy


@dataclass(frozen=True, kw_only=True)
class Speed(Record):
    """The seconds that one machine takes for the parts of a step.

    Args:
        step: seconds per step, whatever the plan.
        layer: seconds per layer that runs.
        flop: seconds per floating-point operation of training.
        update: seconds per trainable parameter.
        forward_flop: seconds per operation of inference.
        factor: ratio of upper bound to estimate, and of estimate to lower bound.
    """

    step: float
    layer: float
    flop: float
    update: float
    forward_flop: float
    factor: float

    def seconds(self, costs: Costs, plan: Plan, cost: Cost, work: Work) -> tuple[float, float, float]:
        """Return lower bound, estimate and upper bound in seconds of frozen states, training and evaluation."""
        layers = plan.head - (0 if costs.recipe.lower_dropout else max(1, plan.lowest) - 1)
        step = self.step + self.layer * layers + self.update * cost.trainable
        training = cost.epochs * (cost.steps * step + self.flop * cost.epoch_flops)
        evaluated = len(costs.load.others) / len(costs.load.train)
        frozen = cost.frozen_flops * (1 + evaluated)
        evaluation = cost.epochs * work.forward.of(costs.epoch) * evaluated
        expected = training + self.forward_flop * (frozen + evaluation)
        return expected / self.factor, expected, expected * self.factor


def calibrate(encoder: Encoder, costs: Costs, *, max_memory: float | None = None) -> Speed:
    """Time a few steps of a few plans on this machine.

    Args:
        encoder: the encoder with weights, on the device that will be used.
        costs: costs of its plans, for texts of the right lengths and their FLOPs.
        max_memory: gigabytes; plans that need more are not timed.
    """
    depth, load, recipe = encoder.depth, costs.load, costs.recipe
    plans = [
        Plan(layers=(), head=depth),
        Plan.span(depth, depth, depth),
        Plan.span(max(1, depth // 2), depth, depth),
        Plan.span(1, depth, depth),
        Plan.full(depth),
    ]
    if max_memory is not None:
        plans = [plan for plan in plans if not plan.layers or costs.of(plan).memory <= max_memory * 1e9]
    source = np.random.default_rng(recipe.seed)
    size = max(1, round(recipe.batch * load.texts_per_row))
    batches = [source.choice(load.train, size=size) for _ in range(_STEPS)]
    shapes = [shape_of(lengths, is_packed=encoder.family.can_pack) for lengths in batches]
    rows: list[list[float]] = []
    seconds = []
    for plan in plans:
        tunable = make_tunable(encoder, plan, outputs=load.outputs, kind=load.kind, head=recipe.head)
        if not rows:
            _time(tunable, batches[:1], recipe)  # the first step of a process is slow
        seconds.append(_time(tunable, batches, recipe))
        trainable = sum(value.numel() for value in tunable.trainable().values())
        work = costs.counter.of(plan)
        flops = [work.forward.of(shape) + work.backward.of(shape) for shape in shapes]
        rows.append([1.0, depth - max(1, plan.lowest) + 1, float(np.median(flops)), trainable])
    (step, layer, flop, update), error = _fit(np.array(rows), np.array(seconds))
    inference = costs.counter.of(plans[0]).inference
    return Speed(
        step=step,
        layer=layer,
        flop=flop,
        update=update,
        forward_flop=_forward_rate(encoder, batches, [inference.of(shape) for shape in shapes]),
        factor=max(_LEAST_RANGE if len(plans) > _PARTS else _FEW_RANGE, 1 + 2 * error),
    )


def _time(tunable: Tunable, batches: list[Ints], recipe: Recipe) -> float:
    """Return the median seconds of a training step."""
    optimizer = make_optimizer(tunable, recipe, 1e-9)
    taken = []
    for number, lengths in enumerate(batches):
        layout = Layout(-np.sort(-lengths), device=tunable.encoder.device)
        started = time.perf_counter()
        tunable.train()
        logits = tunable.logits(_start(tunable, layout), layout, noise=Noise(0, number))
        labels = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        kind = "classification" if logits.dim() > 1 and logits.shape[-1] > 1 else "regression"
        loss_of(logits, labels, kind).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(tunable.trainable().values()), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def _start(tunable: Tunable, layout: Layout) -> torch.Tensor:
    """Return random states at the plan's lowest layer; through the embeddings where they train."""
    encoder = tunable.encoder
    if not tunable.plan.embeddings:
        return torch.randn(layout.tokens, encoder.width, device=encoder.device)
    ids = torch.randint(encoder.config.vocab_size, (layout.tokens,), device=encoder.device)
    types = torch.zeros_like(ids)
    positions = encoder.family.positions(encoder.config, ids, layout.starts, layout.lengths)
    return encoder.family.embed(encoder.model, ids, types, positions)


def _forward_rate(encoder: Encoder, batches: list[Ints], flops: list[float]) -> float:
    """Return the seconds per operation of computing frozen states, through all layers."""
    rates = []
    with torch.no_grad():
        for lengths, counted in zip((batches[0], *batches), (flops[0], *flops), strict=True):
            layout = Layout(-np.sort(-lengths), device=encoder.device)
            states = torch.randn(layout.tokens, encoder.width, device=encoder.device)
            started = time.perf_counter()
            encoder.run(states, layout, 1, encoder.depth)
            rates.append((time.perf_counter() - started) / counted)
    return float(np.median(rates[1:]))


def _fit(rows: np.ndarray, seconds: np.ndarray) -> tuple[list[float], float]:
    """Return the seconds of each part, at least 0, by least squares of relative errors, and the largest error."""
    from scipy.optimize import nnls

    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    relative = rows / scale / seconds[:, None]
    parts, _ = nnls(relative, np.ones(len(seconds)))
    return list(parts / scale), float(np.abs(relative @ parts - 1).max())
