"""The race: a few promising plans in, the best of them trained until more steps bring nothing.

Every plan trains on the averaged schedule, on which a longer trial continues a shorter one. In a round all plans have
the same compute, so that cheap ones take more steps. The two best of the first round train twice as long. The best of
them tries other learning rates, and then trains as a soup, the mean of several models that see the rows in other
orders, twice as long, again and again, until it has converged or the other plan looks better. The best is the one that
is expected to be, from the validation rows and from how plans do on most tasks. Full fine-tuning, the most expensive
plan, has a race of its own at the end, as a proof.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal

from frostline.plans.learning_rates import SOUP, head_rate_for, learning_rate_for
from frostline.plans.lengths import (
    FIRST_STEPS,
    LEAST_STEPS,
    LEAST_STEPS_OF_SOUP,
    fold_steps,
    is_converged,
    round_steps,
    steps_for,
)
from frostline.progress import Progress, Step, silent
from frostline.records import Proposal, Recipe, TrialResult, TrialSpec
from frostline.records.difference import Difference
from frostline.search.entries import Entry, Race, ranked
from frostline.search.limits import step_seconds
from frostline.search.prior import expected_difference
from frostline.search.tables import race_table
from frostline.search.trials import Trials
from frostline.tasks.metrics import METRICS
from frostline.training.solving import LEFT_OUT

FINALISTS = 2
OTHER_RATES = (0.5, 2.0)  # factors of a plan's usual learning rate
_WORTH = 0.5  # points of the metric that twice as many steps have to bring
_CHANGED = 0.05  # share of validation rows whose prediction changes, rightly or wrongly, while the steps double
_WORTH_OF_UNITS = 0.01  # the same for a metric in its own units, as a share of its value
_POINT_OF_UNITS = 0.01  # a point of the prior, for a metric in its own units, as a share of its value

Part = Literal["race", "proof"]


def race(
    trials: Trials,
    proposals: Sequence[Proposal],
    recipe: Recipe,
    *,
    most_steps: int | None = None,
    deadline: float | None = None,
    part: Part = "race",
    favourite: str | None = None,
    progress: Progress = silent,
) -> Iterator[Race]:
    """Yield the race after its first model, after each round, and at its end.

    Args:
        trials: encoder, task, store and executor.
        proposals: the plans; however little time there is, the cheapest of them is tried.
        recipe: batch, threads, seed and the like; a learning rate in it is the only one that is tried.
        most_steps: most steps of a plan that tunes layers; None to train until plans have converged.
        deadline: time.monotonic() after which no trial is started once a plan has been tried.
        part: 'proof' for the race of full fine-tuning.
        favourite: identity of the plan that does best on most tasks; None to trust the validation rows alone.
        progress: progress callback.
    """
    rounds = _Rounds(trials=trials, recipe=recipe, deadline=deadline, part=part, favourite=favourite, progress=progress)
    runners = sorted(proposals, key=lambda proposal: proposal.cost.price)
    classes = trials.shared.task.outputs
    first, *longer = round_steps(rounds.steps_per_epoch, classes=classes, most=most_steps)
    if trials.folds is not None:
        first, longer = fold_steps(rounds.steps_per_epoch, most=most_steps), []
    rounds.first, rounds.most = first, max([first, *longer])
    heads = [proposal for proposal in runners if not proposal.plan.layers]
    tuned = [proposal for proposal in runners if proposal.plan.layers]
    rounds.set_compute(tuned)
    best_heads = rounds.best_head(rounds.try_all(heads, first))
    if best_heads and tuned:
        yield rounds.so_far(best_heads)
    entries = rounds.try_all(tuned, first)
    if part == "proof" and trials.folds is None:
        entries = [rounds.at_best_rate(entry) for entry in entries]
    levels = [(steps, False) for steps in longer]
    if part == "race":
        levels = [*levels[:1], *((steps, True) for steps in longer)]
    for number, (steps, as_soup) in enumerate(levels):
        yield rounds.so_far([*entries, *best_heads])
        rounds.close([*entries, *best_heads])
        if number == 0:  # later the best has had more compute than the other
            entries = rounds.still_winning(entries, FINALISTS)
        before = [entry.spec.id for entry in (*entries, *best_heads)]
        racing, waiting = (entries[:1], entries[1:]) if as_soup else (entries, [])
        entries = rounds.ranked([*rounds.train_on(racing, steps, as_soup=as_soup), *waiting])
        best_heads = rounds.train_on(best_heads, steps)
        if {entry.spec.id for entry in (*entries, *best_heads)} <= set(before):
            del rounds.done[-1:]  # all have converged, or there is no time left
            break
    last = [*(entries if levels else rounds.still_winning(entries, FINALISTS)), *best_heads]
    if len(last) < len(entries) + len(best_heads):
        rounds.close([*entries, *best_heads])
    yield rounds.so_far(last)


@dataclass(kw_only=True)
class _Rounds:
    """The rounds of one race."""

    trials: Trials
    recipe: Recipe
    deadline: float | None
    part: Part
    favourite: str | None
    progress: Progress
    done: list[tuple[Entry, ...]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # of trials that others have replaced, by plan
    single: set[str] = field(default_factory=set)  # plans whose soup failed
    first: int = FIRST_STEPS  # steps of the first round
    most: int = FIRST_STEPS  # steps of the last one
    compute: float = 1.0  # FLOPs of a step of the most expensive plan
    has_result: bool = False  # whether any trial has succeeded

    @property
    def are_heads_solved(self) -> bool:
        """Whether heads alone are fitted to the optimum instead of trained."""
        return self.trials.shared.task.kind != "multiple choice" and self.recipe.learning_rate is None

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps of one pass over the training rows."""
        return ceil(self.trials.rows / (self.recipe.batch * self.recipe.accumulate))

    def set_compute(self, proposals: Sequence[Proposal]) -> None:
        """Give every plan the compute that the most expensive of these needs."""
        self.compute = max((proposal.cost.epoch_flops for proposal in proposals), default=1.0)

    def so_far(self, entries: Sequence[Entry]) -> Race:
        """Return the race as it is now, with these plans as its last round."""
        current = tuple(self.ranked(entries))
        unfinished = [
            f"{entry.proposal.plan.name} was still improving after {entry.spec.recipe.steps:,} steps, and may be "
            "better than its score; `epochs` limits training"
            for entry in current
            if not entry.is_converged
        ]
        return Race(
            rounds=(*self.done, current) if current else tuple(self.done),
            failed=tuple(self.failed),
            notes=(*self.notes, *unfinished),
        )

    def close(self, entries: Sequence[Entry]) -> None:
        """Keep what a round has shown."""
        if entries:
            self.done.append(tuple(self.ranked(entries)))

    def try_all(self, proposals: Sequence[Proposal], steps: int) -> list[Entry]:
        """Return every plan at its usual learning rate after a few steps, the best first."""
        return self.ranked(self._enter([(self._spec(plan, steps), plan) for plan in proposals]))

    def ranked(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries with the best first, as the validation rows and the prior let expect."""
        usual = next((entry for entry in entries if entry.identity == self.favourite), None)
        return ranked(entries if usual is None else [self._expected(entry, usual) for entry in entries])

    def _expected(self, entry: Entry, usual: Entry) -> Entry:
        """Return an entry with what is expected of it next to the favourite."""
        metric = METRICS[self.trials.shared.task.metrics[0]]
        point = 1.0 if metric.points == 100 else _POINT_OF_UNITS * abs(usual.value)
        if entry is usual or point == 0:
            return replace(entry, expected=entry.value)
        is_early = self.trials.folds is None and min(entry.steps, usual.steps) < LEAST_STEPS
        gain = expected_difference(self._difference(entry, usual), point=point, is_early=is_early)
        return replace(entry, expected=usual.value + gain / metric.points)

    def at_best_rate(self, entry: Entry) -> Entry:
        """Return a plan at the best of several learning rates, by the loss after the steps of the first round."""
        if self.recipe.learning_rate is not None:
            return entry
        usual = entry.spec.recipe.learning_rate or 0.0
        specs = [self._spec(entry.proposal, self.first, float(f"{factor * usual:.3g}")) for factor in OTHER_RATES]
        others = self._enter([(spec, entry.proposal) for spec in specs])

        def early_loss(each: Entry) -> float:
            """The loss tells rates apart that a metric on few rows cannot."""
            steps = specs[0].recipe.steps or 0
            return min(float(one["validation_loss"]) for one in each.result.history if one["step"] <= steps)

        chosen = min([entry, *others], key=early_loss)
        rest = [each for each in (entry, *others) if each is not chosen]
        self.seconds[entry.identity] = sum(each.seconds for each in rest)
        self.trials.forget(each.spec for each in rest)
        return replace(chosen, seconds=chosen.seconds + self.seconds[entry.identity])

    def best_head(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the head alone with the lowest loss, of solved ones on all training rows by cross-validation."""
        if not entries:
            return []
        best = min(entries, key=lambda entry: float(entry.result.history[-1].get(LEFT_OUT, entry.loss)))
        self.close(entries)
        self.trials.forget(entry.spec for entry in entries if entry is not best)
        return [best]

    def still_winning(self, entries: Sequence[Entry], most: int) -> list[Entry]:
        """Return the plans that are not shown to be worse than the best of them, the best first, and no more than this.

        Args:
            entries: plans that have had as much compute as each other.
            most: the largest number of them.
        """
        best_first = self.ranked(entries)
        kept = [entry for entry in best_first if entry is best_first[0] or self._may_win(entry, best_first[0])][:most]
        self.trials.forget(entry.spec for entry in entries if entry not in kept)
        return kept

    def _may_win(self, entry: Entry, best: Entry) -> bool:
        return self._difference(entry, best).high >= 0

    def _difference(self, entry: Entry, other: Entry) -> Difference:
        """Return how much better one plan is than another on the rows that they are judged on."""
        return self.trials.judging.difference(entry.result, other.result)

    def train_on(self, entries: Sequence[Entry], steps: int, *, as_soup: bool = False) -> list[Entry]:
        """Return the plans after longer trials, except those that have converged."""
        longer = self._as_soup if as_soup else self._as_one_model
        return self.ranked([entry if entry.is_converged else longer(entry, steps) for entry in entries])

    def _as_one_model(self, entry: Entry, steps: int) -> Entry:
        """Return a plan after a longer trial; as it was if that fails, or there is no time for it."""
        spec = self._spec(entry.proposal, steps, entry.spec.recipe.learning_rate)
        longer = self._enter([(spec, entry.proposal)])
        return longer[0] if longer else entry

    def _as_soup(self, entry: Entry, steps: int) -> Entry:
        """Return a plan after a longer trial as a soup at its best rate, or as one model if that is better."""
        is_first = entry.spec.recipe.soup is None
        if entry.identity in self.single or not entry.proposal.plan.layers:
            # Its first trial as one model had twice the steps of the soup that failed, and it stays ahead by that.
            return self._as_one_model(entry, min(2 * steps, self.most))
        before, failed = self.at_best_rate(entry) if is_first else entry, len(self.failed)
        spec = self._spec(entry.proposal, steps, before.spec.recipe.learning_rate, SOUP)
        soups = self._enter([(spec, entry.proposal)])
        if soups and not is_first:
            return soups[0]
        if soups and self._may_win(soups[0], entry):
            self.seconds[entry.identity] = before.seconds
            self.trials.forget([before.spec])
            return replace(soups[0], seconds=soups[0].seconds + before.seconds)
        if not is_first or (not soups and len(self.failed) == failed):
            return before  # a longer soup has failed, or there is no time left
        self.single.add(entry.identity)
        return self._as_one_model(before, min(2 * steps, self.most))

    def _spec(
        self,
        proposal: Proposal,
        steps: int,
        rate: float | None = None,
        soup: tuple[float, ...] | None = None,
    ) -> TrialSpec:
        plan, width = proposal.plan, self.trials.shared.encoder.width
        if self.are_heads_solved and not plan.layers:
            rate = learning_rate_for(plan, width)  # not used, but part of every recipe
            return self.trials.spec(
                plan, replace(self.recipe, schedule="solved", steps=None, epochs=1, learning_rate=rate)
            )
        ratio = self.compute / max(1.0, proposal.cost.epoch_flops) if self.trials.folds is None else 1.0
        own = steps_for(plan, steps, ratio)
        recipe = replace(
            self.recipe,
            schedule="averaged",
            steps=own,
            epochs=1,
            learning_rate=rate or self.recipe.learning_rate or learning_rate_for(plan, width),
            head_rate=(self.recipe.head_rate or head_rate_for(width)) if plan.layers else None,
            soup=soup,
        )
        return self.trials.spec(plan, recipe)

    def _enter(self, planned: Sequence[tuple[TrialSpec, Proposal]]) -> list[Entry]:
        """Return one entry for each trial that did not fail, in the order of the trials."""
        results: dict[str, TrialResult] = {}
        started = 0

        def specs() -> Iterator[TrialSpec]:
            nonlocal started
            for spec, proposal in planned:
                if (self.has_result or started > len(results)) and self._is_too_late(spec, proposal):
                    self.notes.append(f"time limit reached: {started} of {len(planned)} trials of the last round ran")
                    return
                started += 1
                yield spec

        for spec, result in self.trials.run(specs()):
            results[spec.id] = result
            self.has_result |= result.status == "done"
            self._show(self._entries(planned, results), len(planned))
        for spec, proposal in planned:
            if spec.id in results and results[spec.id].status == "failed":
                rate = "" if spec.recipe.learning_rate is None else f" at {spec.recipe.learning_rate:g}"
                self.failed.append(f"{proposal.plan.name}{rate}: {results[spec.id].reason}")
        return self._entries(planned, results)

    def _entries(
        self, planned: Iterable[tuple[TrialSpec, Proposal]], results: Mapping[str, TrialResult]
    ) -> list[Entry]:
        return [
            self._entry(spec, proposal, results[spec.id])
            for spec, proposal in planned
            if spec.id in results and results[spec.id].status == "done"
        ]

    def _entry(self, spec: TrialSpec, proposal: Proposal, result: TrialResult) -> Entry:
        metric = METRICS[self.trials.shared.task.metrics[0]]
        value = result.metrics["validation"][metric.name]
        worth = _WORTH_OF_UNITS * abs(value)
        if metric.points == 100:  # or one standard error of a gain, where few rows make that larger
            worth = max(_WORTH / metric.points, (_CHANGED / len(result.predictions["validation"])) ** 0.5)
        worth *= len(spec.recipe.soup or (1,))  # more steps of a soup cost as many times as much
        least = LEAST_STEPS if spec.recipe.soup is None else LEAST_STEPS_OF_SOUP
        return Entry(
            proposal=proposal,
            spec=spec,
            result=result,
            value=metric.signed(value),
            expected=metric.signed(value),
            loss=min(float(step["validation_loss"]) for step in result.history),
            seconds=sum(result.seconds.values()) + self.seconds.get(str(proposal.plan.identity()), 0.0),
            is_converged=spec.recipe.schedule == "solved"
            or self.trials.folds is not None
            or is_converged(result.history, metric.name, gain=round(metric.signed(1)), worth=worth, least=least),
            rows=self.trials.rows,
        )

    def _is_too_late(self, spec: TrialSpec, proposal: Proposal) -> bool:
        """Whether the trial would end after the deadline, and is not recorded."""
        if self.deadline is None or self.trials.store.get(spec) is not None:
            return False
        continues = spec.recipe.soup is None or (spec.recipe.steps or 0) > 2 * FIRST_STEPS
        share = self.trials.folds or (
            0.5 if continues else 1
        )  # a longer trial continues one of half, a fold starts anew
        expected = step_seconds(proposal.cost) * (spec.recipe.steps or 0) * len(spec.recipe.soup or (1,)) * share
        return time.monotonic() + expected > self.deadline

    def _show(self, entries: Sequence[Entry], total: int) -> None:
        number = len(self.done) + 1
        best_first = self.ranked(entries)
        metric = METRICS[self.trials.shared.task.metrics[0]]
        table = race_table([entry.record for entry in best_first], [entry.proposal for entry in best_first], metric)
        title = f"{self.part}, round {number}: {len(entries)} of {total} trials"
        ranking = replace(table, title=title)
        self.progress(Step(stage=self.part, detail=f"round {number}", done=len(entries), total=total, table=ranking))
