"""The race: many plans in, a few thoroughly tried ones out.

Successive halving: all plans train on a small budget, the better ones on three times as much, and the best on all of
it. A budget is a number of training rows and epochs with a complete schedule of its own, so that what is compared is
always a finished model. The simple baselines stay in to the end, as what the choice is compared with. Plans that join
late (full fine-tuning, the most expensive, and the middle layers, which learn late) are in the last round whatever they
would do in the others, and so do not run there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from frostline.errors import TrialError
from frostline.plans.learning_rates import epochs_for, learning_rate_for
from frostline.progress import Progress, Step, silent
from frostline.records import Plan, Proposal, Recipe, TrialResult, TrialSpec
from frostline.records.run import RaceEntry
from frostline.search.proposals import baseline_names
from frostline.search.tables import race_table
from frostline.tasks.metrics import METRICS
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.executors import Executor, Finished
from frostline.trials.results import make_spec
from frostline.trials.run_missing import run_missing
from frostline.trials.store import Store

SHARES = (1 / 9, 1 / 3, 1.0)  # of the whole budget, by rung
_LEAST_ROWS = 100  # in a rung: with fewer, a comparison is a lottery
_KEPT = 4  # one plan in four survives a rung
_IN_FINAL = 2  # plans besides the baselines; one after a single short round, which says little about the second
_MIDDLE_ROUND = 3000  # training rows from which there is a middle round; of fewer, a third tells no more than a ninth
_OTHER_RATES = (2.0,)  # factors of the usual rate; the best plan of the last but one rung tries them too


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One round: the rows and epochs that each plan may train on."""

    number: int
    train_rows: int
    epochs: int
    share: float

    @property
    def rate(self) -> float:
        """The factor of the usual learning rates: with few steps, only high rates get anywhere."""
        return round(float(self.share**-0.5), 1)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A plan's trial in a rung, with the best of the learning rates that were tried."""

    proposal: Proposal
    rung: Rung
    spec: TrialSpec
    result: TrialResult
    value: float  # the metric on validation, negated if lower is better
    seconds: float  # duration of all its trials in this rung

    @property
    def record(self) -> RaceEntry:
        """The entry as it is stored."""
        return RaceEntry(
            trial=self.spec.id,
            plan=self.proposal.plan,
            sources=self.proposal.sources,
            train_rows=self.rung.train_rows,
            epochs=self.spec.recipe.epochs,
            learning_rate=self.spec.recipe.learning_rate or 0.0,
            validation=self.result.metrics["validation"],
            seconds=round(self.seconds, 3),
        )


@dataclass(frozen=True, kw_only=True)
class Race:
    """A finished race: the entries of each rung, best first, and the plans that stayed in as baselines."""

    rungs: tuple[tuple[Entry, ...], ...]
    baselines: Mapping[str, str]  # name of the baseline -> id of its trial in the last rung
    failed: tuple[str, ...]  # one line per trial that diverged
    notes: tuple[str, ...]

    @property
    def final(self) -> tuple[Entry, ...]:
        """The entries that were tried on the whole budget."""
        return self.rungs[-1]

    def entry(self, trial: str) -> Entry:
        """Return an entry of the last rung by the id of its trial."""
        return next(entry for entry in self.final if entry.spec.id == trial)


