"""Seconds of an epoch with and without the cache of frozen states, from a few training steps of a tuned model."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import torch

from frostline.kernels.dropout import Noise
from frostline.training.dataset import Examples
from frostline.training.half_products import precision_of
from frostline.training.loop import load_weights, loss_of, order_of_rows, weights_of
from frostline.training.optimizers import make_optimizer
from frostline.training.result import Tuned

STEPS = 5  # timed in each way, after one that is not


def epoch_seconds(tuned: Tuned, rows: Examples) -> dict[str, float]:
    """Return the seconds of an epoch, 'uncached' and, where frozen states are kept, 'cached'.

    The first batches of an epoch are run through forward pass, backward pass and update, and their mean time is
    multiplied by the number of steps; both ways take the same batches. Without the cache every step starts from tokens
    and runs through the frozen layers without gradients. A plan without frozen layers has one time for both.

    Args:
        tuned: a model after training; its weights are the same afterwards.
        rows: its training rows.
    """
    kept = weights_of(tuned.tunable)
    try:
        seconds = {"uncached": _seconds(tuned, replace(rows, states=None))}
        if tuned.plan.lowest == 0:
            seconds["cached"] = seconds["uncached"]
        elif rows.states is not None and rows.states.is_kept:
            seconds["cached"] = _seconds(tuned, rows)
    finally:
        load_weights(tuned.tunable, kept)
        tuned.tunable.eval()
    return seconds


def _seconds(tuned: Tuned, rows: Examples) -> float:
    recipe = tuned.recipe
    order = order_of_rows(len(rows), seed=recipe.seed, epoch=0)
    batches = [order[start : start + recipe.batch] for start in range(0, len(order), recipe.batch)][:STEPS]
    optimizer = make_optimizer(tuned.tunable, recipe, recipe.learning_rate or 0.0)
    tuned.tunable.train()
    device = str(tuned.tunable.encoder.device.type)
    is_mixed = recipe.precision == "bfloat16" and device != "cpu"
    taken = []
    for step, batch in enumerate((batches[0], *batches)):
        started = time.perf_counter()
        with precision_of(tuned.tunable.model, recipe), torch.autocast(device, dtype=torch.bfloat16, enabled=is_mixed):
            logits = rows.logits(tuned.tunable, batch, noise=Noise(recipe.seed, step))
            labels = rows.labels[torch.as_tensor(batch)].to(logits.device)
            loss = loss_of(logits, labels, tuned.task.kind)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(tuned.tunable.trainable().values()), recipe.clip or math.inf)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        float(loss.detach())  # waits for a device that computes in the background
        taken.append(time.perf_counter() - started)
    return float(np.mean(taken[1:])) * -(-len(rows) // recipe.batch)
