"""The race: its rounds, who goes on, which learning rates are tried, deadlines, and the same table every time.

Most tests let a script say how good each trial is; the last ones train.
"""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.search.race_tools import made_up_proposal, save_shallow, write_rows

from frostline.encoders.loading import load_encoder
from frostline.plans.learning_rates import SOUP, head_rate_for, learning_rate_for
from frostline.plans.lengths import marks
from frostline.records import EncoderRef, Plan, Recipe, TrialResult
from frostline.search.judging import Judging
from frostline.search.race import race
from frostline.search.trials import Trials
from frostline.tasks import Split, Task, load_task
from frostline.training.shared_inputs import SharedInputs
from frostline.trials import run_trial as trials
from frostline.trials.context import Context, Materials
from frostline.trials.executors import Here
from frostline.trials.results import make_spec
from frostline.trials.store import Store

DEPTH, WIDTH, ROWS = 12, 32, 400


# A scripted race -----------------------------------------------------------------------------------------------------


class Scripted:
    """Trials of which a script says how good each is after a number of steps, or why it fails."""

    def __init__(self, value, *, metric="accuracy", loss=None, folds=None):
        labels = (0.0, 1.0) * (ROWS // 2) if metric == "mse" else (0, 1) * (ROWS // 2)
        split = Split(texts=("ice",) * ROWS, labels=labels, rows=tuple(range(1, ROWS + 1)))
        kind = "regression" if metric == "mse" else "classification"
        task = Task(
            name="scripted", kind=kind, label_names=() if metric == "mse" else ("no", "yes"), train=split,
            validation=split, test=None, metrics=(metric,), source="a test",
        )  # fmt: skip
        ref = EncoderRef(name="scripted", revision="1")
        encoder = SimpleNamespace(name="scripted", revision="1", width=WIDTH, depth=DEPTH, ref=ref)
        self.shared = SimpleNamespace(encoder=encoder, task=task)
        self.value, self.metric, self.loss = value, metric, loss or (lambda spec, step: 1 - value(spec, step))
        self.ran, self.forgotten, self.recorded = [], [], set()
        self.store = SimpleNamespace(get=lambda spec: spec if spec.id in self.recorded else None)
        self.rows, self.folds, self.judging = ROWS, folds, Judging(task)

    def spec(self, plan, recipe):
        return make_spec(self.shared, plan, recipe)

    def run(self, specs):
        for spec in specs:
            self.ran.append(spec)
            yield spec, self._result(spec)

    def forget(self, specs):
        self.forgotten += [spec.id for spec in specs]

    def _result(self, spec):
        last = spec.recipe.steps or 1  # a solved head has no steps
        if isinstance(reason := self.value(spec, last), str):
            return TrialResult(status="failed", reason=reason)
        steps = [mark for mark in (40, 80, 160, 320, 640, 1280, 2560) if mark < last]
        history = tuple(
            {
                "step": step,
                f"validation_{self.metric}": self.value(spec, step),
                "validation_loss": self.loss(spec, step),
            }
            for step in (*steps, last)
        )
        best = (min if self.metric == "mse" else max)(step[f"validation_{self.metric}"] for step in history)
        right = round(best * ROWS) if self.metric == "accuracy" else 0
        labels = self.shared.task.validation.labels
        guesses = tuple(label if row < right else 1 - label for row, label in enumerate(labels))
        return TrialResult(
            status="done",
            metrics={"validation": {self.metric: best}},
            history=history,
            predictions={"validation": guesses},
            seconds={"training": 1.5},
        )


def single(layer, *, price=None):
    """The plan that tunes one layer; the higher, the cheaper."""
    return made_up_proposal(Plan.span(layer, layer, DEPTH), "one layer", price=price or 100 - layer)


FULL = made_up_proposal(Plan.full(DEPTH), "full", baseline="full fine-tuning", joins_late=True, price=1000)
HEADS = [made_up_proposal(Plan(layers=(), head=at), "head only", baseline="the head only", price=at / 10)
         for at in (6, 12)]  # fmt: skip
SINGLES = [single(layer) for layer in range(1, 6)]


def by_layer(spec, step):
    """The lowest tuned layer is the best one, by a little; heads are bad, and nothing improves after 80 steps."""
    return (0.9 - spec.plan.layers[0] / 400 if spec.plan.layers else 0.3) - (0.05 if step < 80 else 0)


def raced(script, proposals, recipe=None, **more):
    """All states of a race."""
    return list(race(script, proposals, recipe or Recipe(threads=1), **more))


def plans_of(entries):
    return [entry.proposal.plan for entry in entries]


def is_at(spec, steps):
    return spec.recipe.steps == steps and spec.plan.layers


def steps_of(script, plan):
    return [spec.recipe.steps for spec in script.ran if spec.plan == plan]


def usual(spec):
    return round(spec.recipe.learning_rate / learning_rate_for(spec.plan, WIDTH), 3)


def test_the_first_model_is_the_best_head_and_each_state_has_all_rounds_so_far():
    script = Scripted(by_layer, loss=lambda spec, step: 0.1 if spec.plan.head == 12 else 0.2)
    states = raced(script, [*SINGLES, *HEADS])
    assert plans_of(states[0].final) == [HEADS[1].plan]
    assert {plan.head for plan in plans_of(states[0].rounds[0])} == {6, 12}
    assert [len(state.rounds) for state in states] == [2, 2, 3, 4, 5, 5]
    assert plans_of(states[1].final)[:5] == plans_of(SINGLES_AS_ENTRIES)
    assert states[-1].rounds[:3] == states[3].rounds[:3]


SINGLES_AS_ENTRIES = [SimpleNamespace(proposal=one) for one in SINGLES]


def test_two_plans_train_on_and_then_the_better_one():
    script = Scripted(by_layer)
    *_, last = raced(script, [*SINGLES, *HEADS])
    trained = [[spec for spec in script.ran if is_at(spec, steps)] for steps in (40, 80, 160)]
    assert [len({str(spec.plan) for spec in specs}) for specs in trained] == [5, 2, 1]
    assert plans_of(last.final) == [SINGLES[0].plan, SINGLES[1].plan, HEADS[0].plan]
    assert max(spec.recipe.steps for spec in script.ran if spec.plan.layers) == 160  # after which nothing has improved


def test_a_plan_that_is_shown_to_be_worse_does_not_train_on():
    script = Scripted(lambda spec, step: 0.9 if spec.plan.layers == (5,) else 0.7)
    *_, last = raced(script, SINGLES)
    assert plans_of(last.final) == [SINGLES[4].plan]
    assert steps_of(script, SINGLES[0].plan) == [40]


def test_plans_train_as_long_as_they_improve_by_more_than_chance():
    script = Scripted(lambda spec, step: 0.5 + 0.0004 * min(step, 160))
    *_, last = raced(script, SINGLES[:1])
    assert steps_of(script, SINGLES[0].plan)[-3:] == [80, 160, 320]
    assert [entry.is_converged for entry in last.final] == [True]
    assert last.notes == ()


@pytest.mark.parametrize(("gain", "longest"), [(0.022, 80), (0.023, 160)])
def test_a_gain_below_one_standard_error_for_each_model_of_a_soup_is_not_worth_more_steps(gain, longest):
    script = Scripted(lambda spec, step: 0.5 + gain * (step >= 80), loss=lambda spec, step: 0.5)
    raced(script, SINGLES[:1])  # with 400 rows, of which one in twenty changes, the error is 0.0112
    assert max(steps_of(script, SINGLES[0].plan)) == longest


def test_a_plan_that_still_improves_at_the_end_is_said_to():
    script = Scripted(lambda spec, step: 0.5 + 0.0004 * step)
    *_, last = raced(script, SINGLES[:1], most_steps=320)
    assert max(steps_of(script, SINGLES[0].plan)) == 320
    assert last.notes == (
        "(1, 1, 12) was still improving after 320 steps, and may be better than its score; `epochs` limits training",
    )


def test_every_plan_of_a_round_has_the_same_compute():
    half = made_up_proposal(Plan.span(6, 6, 6), "short", price=1)
    half = replace(half, cost=replace(half.cost, epoch_flops=50.0))
    whole = replace(SINGLES[0], cost=replace(SINGLES[0].cost, epoch_flops=100.0))
    script = Scripted(by_layer)
    raced(script, [half, whole, *HEADS])
    assert min(steps_of(script, half.plan)) == 80
    assert min(steps_of(script, whole.plan)) == 40
    assert steps_of(script, HEADS[0].plan) == [None]  # solved


def test_a_plan_that_stopped_early_is_no_baseline():
    first_layer, last_layers = (
        replace(one, baselines=(name,))
        for one, name in zip(SINGLES[:2], ("the middle layers", "the last layers"), strict=True)
    )
    script = Scripted(by_layer)
    *_, last = raced(script, [first_layer, last_layers, *HEADS])
    assert plans_of(last.final) == [first_layer.plan, last_layers.plan, HEADS[0].plan]
    assert set(last.baselines) == {"the middle layers", "the head only"}
    *_, last = raced(Scripted(by_layer), [first_layer, last_layers, *HEADS], most_steps=40)
    assert set(last.baselines) == {"the middle layers", "the last layers", "the head only"}


def test_a_plan_that_overfits_does_not_train_on_whatever_its_score():
    script = Scripted(lambda spec, step: 0.5 + 0.001 * step, loss=lambda spec, step: 0.5 + 0.2 * (step > 40))
    raced(script, SINGLES[:1])
    assert max(steps_of(script, SINGLES[0].plan)) == 80


@pytest.mark.parametrize(("lead", "is_overtaken"), [(0.01, False), (0.10, True)])
def test_a_plan_has_to_lead_by_more_than_chance_to_overtake_the_favourite(lead, is_overtaken):
    usual, other = SINGLES[3].plan, SINGLES[0].plan
    script = Scripted(lambda spec, step: 0.7 + lead * (spec.plan == other))
    favourite = str(usual.identity())
    *_, last = raced(script, [SINGLES[0], SINGLES[3]], favourite=favourite)
    assert plans_of(last.final)[0] == (other if is_overtaken else usual)
    assert max(steps_of(script, usual)) == (40 if is_overtaken else 80)
    *_, last = raced(Scripted(script.value), [SINGLES[0], SINGLES[3]])
    assert plans_of(last.final)[0] == other


def test_where_less_is_better_the_plan_with_the_lowest_value_wins():
    script = Scripted(lambda spec, step: 0.1 + spec.plan.layers[0] / 100, metric="mse", loss=lambda spec, step: 1.0)
    *_, last = raced(script, SINGLES[::-1])
    assert plans_of(last.final)[0] == SINGLES[0].plan
    assert last.final[0].value == pytest.approx(-0.11)


def test_of_equally_good_plans_the_cheaper_ones_go_on():
    script = Scripted(lambda spec, step: 0.5)
    *_, last = raced(script, SINGLES, Recipe(learning_rate=1e-3))
    assert plans_of(last.final) == [SINGLES[4].plan, SINGLES[3].plan]


def test_trials_share_seed_and_batch_and_train_the_head_at_its_own_rate():
    script = Scripted(by_layer)
    raced(script, [*SINGLES, *HEADS], Recipe(seed=7, batch=16, threads=1))
    assert {(spec.recipe.seed, spec.recipe.batch) for spec in script.ran} == {(7, 16)}
    assert {(spec.recipe.schedule, bool(spec.plan.layers)) for spec in script.ran} == {
        ("averaged", True), ("solved", False),
    }  # fmt: skip
    assert {spec.recipe.head_rate for spec in script.ran if spec.plan.layers} == {head_rate_for(WIDTH)}
    assert {spec.recipe.head_rate for spec in script.ran if not spec.plan.layers} == {None}  # its rate is the only one


def test_it_tells_after_every_trial_how_the_round_stands_best_first():
    steps = []
    raced(Scripted(by_layer), SINGLES[:4], Recipe(learning_rate=1e-3), progress=steps.append)
    first = [step for step in steps if step.detail == "round 1"]
    assert [(step.done, step.total) for step in first] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    values = [row["accuracy, points"] for row in first[-1].table.records()]
    assert values == sorted(values, reverse=True)


def test_the_models_of_plans_that_have_lost_are_not_kept():
    script = Scripted(by_layer)
    *_, last = raced(script, [*SINGLES, *HEADS])
    assert not {entry.spec.id for entry in last.final} & set(script.forgotten)
    lost = {spec.id for spec in script.ran if spec.plan in (SINGLES[3].plan, SINGLES[4].plan, HEADS[1].plan)}
    assert lost <= set(script.forgotten)


# Learning rates ------------------------------------------------------------------------------------------------------


def test_the_best_plan_trains_on_as_a_soup_at_the_best_of_three_rates():
    script = Scripted(by_layer, loss=lambda spec, step: 0.4 if usual(spec) == 2 else 0.5)
    *_, last = raced(script, [*SINGLES, *HEADS])
    best, first = last.final[0], SINGLES[0].plan
    assert best.spec.recipe.soup == SOUP
    assert best.record.soup == SOUP
    assert [(spec.recipe.steps, usual(spec), spec.recipe.soup) for spec in script.ran if spec.plan == first] == [
        (40, 1, None), (80, 1, None), (40, 0.5, None), (40, 2, None), (80, 2, SOUP), (160, 2, SOUP),
    ]  # fmt: skip
    assert {(usual(spec), spec.recipe.soup) for spec in script.ran if spec.plan != first} == {(1, None)}
    assert best.seconds == pytest.approx(1.5 + 3 * 1.5)  # those of the first models count


@pytest.mark.parametrize("why", ["diverged", "worse"])
def test_a_plan_whose_soup_fails_or_is_worse_trains_on_as_one_model(why):
    def value(spec, step):
        bad = "diverged" if why == "diverged" else 0.5
        return bad if spec.recipe.soup else by_layer(spec, step)

    script = Scripted(value)
    *_, last = raced(script, SINGLES, Recipe(learning_rate=1e-3))
    assert plans_of(last.final)[0] == SINGLES[0].plan
    assert [(spec.recipe.steps, bool(spec.recipe.soup)) for spec in script.ran if spec.plan == SINGLES[0].plan] == [
        (40, False), (80, False), (80, True), (160, False),
    ]  # fmt: skip
    assert len(last.failed) == (why == "diverged")


@pytest.mark.parametrize("best", [0.5, 1.0, 2.0])
def test_full_fine_tuning_tries_half_and_twice_its_rate_and_keeps_the_one_with_the_lowest_loss(best):
    script = Scripted(lambda spec, step: 0.8, loss=lambda spec, step: 0.4 if usual(spec) == best else 0.5)
    *_, last = raced(script, [FULL], part="proof")
    assert sorted(usual(spec) for spec in script.ran if spec.recipe.steps == 40) == [0.5, 1, 2]
    assert usual(last.final[0].spec) == best
    assert {spec.recipe.soup for spec in script.ran} == {None}
    assert last.final[0].seconds == pytest.approx(1.5 + 2 * 1.5)  # those of the other rates count


def test_a_rate_that_was_asked_for_is_the_only_one_that_is_tried():
    script = Scripted(by_layer)
    raced(script, [*SINGLES, *HEADS], Recipe(learning_rate=4e-4))
    assert {spec.recipe.learning_rate for spec in script.ran} == {4e-4}
    assert len({spec.id for spec in script.ran}) == len(script.ran)  # and by nobody twice


# What goes wrong -----------------------------------------------------------------------------------------------------


def test_a_trial_that_failed_is_said_and_out_of_the_race():
    lost = SINGLES[0].plan
    script = Scripted(lambda spec, step: "diverged" if spec.plan == lost else by_layer(spec, step))
    *_, last = raced(script, SINGLES)
    assert last.failed == (f"{lost} at {learning_rate_for(lost, WIDTH):g}: diverged",)
    assert all(lost not in plans_of(entries) for entries in last.rounds)


def test_another_rate_that_fails_leaves_the_usual_one():
    script = Scripted(lambda spec, step: "diverged" if usual(spec) > 1 else by_layer(spec, step))
    *_, last = raced(script, [FULL], part="proof")
    assert len(last.failed) == 1
    assert plans_of(last.final) == [FULL.plan]


def test_a_race_in_which_every_trial_fails_has_no_rounds():
    *_, last = raced(Scripted(lambda spec, step: "diverged"), SINGLES)
    assert last.rounds == ()
    assert len(last.failed) == len(SINGLES)


def test_a_deadline_in_the_past_still_tries_one_plan_the_cheapest_and_says_so():
    script = Scripted(by_layer)
    *_, last = raced(script, SINGLES, deadline=time.monotonic() - 1)
    assert [spec.plan for spec in script.ran] == [SINGLES[4].plan]
    assert plans_of(last.final) == [SINGLES[4].plan]
    assert last.notes[0] == "time limit reached: 1 of 5 trials of the last round ran"


def test_a_deadline_in_the_past_goes_on_until_a_plan_has_not_failed():
    script = Scripted(lambda spec, step: "diverged" if spec.plan.layers == (5,) else by_layer(spec, step))
    *_, last = raced(script, SINGLES, deadline=time.monotonic() - 1)
    assert plans_of(last.final) == [SINGLES[3].plan]


def test_no_trial_starts_that_would_end_after_the_deadline():
    slow = [replace(one, cost=replace(one.cost, seconds=3000.0)) for one in SINGLES]  # 1,000 seconds a step
    script = Scripted(by_layer)
    raced(script, slow, deadline=time.monotonic() + 600)
    assert len(script.ran) == 1


def test_what_is_recorded_counts_after_the_deadline_too():
    whole = Scripted(by_layer)
    *_, last = raced(whole, [*SINGLES, *HEADS])
    late = Scripted(by_layer)
    late.recorded = {spec.id for spec in whole.ran}
    *_, again = raced(late, [*SINGLES, *HEADS], deadline=time.monotonic() - 1)
    assert [plans_of(entries) for entries in again.rounds] == [plans_of(entries) for entries in last.rounds]


# Races that train ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(folder / "cache"))
        task = load_task(write_rows(folder / "rows.csv"))
        yield SharedInputs(load_encoder(save_shallow(folder / "encoder")), task)


def test_more_rows_hold_the_fewer_ones_and_every_class_in_proportion(inputs):
    labels = inputs.task.train.labels
    share = sum(labels) / len(labels)
    before: set[int] = set()
    for count in (10, 28, len(labels)):
        rows = inputs.some_rows(count, seed=0).tolist()
        assert len(set(rows)) == count
        assert before <= set(rows)
        assert abs(sum(labels[row] for row in rows) - share * count) <= 1
        before = set(rows)
    assert set(inputs.some_rows(28, seed=1).tolist()) != set(inputs.some_rows(28, seed=0).tolist())


RECIPE = Recipe(batch=16, threads=1)
MOST = 80
PROPOSALS = [
    made_up_proposal(Plan.span(2, 2, 2), "top-k:k=1", baseline="the last layers", price=2),
    made_up_proposal(Plan.span(1, 1, 1), "short", price=1),
]


def trials_of(inputs, store):
    """Trials of this process, recorded in the store."""
    folder = store.path.parent
    materials = Materials(encoders={}, tasks={}, folder=folder, kept=folder / "kept", predictions=("validation",))
    context = Context(materials=materials)
    context.shared = lambda spec: inputs
    return Trials(shared=inputs, store=store, executor=Here(context), materials=materials)


def table(found):
    """All that a race says, timings aside."""
    lines = []
    for entries in found.rounds:
        for entry in entries:
            history = [{key: value for key, value in step.items() if key != "seconds"} for step in entry.result.history]
            lines.append((entry.spec, entry.value, entry.result.predictions, entry.result.metrics, history))
    return lines, found.baselines, found.failed, found.notes


@pytest.fixture
def executed(monkeypatch):
    """Every trial that is trained, by what makes it."""
    found = []
    execute = trials.execute

    def recording(inputs, plan, recipe, *, settings):
        tuned = execute(inputs, plan, recipe, settings=settings)
        found.append((str(plan), recipe, settings.train_rows))
        return tuned

    monkeypatch.setattr(trials, "execute", recording)
    return found


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory):
    """A race from its beginning to its end, and its store."""
    with Store(tmp_path_factory.mktemp("whole") / "store.sqlite") as store:
        yield raced(trials_of(inputs, store), PROPOSALS, RECIPE, most_steps=MOST)[-1], store


