"""Kinds of trials: what is done in one. Studies define their own beside their tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from frostline import folders
from frostline.errors import UserError
from frostline.records import TrialResult, TrialSpec
from frostline.registry import Registry
from frostline.runner.materials import Bench
from frostline.runner.trials import result_of
from frostline.tuned import Tuned
from frostline.tuning import Settings, execute, use_threads

Kind = Callable[[Bench, TrialSpec], TrialResult]

KINDS: Registry[Kind] = Registry("kind of trial", package="frostline.studies")


def trial_kind(name: str) -> Callable[[Kind], Kind]:
    """Register what is done in a trial under a name."""
    return lambda function: KINDS.add(name, function)


def run_trial(bench: Bench, spec: TrialSpec) -> TrialResult:
    """The result of a trial, with the threads of its recipe; one that fails is a result, too."""
    try:
        with use_threads(spec.recipe.threads):
            return KINDS[spec.kind](bench, spec)
    except UserError as error:
        return TrialResult(status="failed", reason=str(error), versions=folders.versions())
    except Exception as error:  # one trial's trouble must not take the study with it
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return TrialResult(status="failed", reason=reason, versions=folders.versions())


def tune_for(bench: Bench, spec: TrialSpec, *, test: bool = True) -> Tuned:
    """The model that a trial's plan and recipe give, after its surgery."""
    settings = Settings(
        test=test,
        train_rows=spec.train_rows,
        new_layers=frozenset(spec.surgery.get("reinitialise", ())),
        checkpoints=bench.place(spec),
        resume=True,
        is_short=True,
    )
    return execute(bench.workshop(spec), spec.plan, spec.recipe, settings=settings)


@trial_kind("tune")
def _tune(bench: Bench, spec: TrialSpec) -> TrialResult:
    tuned = tune_for(bench, spec)
    # Validation predictions are for choosing only, and the choice is made by the metrics: studies keep the test's.
    found = result_of(tuned)
    return replace(found, predictions={split: rows for split, rows in found.predictions.items() if split == "test"})
