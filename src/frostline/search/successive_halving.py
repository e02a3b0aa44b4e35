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

from frostline.errors import TrialError
from frostline.plans.learning_rates import epochs_for, learning_rate_for
from frostline.progress import Progress, Step, silent
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.records.proposal import Proposal
from frostline.records.run import RaceEntry
from frostline.search.proposals import baseline_names
from frostline.search.tables import race_table
from frostline.tasks.metrics import METRICS
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.executors import Executor, Finished
from frostline.trials.results import make_spec
from frostline.trials.run_missing import run_missing
from frostline.trials.store import Store

SHARES = (1 / 9, 1 / 3, 1.0)  # of the whole budget that each rung has
_LEAST_ROWS = 100  # of a rung: below that, a comparison is a lottery
_KEPT = 4  # one in so many goes on
_IN_FINAL = 2  # besides the baselines; one after a single short round, which says little of the second
_MIDDLE_ROUND = 3000  # training rows from which on there is one; of fewer, a third tells no more than a ninth
_OTHER_RATES = (2.0,)  # times the usual rate; the best plan of the last but one rung tries them too


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One round: how much each plan may train on."""

    number: int
    train_rows: int
    epochs: int
    share: float

    @property
    def rate(self) -> float:
        """How many times the usual learning rates: with few steps, only high ones get anywhere."""
        return round(float(self.share**-0.5), 1)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A plan's trial in a rung, with the best of the learning rates that were tried."""

    proposal: Proposal
    rung: Rung
    spec: TrialSpec
    result: TrialResult
    value: float  # the metric on validation, the higher the better whatever the metric
    seconds: float  # of all its trials in this rung

    @property
    def record(self) -> RaceEntry:
        """What is written of it."""
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
    """How a race went: the entries of each rung, best first, and which plans stayed in as baselines."""

    rungs: tuple[tuple[Entry, ...], ...]
    baselines: Mapping[str, str]  # what it is -> the trial's id in the last rung
    failed: tuple[str, ...]  # trials that diverged, a line each
    notes: tuple[str, ...]

    @property
    def final(self) -> tuple[Entry, ...]:
        """The entries that were tried on the whole budget."""
        return self.rungs[-1]

    def entry(self, trial: str) -> Entry:
        """Return an entry of the last rung by the id of its trial."""
        return next(entry for entry in self.final if entry.spec.id == trial)


