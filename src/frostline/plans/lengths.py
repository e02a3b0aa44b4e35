"""How long the plans of a search train: rounds that double the steps, until more of them bring nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from frostline.records import Plan

FIRST_STEPS = 40
LEAST_STEPS = 160  # before which no plan has converged
LEAST_STEPS_OF_SOUP = 80  # on development sets, soups of 80 steps were better than one model after 160
MOST_EPOCHS = 5
LEAST_MOST_STEPS = 320  # of the longest round, where five epochs are fewer
_STEPS_PER_CLASS = 8  # of the longest round, where classes are many
_OVERFITTING = 1.25  # times the lowest loss on validation
_FALLING = 0.98  # the same
_HEAD_ONLY = 8  # factor: a head alone learns slowly, and costs next to nothing
_FOLD_EPOCHS = 10
_MOST_RATIO = 4.0  # factor: of plans whose steps are cheap


def marks() -> Iterator[int]:
    """Yield the steps at which an averaged model is evaluated: 40, 80, 160, 320 and so on.

    They double, so that however long training is, evaluations take a small share of it; and they do not depend on its
    length, so that a longer run has the evaluations of a shorter one.
    """
    mark = FIRST_STEPS
    while True:
        yield mark
        mark *= 2


def is_mark(step: int) -> bool:
    """Whether an averaged model is evaluated after this many steps."""
    return next(mark for mark in marks() if mark >= step) == step


def last_mark(steps: float) -> int:
    """Return the last evaluation of an averaged model that is not after this step."""
    return list(takewhile(lambda mark: mark <= steps, marks()))[-1]


def round_steps(steps_per_epoch: int, *, classes: int = 1, most: int | None = None) -> list[int]:
    """Return the steps of each round: 40 in the first, and twice as many in each that follows.

    The last one has 320 steps, five epochs or 8 steps for each class, whichever is most: a search ends earlier, where
    it stops improving.

    Args:
        steps_per_epoch: steps of one pass over the training rows.
        classes: number of classes; 1 for values.
        most: most steps, if the user has set them.
    """
    most = most or max(LEAST_MOST_STEPS, MOST_EPOCHS * steps_per_epoch, _STEPS_PER_CLASS * classes)
    rounds = [min(FIRST_STEPS, most)]
    while rounds[-1] < most:
        rounds.append(min(2 * rounds[-1], most))
    return rounds


def fold_steps(steps_per_epoch: int, *, most: int | None = None) -> int:
    """Return the steps of each fold of a cross-validation, whose held-out rows may not choose the length: ten epochs.

    Few rows need few steps: with 64 and 256 rows of four development sets, 160 steps changed no plan's accuracy by a
    point on average.

    Args:
        steps_per_epoch: steps of one pass over the training rows.
        most: most steps, if the user has set them.
    """
    wanted = next(mark for mark in marks() if mark >= _FOLD_EPOCHS * steps_per_epoch)
    return wanted if most is None else min(most, wanted)


def steps_for(plan: Plan, steps: int, ratio: float = 1.0) -> int:
    """Return the steps of a plan in a round: those at which averaged models are evaluated, so that trials can go on.

    Args:
        plan: the plan.
        steps: steps of the most expensive plan.
        ratio: compute of its steps, divided by that of the plan's own.
    """
    wanted = steps * (_HEAD_ONLY if not plan.layers else min(max(ratio, 1.0), _MOST_RATIO))
    return last_mark(wanted) if wanted >= FIRST_STEPS else round(wanted)


def is_converged(history: Iterable[Mapping[str, Any]], metric: str, *, gain: int, worth: float, least: int) -> bool:
    """Whether more steps are not worth it: the second half of them brought nothing, or the loss has begun to rise.

    A loss that falls promises a better metric later. One that has risen by a quarter says that the model overfits: then
    on development sets a better metric on a few hundred rows was chance.

    Args:
        history: evaluations, with their steps.
        metric: name of the deciding metric.
        gain: 1 if higher is better, else -1.
        worth: the least improvement of the metric that twice as many steps are worth.
        least: steps before which nothing has converged.
    """
    records = list(history)
    last = records[-1]["step"]
    first_half = [record for record in records if 2 * record["step"] <= last]
    if last < least or not first_half:
        return False
    best, best_before = (max(gain * one[f"validation_{metric}"] for one in some) for some in (records, first_half))
    lowest, lowest_before = (min(one["validation_loss"] for one in some) for some in (records, first_half))
    is_overfitting = records[-1]["validation_loss"] > _OVERFITTING * lowest_before
    return bool(is_overfitting or (best - best_before < worth and lowest > _FALLING * lowest_before))
