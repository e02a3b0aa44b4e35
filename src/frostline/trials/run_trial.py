"""Kinds of trials: what is done in one. Studies define their own beside their tables."""

from __future__ import annotations

import copy
import errno
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from frostline.encoders.tokens import Tokens
from frostline.errors import UserError
from frostline.files import folders
from frostline.records import DISK_IS_FULL, Plan, TrialResult, TrialSpec
from frostline.registry import Registry
from frostline.training.execution import Settings, execute, use_threads
from frostline.training.result import Tuned
from frostline.trials.context import Bench
from frostline.trials.in_process import result_of

_TIMED = 16  # texts
Kind = Callable[[Bench, TrialSpec], TrialResult]

KINDS: Registry[Kind] = Registry("kind of trial", package="frostline.studies")


# How many times the work of tuning once a trial is, for estimates: of kinds that do more, as seen at their quick size.
TUNINGS: dict[str, float] = {}


def trial_kind(name: str, *, tunings: float = 1) -> Callable[[Kind], Kind]:
    """Register what is done in a trial under a name, and how often it tunes."""
    TUNINGS[name] = tunings
    return lambda function: KINDS.add(name, function)


def run_trial(bench: Bench, spec: TrialSpec) -> TrialResult:
    """The result of a trial, with the threads of its recipe; one that fails is a result, too."""
    started = time.perf_counter()
    try:
        with use_threads(spec.recipe.threads):
            found = KINDS[spec.kind](bench, spec)
    except UserError as error:
        return TrialResult(status="failed", reason=str(error), versions=folders.versions())
    except Exception as error:  # one trial's trouble must not take the study with it
        if _is_full(error):
            return TrialResult(status="failed", reason=DISK_IS_FULL, versions=folders.versions())
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return TrialResult(status="failed", reason=reason, versions=folders.versions())
    if spec.kind == "tune":  # it says all that it does; studies do more, and their trials would seem to take no time
        return found
    rest = time.perf_counter() - started - sum(found.seconds.values())
    return replace(found, seconds={**found.seconds, "other": round(max(0.0, rest), 3)})


def _is_full(error: Exception) -> bool:
    """Whether it comes of a full disk; safetensors and torch say so in words alone."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error)


def tune_for(bench: Bench, spec: TrialSpec, *, test: bool = True) -> Tuned:
    """The model that a trial's plan and recipe give, after its surgery."""
    settings = Settings(
        test=test,
        train_rows=spec.train_rows,
        new_layers=frozenset(spec.surgery.get("reinitialise", ())),
        checkpoints=bench.place(spec),
        resume=True,
        is_short=True,
        report=bench.report,
    )
    return execute(bench.workshop(spec), spec.plan, spec.recipe, settings=settings)


@trial_kind("tune")
def _tune(bench: Bench, spec: TrialSpec) -> TrialResult:
    tuned = tune_for(bench, spec)
    # Validation predictions are for choosing only, and the choice is made by the metrics: studies keep the test's.
    found = result_of(tuned)
    split = "test" if "test" in found.predictions else "validation"
    seconds = dict(found.seconds)
    if spec.options.get("timed"):
        seconds["prediction"] = _seconds_of_a_text(tuned, bench.workshop(spec).tokens(split)[0])
    return replace(found, predictions={split: found.predictions[split]}, seconds=seconds)


def _seconds_of_a_text(tuned: Tuned, tokens: Tokens) -> float:
    """How long the model takes for a text, from its tokens to the answer: the fastest of three passes over a few."""
    encoder, some = tuned.tunable.encoder, tokens.take(np.arange(min(_TIMED, len(tokens))))
    layout = encoder.layout(some)
    only_head = copy.copy(tuned.tunable.eval())
    only_head.plan = Plan(layers=(), head=tuned.plan.head)
    taken = []
    with torch.no_grad():
        for _ in range(3):
            started = time.perf_counter()
            states = encoder.run(encoder.embed(some, layout), layout, 1, tuned.plan.head)
            only_head.logits(states, layout)
            taken.append(time.perf_counter() - started)
    return min(taken) / len(some)
