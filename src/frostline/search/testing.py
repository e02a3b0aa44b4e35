"""The test of a choice and of the baselines: the only place of a search that reads the test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from frostline.costs.cost import Costs
from frostline.records import TrialSpec
from frostline.records.run import Judged
from frostline.search.entries import Race
from frostline.stats.intervals import compare, interval
from frostline.training.loop import judge
from frostline.training.result import Tuned
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context
from frostline.trials.results import decode_outputs
from frostline.trials.run_trial import model_of

CHOICE = "the choice"
BEFORE_REFIT = "the choice before its refit"


@dataclass(frozen=True, kw_only=True)
class Test:
    """The test of one search.

    Args:
        context: encoders, tasks and kept models.
        shared: inputs of the trials.
        costs: costs of plans, which know where their frozen states are.
        seed: seed of the bootstrap.
        of_model: function from a trial of the race to the one whose model is tested: the same, unless it had folds.
    """

    context: Context
    shared: SharedInputs
    costs: Costs
    seed: int
    of_model: Callable[[TrialSpec], TrialSpec] = lambda spec: spec

    def run(self, outcome: Race, chosen: str, final: TrialSpec) -> tuple[list[Judged], Tuned]:
        """Return how good the choice and the baselines are on the test rows, and the model with its test outputs.

        Args:
            outcome: the race, with the baselines.
            chosen: trial of the choice in the race.
            final: trial of the model that is saved: the same, or its refit.
        """
        task = self.shared.task
        if task.test is None:
            return [], model_of(self.context, final)
        before, baselines = self.of_model(outcome.entry(chosen).spec), outcome.baselines
        tested = {CHOICE: final, **({} if final.id == before.id else {BEFORE_REFIT: before})}
        tested |= {name: self.of_model(outcome.entry(trial).spec) for name, trial in baselines.items()}
        self.shared.freeze(self.costs.frozen_at(spec.plan for spec in tested.values()), ["test"])
        others = {spec.id: spec for spec in tested.values() if spec.id != final.id}
        outputs = {trial: self._outputs(model_of(self.context, spec)) for trial, spec in others.items()}
        tuned = model_of(self.context, final)  # last, so that one model is in memory at a time
        outputs[final.id] = self._outputs(tuned)
        in_race = {CHOICE: chosen, BEFORE_REFIT: chosen, **baselines}
        judged = [
            self._judge(name, in_race[name], outputs[spec.id], outputs[final.id]) for name, spec in tested.items()
        ]
        more = {name: self.shared.examples(tuned.tunable, name).outputs(tuned.tunable) for name in task.more_tests}
        metrics = {name: judge(out, torch.tensor(task.more_tests[name].labels), task.metrics, task.kind)
                   for name, out in more.items()}  # fmt: skip
        tuned = replace(
            tuned,
            metrics={**tuned.metrics, "test": judged[0].metrics, **metrics},
            outputs={**tuned.outputs, "test": outputs[final.id], **more},
        )
        return judged, tuned

    def _outputs(self, tuned: Tuned) -> torch.Tensor:
        return self.shared.examples(tuned.tunable, "test").outputs(tuned.tunable)

    def _judge(self, name: str, trial: str, own: torch.Tensor, choice: torch.Tensor) -> Judged:
        """Return how good one model is on the test rows, and how much better the choice is."""
        task, rows = self.shared.task, self.shared.task.test
        assert rows is not None  # noqa: S101 (asked only where there are test rows)
        metric, groups = task.metrics[0], rows.groups
        guesses = decode_outputs(own, task.kind)
        low, high = interval(rows.labels, guesses, metric, groups=groups, seed=self.seed)
        chosen = decode_outputs(choice, task.kind)
        difference = compare(rows.labels, chosen, guesses, metric, groups=groups, seed=self.seed)
        return Judged(
            name=name,
            trial=trial,
            metrics=judge(own, torch.tensor(rows.labels), task.metrics, task.kind),
            low=low,
            high=high,
            choice_minus_it=None if own is choice else difference,
        )