def make_rungs(rows: int, epochs: int) -> list[Rung]:
    """Return the rounds for a number of training rows and epochs; few rows get one short round, very few none."""
    rungs: list[Rung] = []
    for share in SHARES:
        visits = share * rows * epochs
        passes = max(1, round(visits / rows)) if share < 1 else epochs
        count = min(rows, round(visits / passes))
        is_worth_it = count >= min(rows, _LEAST_ROWS) and (not rungs or rows >= _MIDDLE_ROUND)
        if is_worth_it or share == 1:
            rungs.append(Rung(number=len(rungs) + 1, train_rows=count, epochs=passes, share=share))
    return rungs


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The trials of one search: where they run and where they are recorded.

    Args:
        shared: the encoder and the task of all trials.
        store: recorded results; trials with one do not run again.
        executor: executor of the other trials.
    """

    shared: SharedInputs
    store: Store
    executor: Executor

    def run(self, specs: Iterable[TrialSpec], *, keep: bool = False) -> Iterator[Finished]:
        """Yield the trials with their results; a bug in one of them ends the search."""
        for spec, result in run_missing(self.store, specs, self.executor, retry=("error", "lost"), keep=keep):
            if result.cause == "error":
                raise TrialError(f"trial {spec.id} (plan {spec.plan.name}) failed: {result.reason}", result.traceback)
            yield spec, result


def race(
    trials: Trials,
    proposals: Sequence[Proposal],
    recipe: Recipe,
    *,
    deadline: float | None = None,
    progress: Progress = silent,
) -> Race:
    """Race plans on a task.

    Args:
        trials: executor and store of trials.
        proposals: the plans.
        recipe: epochs of the last rung, batch, seed and so on; its learning rate, if any, is used for every plan.
        deadline: time after which no trial starts, by `time.monotonic`; the first rung tries its cheapest plans first,
            the others the most promising ones.
        progress: progress callback, with the ranking of the round after every trial.
    """
    rounds = _Rounds(trials=trials, recipe=recipe, deadline=deadline, progress=progress)
    rungs = make_rungs(len(trials.shared.task.train), recipe.epochs)
    runners = sorted(proposals, key=lambda proposal: proposal.cost.price)
    late = [proposal for proposal in runners if proposal.joins_late]
    for rung, following in pairwise(rungs):
        others = [proposal for proposal in runners if not proposal.joins_late]
        if len(others) < 2:
            break  # nothing to compare
        ranked = rounds.run(rung, others, try_rates=following.share == 1)
        if ranked:
            runners = [*_survivors(ranked, following.share), *late]
    rounds.run(rungs[-1], runners, try_rates=False)
    if rounds.done and rounds.done[-1][0].rung.share < 1:
        rounds.notes.append("no plan was tried on the whole budget: the choice is among partly trained models")
    final = rounds.done[-1] if rounds.done else ()
    return Race(
        rungs=tuple(rounds.done),
        baselines={name: entry.spec.id for name, entry in _baselines(final).items()},
        failed=tuple(rounds.failed),
        notes=tuple(rounds.notes),
    )


@dataclass(kw_only=True)
class _Rounds:
    """The rounds of one race."""

    trials: Trials
    recipe: Recipe
    deadline: float | None
    progress: Progress
    factors: dict[str, float] = field(default_factory=dict)  # of the usual learning rate, by plan
    done: list[tuple[Entry, ...]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self, rung: Rung, runners: Sequence[Proposal], *, try_rates: bool) -> list[Entry]:
        """Return the entries of a round, best first."""
        planned = [(self._spec(proposal, rung), proposal) for proposal in runners]
        entries = self._enter(planned, rung, total=len(runners))
        if try_rates and self.recipe.learning_rate is None and entries:
            entries = self._with_other_rates(entries, rung)
        ranked = _ranked(entries)
        if ranked:
            self.done.append(tuple(ranked))
        return ranked

    def _enter(self, planned: Sequence[tuple[TrialSpec, Proposal]], rung: Rung, *, total: int) -> list[Entry]:
        """Return the entries of the trials that did not fail, in the order of the trials."""
        results: dict[str, TrialResult] = {}
        started = 0

        def specs() -> Iterator[TrialSpec]:
            nonlocal started
            for spec, _ in planned:
                has_result = self.done or any(result.status == "done" for result in results.values())
                is_running = started > len(results)
                if (has_result or is_running) and self._is_too_late(spec):
                    self.notes.append(f"time limit reached: round {rung.number} tried {started} of {total} plans")
                    return
                started += 1
                yield spec

        keep = rung.share == 1 or self.deadline is not None
        for spec, result in self.trials.run(specs(), keep=keep):
            results[spec.id] = result
            self._show(rung, self._entries(planned, results, rung), total)
        for spec, proposal in planned:
            if spec.id in results and results[spec.id].status == "failed":
                reason = results[spec.id].reason
                self.failed.append(f"{proposal.plan.name} at {spec.recipe.learning_rate:g}: {reason}")
        return self._entries(planned, results, rung)

    def _entries(
        self, planned: Sequence[tuple[TrialSpec, Proposal]], results: Mapping[str, TrialResult], rung: Rung
    ) -> list[Entry]:
        metric = METRICS[self.trials.shared.task.metrics[0]]
        return [
            Entry(
                proposal=proposal,
                rung=rung,
                spec=spec,
                result=results[spec.id],
                value=metric.signed(results[spec.id].metrics["validation"][metric.name]),
                seconds=sum(results[spec.id].seconds.values()),
            )
            for spec, proposal in planned
            if spec.id in results and results[spec.id].status == "done"
        ]

    def _with_other_rates(self, entries: list[Entry], rung: Rung) -> list[Entry]:
        """Let the best plan try other learning rates and keep the best one; return the entries with its result."""
        best = _ranked(entries)[0]
        for factor in _OTHER_RATES:
            spec = self._spec(best.proposal, rung, factor)
            if self._is_too_late(spec):
                break
            for tried in self._enter([(spec, best.proposal)], rung, total=len(entries)):
                if is_better := tried.value > best.value:
                    self.factors[str(best.proposal.plan.identity())] = factor
                both = replace(tried if is_better else best, seconds=tried.seconds + best.seconds)
                entries = [both if entry is best else entry for entry in entries]
                best = both
        return entries

    def _spec(self, proposal: Proposal, rung: Rung, factor: float | None = None) -> TrialSpec:
        factor = factor or self.factors.get(str(proposal.plan.identity()), 1.0)
        return trial_of(self.trials.shared, proposal.plan, rung, self.recipe, factor)

    def _is_too_late(self, spec: TrialSpec) -> bool:
        """Whether the deadline has passed and the trial is not recorded."""
        is_over = self.deadline is not None and time.monotonic() > self.deadline
        return is_over and self.trials.store.get(spec) is None

    def _show(self, rung: Rung, entries: Sequence[Entry], total: int) -> None:
        ranked = _ranked(entries)
        metric = METRICS[self.trials.shared.task.metrics[0]]
        table = race_table([entry.record for entry in ranked], [entry.proposal for entry in ranked], metric)
        name = f"round {rung.number}"
        title = f"{name}: {len(entries)} of {total} plans, {rung.train_rows:,} rows, {rung.epochs} epochs"
        ranking = replace(table.without("learning rate", "because"), title=title)
        self.progress(Step(stage="race", detail=name, done=len(entries), total=total, table=ranking))


def trial_of(shared: SharedInputs, plan: Plan, rung: Rung, recipe: Recipe, factor: float = 1.0) -> TrialSpec:
    """Return the trial of a plan in a round.

    Args:
        shared: the encoder and the task.
        plan: the plan.
        rung: the round, with its rows and epochs.
        recipe: all other settings.
        factor: factor of the plan's usual learning rate, unless the recipe has one.
    """
    rate = recipe.learning_rate or factor * rung.rate * learning_rate_for(plan, shared.encoder.width)
    epochs = epochs_for(plan, rung.epochs)
    return make_spec(shared, plan, replace(recipe, learning_rate=rate, epochs=epochs), train_rows=rung.train_rows)


def _ranked(entries: Sequence[Entry]) -> list[Entry]:
    """Return the best entries first, and of two equals the cheaper one."""
    return sorted(entries, key=lambda entry: (-entry.value, entry.proposal.cost.price))


def _survivors(ranked: Sequence[Entry], share: float) -> list[Proposal]:
    """Return the plans of the next round: the best quarter, and the best baseline of each kind."""
    is_only_round = share == 1 and ranked[0].rung.number == 1
    count = 1 if is_only_round else _IN_FINAL if share == 1 else max(_IN_FINAL + 1, -(-len(ranked) // _KEPT))
    chosen = [entry.proposal for entry in ranked[:count]]
    for entry in _baselines(ranked).values():
        if entry.proposal not in chosen:
            chosen.append(entry.proposal)
    return chosen


def _baselines(ranked: Sequence[Entry]) -> dict[str, Entry]:
    """Return the best entry of each kind of baseline."""
    kinds = {name: [entry for entry in ranked if name in entry.proposal.baselines] for name in baseline_names()}
    return {name: entries[0] for name, entries in kinds.items() if entries}
