"""The course of a search after measuring: race, proof, refit, test. The best model so far is always saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from frostline.errors import OptionError
from frostline.plans.lengths import LEAST_STEPS
from frostline.progress import Step, logger
from frostline.records import LayerScores, Proposal, TrialSpec
from frostline.records.run import Decision, Judged, RunRecord
from frostline.search.clock import Clock
from frostline.search.decision import decide, trade_offs
from frostline.search.entries import Race
from frostline.search.planning import Inputs, most_steps
from frostline.search.prior import favourite
from frostline.search.race import Part, race
from frostline.search.run_result import Run
from frostline.search.testing import Test
from frostline.search.trials import Trials
from frostline.training.result import Tuned
from frostline.trials.run_trial import model_of

Save = Callable[[Run], None]


@dataclass(kw_only=True)
class Course:
    """What a search has done since measuring.

    Args:
        inputs: encoder, task, recipe and budget.
        trials: the trials of the race.
        test: the test of models.
        scores: the measured layer scores.
        proposals: the plans that take part.
        notes: remarks so far.
        clock: the time so far.
        save: saves a run, finished or not.
        folder: folder of the run.
    """

    inputs: Inputs
    trials: Trials
    test: Test
    scores: LayerScores
    proposals: Sequence[Proposal]
    notes: Sequence[str]
    clock: Clock
    save: Save
    folder: Path
    outcome: Race | None = None
    decision: Decision | None = None
    final: TrialSpec | None = None  # of the model to save
    saved: str | None = None  # the trial of the model that was saved

    def race(self, proposals: Sequence[Proposal], deadline: float | None) -> None:
        """Race plans, and save every model that is the best so far."""
        self._run(proposals, deadline, "race", most_steps=most_steps(self.inputs.recipe, self.trials.rows))
        if self.outcome is None or not self.outcome.rounds:
            failed = () if self.outcome is None else self.outcome.failed
            raise OptionError(f"every trial failed: {'; '.join(failed[:3])}; try a lower `learning_rate`")
        self.clock.lap("race")

    def prove(self, proposals: Sequence[Proposal], deadline: float | None) -> None:
        """Race full fine-tuning and others that join late; the choice changes if one is shown to be better."""
        if proposals and (deadline is None or self.clock.is_before(deadline)):
            logger.info("proof: full fine-tuning, to compare the choice with; Ctrl-C keeps the choice")
            self._run(proposals, deadline, "proof", most_steps=self._steps_of_proof())
            self.clock.lap("proof")

    def _steps_of_proof(self) -> int:
        """Return the most steps of full fine-tuning: as many as the choice has had, but enough to have converged."""
        assert self.final is not None  # noqa: S101 (there is a choice to prove)
        asked = most_steps(self.inputs.recipe, self.trials.rows)
        return asked or max(LEAST_STEPS, self.final.recipe.steps or 0)

    def _run(
        self, proposals: Sequence[Proposal], deadline: float | None, part: Part, *, most_steps: int | None
    ) -> None:
        before = self.outcome
        usual = favourite(proposals, self.inputs.encoder.depth) if self.inputs.budget.goal != "best" else None
        for outcome in race(
            self.trials,
            proposals,
            self.inputs.recipe,
            most_steps=most_steps,
            deadline=deadline,
            part=part,
            favourite=usual,
            progress=self.clock.progress,
        ):
            self.outcome = outcome if before is None else before.then(outcome)
            if not self.outcome.rounds:
                continue
            seed = self.inputs.recipe.seed
            self.decision = decide(
                self.outcome, self.inputs.judging, self.inputs.budget, depth=self.inputs.encoder.depth, seed=seed
            )
            self.final = self.trials.of_model(self.outcome.entry(self.decision.chosen).spec)
            if self.saved != self.final.id:
                self.clock.progress(Step(stage="saving the best model so far"))
                self._save([], model_of(self.test.context, self.final), is_finished=False)
        if before is not None and self.outcome is not before and self.outcome is not None and not self.outcome.final:
            self.outcome = before

    def refit(self) -> None:
        """Train the choice on the training and validation rows together, as long as it was best on validation."""
        is_whole = self.inputs.folds is not None  # models of plans that were judged in folds are on all rows
        if not self.inputs.refit or is_whole or self.outcome is None or self.decision is None:
            return
        chosen = self.outcome.entry(self.decision.chosen)
        recipe = replace(chosen.spec.recipe, rows="all")
        if recipe.steps is not None:
            recipe = replace(recipe, steps=chosen.best_step)
        spec = replace(chosen.spec, recipe=recipe)
        self.clock.progress(Step(stage="refitting on all labelled rows"))
        model_of(self.test.context, spec)
        self.final = spec
        self.clock.lap("refit")

    def finish(self) -> Run:
        """Test the choice and the baselines, save the result, and return it."""
        tests, tuned = self._tested()
        self.clock.lap("testing")
        return self._save(tests, tuned, is_finished=True)

    def finish_early(self) -> None:
        """Test and save the best model so far, where there is one."""
        if self.final is None:
            logger.warning("no model was ready yet")
            return
        logger.warning("interrupted: testing and saving the best model so far; Ctrl-C again leaves it untested")
        tests, tuned = self._tested()
        self._save(tests, tuned, is_finished=False)

    def _tested(self) -> tuple[list[Judged], Tuned]:
        assert self.outcome is not None and self.decision is not None and self.final is not None  # noqa: S101
        return self.test.run(self.outcome, self.decision.chosen, self.final)

    def _save(self, tests: Sequence[Judged], tuned: Tuned, *, is_finished: bool) -> Run:
        assert self.outcome is not None and self.decision is not None and self.final is not None  # noqa: S101
        seed = self.inputs.recipe.seed
        record = RunRecord(
            encoder=self.scores.encoder,
            task=self.scores.task,
            plan=tuned.plan,
            recipe=tuned.recipe,
            budget=self.inputs.budget,
            decision=self.decision,
            given_up=trade_offs(self.inputs.judging, self.outcome, self.decision, tests, seed=seed),
            tests=tuple(tests),
            race=tuple(tuple(entry.record for entry in entries) for entries in self.outcome.rounds),
            failed=self.outcome.failed,
            proposals=tuple(self.proposals),
            notes=tuple(dict.fromkeys([*self.notes, *self.outcome.notes, *tuned.notes, *self.trials.shared.notes])),
            seconds=dict(self.clock.laps),
            validation_rows=len(self.inputs.judging.rows),
            folds=self.inputs.folds,
            is_finished=is_finished,
        )
        run = Run(
            record=record,
            scores=self.scores,
            race=self.outcome,
            tuned=tuned,
            folder=self.folder,
            announced=len(self.notes),
        )
        self.save(run)
        self.saved = self.final.id
        return run
