"""Run one trial; a trial that fails has a result too."""

from __future__ import annotations

import copy
import errno
import time
import traceback
from dataclasses import replace

import numpy as np
import torch

from frostline.encoders.tokens import Tokens
from frostline.errors import OptionError, TuneError, UserError
from frostline.files import provenance
from frostline.kernels.device import computing
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.records.trial import FailureCause
from frostline.training.execution import Settings, execute
from frostline.training.result import Tuned
from frostline.trials.context import Context, TrialKind
from frostline.trials.kept_models import keep_tuned, load_kept
from frostline.trials.results import result_of
from frostline.trials.step_timing import epoch_seconds

_TIMED = 16  # texts


def run_trial(context: Context, spec: TrialSpec, *, keep: bool = False) -> TrialResult:
    """Run a trial with the threads of its recipe and return its result, also if it fails.

    Args:
        context: encoders and tasks.
        spec: the trial.
        keep: keep the model too, if the trial is plain tuning.
    """
    started = time.perf_counter()
    try:
        with computing(threads=spec.recipe.threads):
            if spec.kind == TUNE.name:
                return _tune(context, spec, keep=keep)
            result = _kind(context, spec).run(context, spec)
    except TuneError as error:
        return failed(str(error), "diverged")
    except UserError as error:
        return failed(str(error), "refused")
    except Exception as error:
        if _is_disk_full(error):
            return failed("the disk is full", "disk full")
        return failed(f"{type(error).__name__}: {error}".splitlines()[0], "error", traceback.format_exc())
    # Tuning records its own seconds; other work of this kind of trial is added here.
    other = time.perf_counter() - started - sum(result.seconds.values())
    return replace(result, seconds={**result.seconds, "other": round(max(0.0, other), 3)})


def failed(reason: str, cause: FailureCause, details: str = "") -> TrialResult:
    """Return the result of a trial that failed."""
    return TrialResult(status="failed", reason=reason, cause=cause, traceback=details, versions=provenance.versions())


def _kind(context: Context, spec: TrialSpec) -> TrialKind:
    kinds = {kind.name: kind for kind in (TUNE, *context.materials.kinds)}
    if spec.kind not in kinds:
        raise OptionError(f"unknown kind of trial {spec.kind!r}; known: {', '.join(kinds)}")
    return kinds[spec.kind]


def tune_for(context: Context, spec: TrialSpec, *, test: bool = True) -> Tuned:
    """Tune the trial's model, after its surgery."""
    settings = Settings(
        test=test,
        train_rows=spec.train_rows,
        new_layers=frozenset(spec.surgery.get("reinitialise", ())),
        checkpoints=context.checkpoints(spec),
        resume=True,
        is_short=True,
        progress=context.progress,
    )
    return execute(context.shared(spec), spec.plan, spec.recipe, settings=settings)


def model_of(context: Context, spec: TrialSpec) -> Tuned:
    """Return the model of a trial: the kept one, or else trained again and kept."""
    kept = context.materials.kept
    tuned = None if kept is None else load_kept(context.shared(spec), spec, kept / spec.id)
    if tuned is None:
        with computing(threads=spec.recipe.threads):  # as in the trial
            tuned = tune_for(context, spec, test="test" in context.materials.predictions)
        if kept is not None:
            keep_tuned(tuned, kept / spec.id)
    return tuned


def _tune(context: Context, spec: TrialSpec, *, keep: bool = False) -> TrialResult:
    recorded, kept = context.materials.predictions, context.materials.kept
    tuned = tune_for(context, spec, test="test" in recorded)
    if keep and kept is not None:
        keep_tuned(tuned, kept / spec.id)
    result = result_of(tuned)
    asked = dict.fromkeys([*recorded, *(tuned.task.more_tests if "test" in recorded else ())])
    splits = [split for split in asked if split in result.predictions] or ["validation"]
    seconds = dict(result.seconds)
    if spec.options.get("timed"):
        seconds["prediction"] = _seconds_per_text(tuned, context.shared(spec).tokens(splits[0])[0])
    values = {"epoch_seconds": _epoch_seconds(context, spec, tuned)} if spec.options.get("timed_uncached") else {}
    predictions = {split: result.predictions[split] for split in splits}
    return replace(result, predictions=predictions, seconds=seconds, values=values)


def _epoch_seconds(context: Context, spec: TrialSpec, tuned: Tuned) -> dict[str, float]:
    shared = context.shared(spec)
    rows = shared.examples(tuned.tunable, "train")
    if spec.train_rows is not None and spec.train_rows < len(rows):
        rows = rows.take(shared.some_rows(spec.train_rows, seed=spec.recipe.seed))
    return epoch_seconds(tuned, rows)


TUNE = TrialKind(name="tune", run=_tune)


def _is_disk_full(error: Exception) -> bool:
    """Whether the cause is a full disk, which safetensors and torch report only in their message."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error)


def _seconds_per_text(tuned: Tuned, tokens: Tokens) -> float:
    """Return the model's seconds per text, from tokens to outputs: the fastest of three passes over a few texts."""
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