def test_a_longer_trial_continues_a_shorter_one_and_is_what_it_would_have_been_alone(inputs, whole, tmp_path):
    found, _ = whole
    entry = found.final[0]
    assert entry.spec.recipe.steps == MOST
    with Store(tmp_path / "store.sqlite") as store:
        ((_, alone),) = trials_of(inputs, store).run([entry.spec])
    assert alone.predictions == entry.result.predictions
    assert [step["validation_loss"] for step in alone.history] == [
        step["validation_loss"] for step in entry.result.history
    ]
    assert [step["step"] for step in alone.history] == [mark for _, mark in zip(range(2), marks(), strict=False)]


class Stop(Exception):
    pass


def test_a_race_that_was_stopped_runs_only_what_is_missing_and_ends_with_the_same_table(
    inputs, whole, tmp_path, executed
):
    found, first = whole
    done = 0

    def stop_after_two(step):
        nonlocal done
        done += 1
        if done == 2:
            raise Stop

    with Store(tmp_path / "store.sqlite") as store:
        with pytest.raises(Stop):
            raced(trials_of(inputs, store), PROPOSALS, RECIPE, most_steps=MOST, progress=stop_after_two)
        assert len(store) == len(executed) == 2
    with Store(tmp_path / "store.sqlite") as store:
        again = raced(trials_of(inputs, store), PROPOSALS, RECIPE, most_steps=MOST)[-1]
    assert table(again) == table(found)
    assert len(executed) == len({str(trial) for trial in executed}) == len(first)  # none twice, none left out


def test_a_finished_race_is_read_from_its_store_without_training(inputs, whole, executed):
    found, store = whole
    assert table(raced(trials_of(inputs, store), PROPOSALS, RECIPE, most_steps=MOST)[-1]) == table(found)
    assert executed == []
