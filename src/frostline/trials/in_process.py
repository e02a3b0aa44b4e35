"""Running trials in this process, one after the other, and recording each when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from frostline.errors import TuneError
from frostline.files import folders
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.training.execution import Settings, execute
from frostline.training.loop import Report
from frostline.training.result import Tuned
from frostline.training.shared_inputs import Workshop
from frostline.trials.kept_models import keep_tuned, load_kept
from frostline.trials.store import Store

Done = Callable[[TrialSpec, TrialResult], None]


def make_spec(workshop: Workshop, plan: Plan, recipe: Recipe, *, train_rows: int | None = None) -> TrialSpec:
    """The trial of a plan and a recipe in a workshop."""
    encoder, task = workshop.encoder, workshop.task
    if train_rows is not None and train_rows >= len(task.train):
        train_rows = None  # the same trial, whichever way it is asked for
    return TrialSpec(
        encoder=encoder.ref,
        task=task.ref,
        plan=plan,
        recipe=recipe,
        train_rows=train_rows,
    )


class InProcess:
    """Runs trials in this process."""

    def __init__(
        self,
        workshop: Workshop,
        store: Store,
        *,
        test: bool = False,
        report: Report | None = None,
        done: Done | None = None,
    ) -> None:
        """Take down what trials need.

        Args:
            workshop: the encoder and the task that all trials are about.
            store: where results are recorded, and looked up first.
            test: judge every trial on the test rows too; a race must not.
            report: told how far a trial is.
            done: told of every trial, run or looked up.
        """
        self.workshop, self.store = workshop, store
        self._test = test
        self._report = report or (lambda what, done, total: None)
        self._done = done or (lambda spec, result: None)

    def run(self, specs: Sequence[TrialSpec], *, keep: bool = False) -> list[TrialResult]:
        """The results of trials, in their order; those that are recorded are not run again.

        Trials that start from the same frozen states run one after the other.

        Args:
            specs: the trials.
            keep: keep the models too, for `model`.
        """
        order = sorted(range(len(specs)), key=lambda place: specs[place].plan.lowest)
        found: dict[int, TrialResult] = {}
        for place in order:
            spec = specs[place]
            result = self.store.get(spec)
            if result is None:
                result = self._execute(spec, keep=keep)
                self.store.put(spec, result)
            found[place] = result
            self._done(spec, result)
        return [found[place] for place in range(len(specs))]

    def knows(self, spec: TrialSpec) -> bool:
        """Whether the trial is recorded."""
        return self.store.get(spec) is not None

    def model(self, spec: TrialSpec) -> Tuned:
        """The model of a trial: the one that was kept, or else trained again."""
        place = self._kept / spec.id
        found = load_kept(self.workshop, spec, place)
        if found is None:
            found = self._train(spec)
            keep_tuned(found, place)
        return found

    @property
    def _kept(self) -> Path:
        return self.store.path.parent / "kept"

    def _execute(self, spec: TrialSpec, *, keep: bool) -> TrialResult:
        try:
            tuned = self._train(spec)
        except TuneError as error:  # a diverged trial is a result, too
            return TrialResult(status="failed", reason=str(error), versions=folders.versions())
        if keep:
            keep_tuned(tuned, self._kept / spec.id)
        return result_of(tuned)

    def _train(self, spec: TrialSpec) -> Tuned:
        settings = Settings(
            test=self._test,
            train_rows=spec.train_rows,
            checkpoints=self.store.path.parent / "trials" / spec.id,
            resume=True,
            is_short=True,
            report=self._report,
        )
        return execute(self.workshop, spec.plan, spec.recipe, settings=settings)


def result_of(tuned: Tuned) -> TrialResult:
    """What is recorded of a tuned model."""
    return TrialResult(
        status="done",
        metrics={split: dict(values) for split, values in tuned.metrics.items()},
        history=tuned.trained.history,
        predictions={split: guesses(outputs, tuned.task.kind) for split, outputs in tuned.outputs.items()},
        parameters={"total": tuned.trained.audit.total, "trainable": tuned.trained.audit.trainable},
        seconds=dict(tuned.seconds),
        versions=folders.versions(),
    )


def guesses(outputs: torch.Tensor, kind: str) -> tuple[float, ...]:
    """The class number, the choice's number or the value for every row."""
    found = outputs.squeeze(-1) if kind == "regression" else outputs.argmax(-1)
    return tuple(found.tolist())
