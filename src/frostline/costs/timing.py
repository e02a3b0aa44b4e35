"""How fast this machine is at what tuning does, from a few steps that are run and timed.

A step takes a fixed time, one for every layer that runs, one for its arithmetic and one for every number that is
updated. The four are fitted to steps of a few very different plans on the encoder itself; how far the fit is off is the
range that estimates are given with.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from frostline.costs.flops import Work, shape_of
from frostline.kernels.batch_layout import Ints, Layout
from frostline.kernels.dropout import Noise
from frostline.records import Plan, Recipe
from frostline.training.loop import loss_of, make_optimizer
from frostline.training.model import Tunable, make_tunable

if TYPE_CHECKING:
    from frostline.costs.cost import Costs
    from frostline.encoders.encoder import Encoder
    from frostline.records.cost import Cost

_STEPS = 3  # timed per plan
_PARTS = 4  # of a step; as many or fewer plans always fit
_FEW_RANGE = 3.0  # the factor then
_LEAST_RANGE = 1.5  # machines are noisy: no estimate is surer than this factor


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What one machine takes for the parts of a step, in seconds.

    Args:
        step: whatever the plan.
        layer: for each layer that runs.
        flop: for each floating-point operation of training.
        update: for each number that trains.
        forward_flop: for each operation of a pass without training.
        factor: estimates lie within this factor of what was timed.
    """

    step: float
    layer: float
    flop: float
    update: float
    forward_flop: float
    factor: float

    def seconds(self, costs: Costs, plan: Plan, cost: Cost, work: Work) -> tuple[float, float, float]:
        """The least likely, expected and most likely seconds of frozen states, training and judging."""
        layers = plan.head - max(1, plan.lowest) + 1
        one = self.step + self.layer * layers + self.update * cost.trainable
        training = cost.epochs * (cost.steps * one + self.flop * cost.epoch_flops)
        frozen = cost.frozen_flops * (1 + len(costs.load.others) / len(costs.load.train))
        judged = cost.epochs * work.forward.of(costs.epoch) * len(costs.load.others) / len(costs.load.train)
        expected = training + self.forward_flop * (frozen + judged)
        return expected / self.factor, expected, expected * self.factor


def calibrate(encoder: Encoder, costs: Costs, *, max_memory: float | None = None) -> Speed:
    """Time a few steps of a few plans on this machine.

    Args:
        encoder: with weights, on the device that will be used.
        costs: of its plans; batches of its texts' lengths are run, and its counter knows their arithmetic.
        max_memory: gigabytes; plans that take more are not timed.
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
    shaped = partial(shape_of, is_packed=encoder.family.can_pack)
    size = max(1, round(recipe.batch * load.texts_per_row))
    batches = [source.choice(load.train, size=size) for _ in range(_STEPS)]
    rows: list[list[float]] = []
    seconds, forward = [], []
    for plan in plans:
        tunable = make_tunable(encoder, plan, outputs=load.outputs, kind=load.kind, head=recipe.head)
        if not rows:
            _time(tunable, batches[:1], recipe)  # the first step of a process is slow
        taken = _time(tunable, batches, recipe)
        trainable = sum(value.numel() for value in tunable.trainable().values())
        work = costs.counter.of(plan)
        flops = [work.forward.of(shape) + work.backward.of(shape) for shape in map(shaped, batches)]
        layers = depth - max(1, plan.lowest) + 1
        rows.append([1.0, layers, float(np.median(flops)), trainable])
        seconds.append(taken)
        if not plan.layers:
            counted = [work.inference.of(shape) for shape in map(shaped, batches)]
            forward.append(_forward_rate(encoder, batches, counted))
    found, error = _fit(np.array(rows), np.array(seconds))
    return Speed(
        step=found[0],
        layer=found[1],
        flop=found[2],
        update=found[3],
        forward_flop=forward[0],
        factor=max(_LEAST_RANGE if len(plans) > _PARTS else _FEW_RANGE, 1 + 2 * error),
    )


def _time(tunable: Tunable, batches: list[Ints], recipe: Recipe) -> float:
    """The median seconds of a training step."""
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
    """States of random texts, from where the plan starts; through the embeddings where they train."""
    encoder = tunable.encoder
    if not tunable.plan.embeddings:
        return torch.randn(layout.tokens, encoder.width, device=encoder.device)
    ids = torch.randint(encoder.config.vocab_size, (layout.tokens,), device=encoder.device)
    types = torch.zeros_like(ids)
    positions = encoder.family.positions(encoder.config, ids, layout.starts, layout.lengths)
    return encoder.family.embed(encoder.model, ids, types, positions)


def _forward_rate(encoder: Encoder, batches: list[Ints], flops: list[float]) -> float:
    """Seconds per operation of computing frozen states, through all layers."""
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
    """What each part takes, none below 0, by least squares of relative errors, and the largest of these."""
    from scipy.optimize import nnls

    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    relative = rows / scale / seconds[:, None]
    found, _ = nnls(relative, np.ones(len(seconds)))
    error = float(np.abs(relative @ found - 1).max())
    return list(found / scale), error
