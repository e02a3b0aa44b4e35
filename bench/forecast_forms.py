"""Two other forms of the forecast: with each plan's learning rate and steps, and after a few steps of training.

Both rank plans by what is left of the probe's errors, as `frostline.scoring.forecast` does, on rows that neither the
probe nor the training has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.plans.learning_rates import head_rate_for, learning_rate_for
from frostline.records import Plan, Recipe
from frostline.scoring.forecast import Forecast, Half, make_forecast
from frostline.scoring.score_inputs import Evidence, divide
from frostline.tasks import Task
from frostline.training.execution import Settings, execute
from frostline.training.shared_inputs import SharedInputs

TIMES = torch.logspace(-1, 3, 9, dtype=torch.float64).tolist()  # of a gradient flow at the rate of full fine-tuning
WARM_UP = 20  # steps


def sets_of(plans: Sequence[Plan]) -> list[tuple[int, ...]]:
    """Return the tuned layers of plans, with 0 for the embeddings."""
    return [(0, *plan.layers) if plan.embeddings else tuple(plan.layers) for plan in plans]


def gains_with_rate_and_steps(forecast: Forecast, plans: Sequence[Plan], *, width: int) -> list[float]:
    """Return minus each plan's squared error after a gradient flow in which layers have the plan's learning rate.

    Every plan trains for the same time, the one with the least error over all plans. Kernels are added and not
    averaged, so that more layers learn faster, as they do in training.
    """
    unit = learning_rate_for(Plan.full(forecast.depth), width)
    head = head_rate_for(width) / unit
    by_plan = []
    for plan, layers in zip(plans, sets_of(plans), strict=True):
        rate = learning_rate_for(plan, width) / unit
        errors = torch.stack(
            [flow_errors(head * half.head + rate * half.layers[list(layers)].sum(0), half) for half in forecast.halves]
        )
        by_plan.append(errors.mean(0))  # (times,)
    table = torch.stack(by_plan)
    return (-table[:, table.mean(0).argmin()]).tolist()


def flow_errors(kernel: Tensor, half: Half) -> Tensor:
    """Return (times,): the mean squared error of each fold's rows, predicted by a flow on the other folds' rows."""
    errors = torch.zeros(len(TIMES), dtype=torch.float64)
    for fold in range(int(half.folds.max()) + 1):
        held, rest = half.folds == fold, half.folds != fold
        sizes, directions = torch.linalg.eigh(kernel[rest][:, rest] / int(rest.sum()))
        sizes = sizes.clamp(min=1e-12)
        along = directions.T @ half.targets[rest]
        cross = kernel[held][:, rest] @ directions / int(rest.sum())
        for number, time in enumerate(TIMES):
            solved = -torch.expm1(-time * sizes)[:, None] / sizes[:, None] * along
            errors[number] += (half.targets[held] - cross @ solved).square().sum()
    return errors / len(half.targets)


def gains_after_warm_up(evidence: Evidence, plans: Sequence[Plan], *, steps: int = WARM_UP) -> list[float]:
    """Return each plan's forecast gain from an encoder that was tuned for a few steps on the other half of the rows."""
    labels = evidence.labels if evidence.has_classes else None
    side = divide(labels, evidence.groups, 2, seed=evidence.seed)
    gains = []
    for seen, judged in ((side == 0, side == 1), (side == 1, side == 0)):
        encoder = warmed_up(evidence.take(seen.nonzero()[:, 0]), steps)
        left = replace(evidence.take(judged.nonzero()[:, 0]), encoder=encoder)
        gains.append(make_forecast(left.in_order()).gains(sets_of(plans), uncertainty=False).values)
    return torch.stack(gains).mean(0).tolist()


def warmed_up(evidence: Evidence, steps: int) -> Encoder:
    """Return the encoder after a few steps of full fine-tuning on these rows."""
    encoder, split = evidence.encoder, evidence.split
    assert encoder is not None and split is not None and evidence.tokens is not None
    names = tuple(str(number) for number in range(int(max(split.labels)) + 1)) if evidence.has_classes else ()
    task = Task(
        name="warm-up", kind=evidence.kind, label_names=names, train=split, validation=None, test=None,
        metrics=(evidence.metric,), source="warm-up",
    )  # fmt: skip
    plan = Plan.full(encoder.depth)
    recipe = Recipe(
        schedule="averaged", steps=steps, select="last", learning_rate=learning_rate_for(plan, encoder.width),
        head_rate=head_rate_for(encoder.width), threads=torch.get_num_threads(),
        max_length=int(evidence.tokens.lengths.max()), seed=evidence.seed,
    )  # fmt: skip
    shared = SharedInputs.for_recipe(encoder, task, recipe, keep=False)
    return execute(shared, plan, recipe, settings=Settings(test=False, is_short=True)).tunable.encoder