def make_rungs(rows: int, epochs: int) -> list[Rung]:
    """The rounds for so many training rows and epochs; small data have one short round only, very small ones none."""
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
        shared: the encoder and the task that all trials are about.
        store: recorded results; trials that are in it do not run again.
        executor: runs the others.
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

    def knows(self, spec: TrialSpec) -> bool:
        """Whether the trial is recorded."""
        return self.store.get(spec) is not None


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
        trials: runs and records trials.
        proposals: the plans.
        recipe: epochs of the last rung, batch, seed and so on; its learning rate, if any, is every plan's.
        deadline: when to stop starting trials, by `time.monotonic`; the first rung tries its cheapest plans first, the
            others the most promising ones.
        progress: progress callback, with the standing of the round after every trial.
    """
    rounds = _Rounds(trials=trials, recipe=recipe, deadline=deadline, progress=progress)
    rungs = make_rungs(len(trials.shared.task.train), recipe.epochs)
    runners = sorted(proposals, key=_price)
    for rung in rungs:
        if rung.share == 1:
            rounds.run(rung, runners, try_rates=False)
            break
        late = [proposal for proposal in runners if proposal.joins_late]
        others = [proposal for proposal in runners if not proposal.joins_late]
        following = rungs[rung.number]
        if len(others) < 2:
            continue  # nothing to compare
        ranked = rounds.run(rung, others, try_rates=following.share == 1)
        if ranked:
            runners = [*_survivors(ranked, following.share), *late]
    if rounds.done and rounds.done[-1][0].rung.share < 1:
        rounds.notes.append("no plan was tried on the whole budget: the choice is among models that saw a part of it")
    final = rounds.done[-1] if rounds.done else ()
    return Race(
        rungs=tuple(rounds.done),
        baselines={name: entry.spec.id for name, entry in _baselines(final).items()},
        failed=tuple(rounds.failed),
        notes=tuple(rounds.notes),
    )


@dataclass(kw_only=True)
class _Rounds:
    """The rounds of one race, one after the other."""

    trials: Trials
    recipe: Recipe
    deadline: float | None
    progress: Progress
    factors: dict[str, float] = field(default_factory=dict)  # the better learning rate, times the usual one
    done: list[tuple[Entry, ...]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self, rung: Rung, runners: Sequence[Proposal], *, try_rates: bool) -> list[Entry]:
        """Return the entries of a round, best first."""
        asked = [(self._spec(proposal, rung, self.factors.get(_key(proposal), 1.0)), proposal) for proposal in runners]
        entries = self._enter(asked, rung, total=len(runners))
        if try_rates and self.recipe.learning_rate is None and entries:
            entries = self._with_other_rates(entries, rung)
        ranked = _ranked(entries)
        if ranked:
            self.done.append(tuple(ranked))
        return ranked

    def _enter(self, asked: Sequence[tuple[TrialSpec, Proposal]], rung: Rung, *, total: int) -> list[Entry]:
        """Return the entries of trials, in the order of the trials whenever they finish; failed ones have none."""
        results: dict[str, TrialResult] = {}
        started = 0

        def specs() -> Iterator[TrialSpec]:
            nonlocal started
            for spec, _ in asked:
                has_some = self.done or any(result.status == "done" for result in results.values())
                is_running = started > len(results)
                if self._is_over() and (has_some or is_running) and not self.trials.knows(spec):
                    self.notes.append(f"time is up: round {rung.number} tried {started} of {total} plans")
                    return
                started += 1
                yield spec

        keep = rung.share == 1 or self.deadline is not None
        for spec, result in self.trials.run(specs(), keep=keep):
            results[spec.id] = result
            standing = self._entries(asked, results, rung)
            self._show(rung, standing, total)
        for spec, proposal in asked:
            if spec.id in results and results[spec.id].status == "failed":
                reason = results[spec.id].reason
                self.failed.append(f"{proposal.plan.name} at {spec.recipe.learning_rate:g}: {reason}")
        return self._entries(asked, results, rung)

    def _entries(
        self, asked: Sequence[tuple[TrialSpec, Proposal]], results: Mapping[str, TrialResult], rung: Rung
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
            for spec, proposal in asked
            if spec.id in results and results[spec.id].status == "done"
        ]

    def _with_other_rates(self, entries: list[Entry], rung: Rung) -> list[Entry]:
        """Return the entries after the best of them has tried other learning rates, and kept one if it was better."""
        best = _ranked(entries)[0]
        for factor in _OTHER_RATES:
            spec = self._spec(best.proposal, rung, factor)
            if self._is_over() and not self.trials.knows(spec):
                break
            for tried in self._enter([(spec, best.proposal)], rung, total=len(entries)):
                if is_better := tried.value > best.value:
                    self.factors[_key(best.proposal)] = factor
                both = replace(tried if is_better else best, seconds=tried.seconds + best.seconds)
                entries = [both if entry is best else entry for entry in entries]
                best = both
        return entries

    def _spec(self, proposal: Proposal, rung: Rung, factor: float) -> TrialSpec:
        return trial_of(self.trials.shared, proposal.plan, rung, self.recipe, factor)

    def _is_over(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _show(self, rung: Rung, entries: Sequence[Entry], total: int) -> None:
        ranked = _ranked(entries)
        metric = METRICS[self.trials.shared.task.metrics[0]]
        table = race_table([one.record for one in ranked], [one.proposal for one in ranked], metric)
        title = f"round {rung.number}: {len(entries)} of {total} plans, {rung.train_rows:,} rows, {rung.epochs} epochs"
        detail = f"round {rung.number}"
        standing = replace(table.without("learning rate", "because"), title=title)
        self.progress(Step(stage="race", detail=detail, done=len(entries), total=total, table=standing))


def trial_of(shared: SharedInputs, plan: Plan, rung: Rung, recipe: Recipe, factor: float = 1.0) -> TrialSpec:
    """Return the trial of a plan in a round.

    Args:
        shared: the encoder and the task.
        plan: what trains.
        rung: rows and epochs.
        recipe: everything else.
        factor: times the plan's usual learning rate, unless the recipe has one.
    """
    rate = recipe.learning_rate or factor * rung.rate * learning_rate_for(plan, shared.encoder.width)
    epochs = epochs_for(plan, rung.epochs)
    return make_spec(shared, plan, replace(recipe, learning_rate=rate, epochs=epochs), train_rows=rung.train_rows)


def _key(proposal: Proposal) -> str:
    return str(proposal.plan.identity())


def _ranked(entries: Sequence[Entry]) -> list[Entry]:
    """The best first; of equals the cheaper one."""
    return sorted(entries, key=lambda entry: (-entry.value, _price(entry.proposal)))


def _survivors(ranked: Sequence[Entry], share: float) -> list[Proposal]:
    """The plans that go on: the best quarter, and of each kind of baseline the best."""
    is_only_round = share == 1 and ranked[0].rung.number == 1
    count = 1 if is_only_round else _IN_FINAL if share == 1 else max(_IN_FINAL + 1, -(-len(ranked) // _KEPT))
    chosen = [entry.proposal for entry in ranked[:count]]
    for entry in _baselines(ranked).values():
        if entry.proposal not in chosen:
            chosen.append(entry.proposal)
    return chosen


def _baselines(ranked: Sequence[Entry]) -> dict[str, Entry]:
    """The best entry of each kind of baseline."""
    kinds = {name: [entry for entry in ranked if name in entry.proposal.baselines] for name in baseline_names()}
    return {name: entries[0] for name, entries in kinds.items() if entries}


def _price(proposal: Proposal) -> float:
    return proposal.cost.price
