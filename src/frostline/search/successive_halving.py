"""The race: many plans in, a few thoroughly tried ones out.

Successive halving: all plans train on a small budget, the better ones on three times as much, and the best on all of
it. A budget is a number of training rows and epochs with a complete schedule of its own, so that what is compared is
always a finished model. The simple baselines stay in to the end, as what the choice is compared with. Plans that join
late (full fine-tuning, the most expensive, and the middle layers, which learn late) are in the last round whatever they
would do in the others, and so do not run there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from frostline.plans.learning_rates import typical_epochs, typical_rate
from frostline.records import Recipe, TrialResult, TrialSpec
from frostline.search.proposals import Proposal, baseline_names
from frostline.tasks.metrics import METRICS
from frostline.trials.in_process import InProcess, make_spec

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
    def name(self) -> str:
        """How tables call it."""
        return self.proposal.name


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


Tell = Callable[[Rung, Sequence[Entry], int], None]  # the rung, its entries so far, how many there will be


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


def race(
    executor: InProcess,
    proposals: Sequence[Proposal],
    recipe: Recipe,
    *,
    deadline: float | None = None,
    tell: Tell | None = None,
) -> Race:
    """Race plans on a task; trials that are in the store are not run again.

    Args:
        executor: runs trials, and has the workshop and the store.
        proposals: the plans.
        recipe: epochs of the last rung, batch, seed and so on; its learning rate, if any, is every plan's.
        deadline: when to stop starting trials, by `time.monotonic`; the first rung tries its cheapest plans first, the
            others the most promising ones.
        tell: told after every trial.
    """
    rounds = _Rounds(executor=executor, recipe=recipe, deadline=deadline, tell=tell)
    rungs = make_rungs(len(executor.workshop.task.train), recipe.epochs)
    runners = sorted(proposals, key=_price)
    for rung in rungs:
        if rung.share == 1:
            rounds.run(rung, runners, try_rates=False)
            break
        late = [one for one in runners if one.joins_late]
        others = [one for one in runners if not one.joins_late]
        is_last_but_one = rungs[rung.number].share == 1
        if len(others) < 2:
            continue  # nothing to compare
        ranked = rounds.run(rung, others, try_rates=is_last_but_one)
        if ranked:
            runners = [*_survivors(ranked, rungs[rung.number].share), *late]
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

    executor: InProcess
    recipe: Recipe
    deadline: float | None
    tell: Tell | None
    factors: dict[str, float] = field(default_factory=dict)  # the better learning rate, times the usual one
    done: list[tuple[Entry, ...]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self, rung: Rung, runners: Sequence[Proposal], *, try_rates: bool) -> list[Entry]:
        """The entries of a round, best first."""
        entries: list[Entry] = []
        for runner in runners:
            factor = self.factors.get(_key(runner), 1.0)
            is_free = self.executor.knows(trial_of(self.executor, runner, rung, self.recipe, factor))
            if self._is_over() and (entries or self.done) and not is_free:
                self.notes.append(f"time is up: round {rung.number} tried {len(entries)} of {len(runners)} plans")
                break
            entries += self._enter(runner, rung, factor)
            self._tell(rung, entries, len(runners))
        if try_rates and self.recipe.learning_rate is None:
            for entry in _ranked(entries)[:1]:
                for factor in _OTHER_RATES:
                    spec = trial_of(self.executor, entry.proposal, rung, self.recipe, factor)
                    if self._is_over() and not self.executor.knows(spec):
                        break
                    entries = self._with_other_rate(entries, entry, rung, factor)
                    self._tell(rung, entries, len(runners))
        ranked = _ranked(entries)
        if ranked:
            self.done.append(tuple(ranked))
        return ranked

    def _with_other_rate(self, entries: list[Entry], entry: Entry, rung: Rung, factor: float) -> list[Entry]:
        """The entries after one of them has tried another learning rate, and kept it if it was better."""
        for tried in self._enter(entry.proposal, rung, factor):
            if is_better := tried.value > entry.value:
                self.factors[_key(entry.proposal)] = factor
            both = replace(tried if is_better else entry, seconds=tried.seconds + entry.seconds)
            return [*(one for one in entries if one is not entry), both]
        return entries

    def _enter(self, proposal: Proposal, rung: Rung, factor: float) -> list[Entry]:
        """A plan's trial; nothing where it has failed."""
        metric = METRICS[self.executor.workshop.task.metrics[0]]
        spec = trial_of(self.executor, proposal, rung, self.recipe, factor)
        (result,) = self.executor.run([spec], keep=rung.share == 1 or self.deadline is not None)
        if result.status == "failed":
            self.failed.append(f"{proposal.plan} at {spec.recipe.learning_rate:g}: {result.reason}")
            return []
        value = result.metrics["validation"][metric.name] * (1 if metric.higher_is_better else -1)
        seconds = sum(result.seconds.values())
        return [Entry(proposal=proposal, rung=rung, spec=spec, result=result, value=value, seconds=seconds)]

    def _is_over(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _tell(self, rung: Rung, entries: Sequence[Entry], total: int) -> None:
        if self.tell is not None:
            self.tell(rung, _ranked(entries), total)


def trial_of(executor: InProcess, proposal: Proposal, rung: Rung, recipe: Recipe, factor: float = 1.0) -> TrialSpec:
    """The trial of a plan in a round.

    Args:
        executor: has the workshop.
        proposal: the plan.
        rung: rows and epochs.
        recipe: everything else.
        factor: times the plan's usual learning rate, unless the recipe has one.
    """
    workshop, plan = executor.workshop, proposal.plan
    rate = recipe.learning_rate or factor * rung.rate * typical_rate(plan, workshop.encoder.width)
    epochs = typical_epochs(plan, rung.epochs)
    return make_spec(workshop, plan, replace(recipe, learning_rate=rate, epochs=epochs), train_rows=rung.train_rows)


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
