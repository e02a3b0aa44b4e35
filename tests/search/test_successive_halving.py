"""The race: its rounds, who goes on, which learning rates are tried, deadlines, and the same table every time.

Most tests let a script say how good each trial is; the last ones train.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from math import inf
from types import SimpleNamespace

import pytest
from tests.search.race_tools import made_up_proposal, save_shallow, write_rows

from frostline.encoders.loading import load_encoder
from frostline.plans.learning_rates import learning_rate_for
from frostline.records import EncoderRef, Plan, Recipe, TrialResult
from frostline.search.successive_halving import Trials, make_rungs, race
from frostline.tasks import Split, Task, load_task
from frostline.training.shared_inputs import SharedInputs
from frostline.trials import run_trial as trials
from frostline.trials.context import Context, Materials
from frostline.trials.executors import Here
from frostline.trials.store import Store

DEPTH, WIDTH = 12, 32


# Rounds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "epochs", "expected"),
    [
        (900, 3, [(300, 1), (900, 3)]),
        (2999, 3, [(1000, 1), (2999, 3)]),
        (3000, 3, [(1000, 1), (3000, 1), (3000, 3)]),
        (9000, 1, [(1000, 1), (3000, 1), (9000, 1)]),
        (10_000, 18, [(10_000, 2), (10_000, 6), (10_000, 18)]),
        (10_000, 14, [(7778, 2), (9333, 5), (10_000, 14)]),
        (300, 1, [(100, 1), (300, 1)]),  # a ninth would be 33 rows
        (290, 1, [(290, 1)]),  # a third would be fewer than 100
        (50, 3, [(50, 1), (50, 3)]),  # all rows are enough, however few there are
        (50, 1, [(50, 1)]),
        (1, 1, [(1, 1)]),
    ],
)
def test_rounds_have_a_ninth_a_third_and_all_as_far_as_that_is_enough(rows, epochs, expected):
    rungs = make_rungs(rows, epochs)
    assert [(rung.train_rows, rung.epochs) for rung in rungs] == expected
    assert [rung.number for rung in rungs] == list(range(1, len(rungs) + 1))
    assert rungs[-1].share == 1
    for rung in rungs:
        assert rung.train_rows * rung.epochs <= rung.share * rows * epochs + rung.epochs  # rounding, no more


# A scripted race -----------------------------------------------------------------------------------------------------


class Scripted:
    """Trials of which a script says how good each is, or why it fails."""

    def __init__(self, value, *, rows=9000, metric="accuracy"):
        split = Split(texts=("ice",) * rows, labels=(0, 1) * (rows // 2), rows=tuple(range(1, rows + 1)))
        task = Task(
            name="scripted", kind="classification", label_names=("no", "yes"), train=split, validation=split, test=None,
            metrics=(metric,), source="a test",
        )  # fmt: skip
        if metric == "mse":
            task = replace(task, kind="regression", label_names=())
        ref = EncoderRef(name="scripted", revision="1")
        encoder = SimpleNamespace(name="scripted", revision="1", width=WIDTH, depth=DEPTH, ref=ref)
        self.shared = SimpleNamespace(encoder=encoder, task=task)
        self.value, self.metric = value, metric
        self.ran = []  # (trial, whether its model is kept)
        self.recorded = set()
        self.store = SimpleNamespace(get=lambda spec: spec if spec.id in self.recorded else None)

    def run(self, specs, *, keep=False):
        for spec in specs:
            self.ran.append((spec, keep))
            yield spec, self._result(self.value(spec))

    def _result(self, found):
        if isinstance(found, str):
            return TrialResult(status="failed", reason=found)
        return TrialResult(status="done", metrics={"validation": {self.metric: found}}, seconds={"training": 1.5})


def round_of(spec):
    """The number of a trial's round, on 9,000 rows and three epochs."""
    return 1 if spec.train_rows == 3000 else 2 if spec.recipe.epochs in (1, 10) else 3


def times_usual(spec):
    """How many times its plan's usual learning rate a trial trains with; short rounds have higher ones."""
    higher = {1: 3.0, 2: 1.7, 3: 1.0}[round_of(spec)]
    return round(spec.recipe.learning_rate / (higher * learning_rate_for(spec.plan, WIDTH)), 6)


def single(layer, *, price=None):
    """The plan that tunes one layer; the higher, the cheaper."""
    return made_up_proposal(Plan.span(layer, layer, DEPTH), "one layer", price=price or 100 - layer)


FULL = made_up_proposal(Plan.full(DEPTH), "full", baseline="full fine-tuning", joins_late=True, price=1000)
LAST_TWO = made_up_proposal(Plan.span(11, 12, DEPTH), "top-k:k=2", baseline="the last layers", price=85)
LAST_THREE = made_up_proposal(Plan.span(10, 12, DEPTH), "top-k:k=3", baseline="the last layers", price=87)
HEAD_ONLY = made_up_proposal(Plan(layers=(), head=DEPTH), "head only", baseline="the head only", price=1)
BASELINES = [FULL, LAST_TWO, LAST_THREE, HEAD_ONLY]
SINGLES = [single(layer) for layer in range(1, 11)]


def by_layer(spec):
    """The lowest tuned layer is the best one; baselines are bad."""
    plan = spec.plan
    return 0.9 - plan.layers[0] / 100 if len(plan.layers) == 1 else 0.3 + len(plan.layers) / 100


def plans_of(rung):
    return [entry.proposal.plan for entry in rung]


def test_the_best_quarter_and_the_best_of_each_baseline_go_on_and_the_baselines_reach_the_final():
    found = race(Scripted(by_layer), [*SINGLES, *BASELINES], Recipe(threads=1))
    assert [len(rung) for rung in found.rungs] == [13, 4 + 2, 2 + 3]
    best = [one.plan for one in SINGLES]
    assert plans_of(found.rungs[0])[:10] == best
    baselines = [LAST_THREE.plan, HEAD_ONLY.plan]  # by what the script says, the best first
    assert plans_of(found.rungs[1]) == best[:4] + baselines
    assert plans_of(found.final) == [*best[:2], FULL.plan, *baselines]
    ids = [entry.spec.id for entry in found.final]
    assert found.baselines == dict(zip(["full fine-tuning", "the last layers", "the head only"], ids[2:], strict=True))


def test_after_a_single_short_round_the_best_plan_and_the_baselines_are_in_the_final():
    middle = made_up_proposal(
        Plan.span(6, 7, DEPTH), "middle:layers=2", baseline="the middle layers", joins_late=True, price=500
    )
    executor = Scripted(by_layer, rows=900)
    found = race(executor, [*SINGLES, *BASELINES, middle], Recipe(threads=1))
    assert [len(rung) for rung in found.rungs] == [13, 5]  # full fine-tuning and the middle layers join late
    assert set(map(str, plans_of(found.final))) == {
        str(one.plan) for one in (SINGLES[0], LAST_THREE, HEAD_ONLY, FULL, middle)
    }
    names = {spec.id: str(spec.plan) for spec, _ in executor.ran}
    assert names[found.baselines["the middle layers"]] == str(middle.plan)
    assert not any(spec.plan == middle.plan and spec.recipe.epochs == 1 for spec, _ in executor.ran)


def test_a_baseline_that_is_among_the_best_goes_on_once():
    script = Scripted(lambda spec: 0.9 if spec.plan == LAST_TWO.plan else by_layer(spec))
    found = race(script, [*SINGLES, *BASELINES], Recipe())
    assert plans_of(found.final).count(LAST_TWO.plan) == 1
    assert len(found.final) == 2 + 2


def test_full_fine_tuning_runs_in_the_last_round_alone():
    executor = Scripted(by_layer)
    found = race(executor, [*SINGLES, *BASELINES], Recipe())
    assert [round_of(spec) for spec, _ in executor.ran if spec.plan == FULL.plan] == [3]
    assert executor.ran[-1][0].plan == FULL.plan  # the most expensive one comes last
    assert FULL.plan in plans_of(found.final)


def test_full_fine_tuning_alone_is_a_race_of_its_last_round():
    found = race(Scripted(by_layer), [FULL], Recipe())
    assert [plans_of(rung) for rung in found.rungs] == [[FULL.plan]]
    assert found.notes == ()


def test_of_equally_good_plans_the_cheaper_ones_go_on():
    found = race(Scripted(lambda spec: 0.5), SINGLES, Recipe(learning_rate=1e-3))
    assert plans_of(found.final) == [Plan.span(10, 10, DEPTH), Plan.span(9, 9, DEPTH)]


def test_where_less_is_better_the_plan_with_the_lowest_value_wins():
    found = race(Scripted(by_layer, metric="mse"), SINGLES, Recipe(learning_rate=1e-3))
    assert plans_of(found.final) == [Plan.span(10, 10, DEPTH), Plan.span(9, 9, DEPTH)]
    assert found.final[0].value == pytest.approx(-0.8)


def test_all_plans_of_a_round_have_the_same_seed_and_the_same_rows():
    executor = Scripted(by_layer)
    race(executor, [*SINGLES, *BASELINES], Recipe(seed=7, batch=16, threads=1))
    assert {(spec.recipe.seed, spec.recipe.batch) for spec, _ in executor.ran} == {(7, 16)}
    rounds = Counter((spec.train_rows, spec.recipe.epochs) for spec, _ in executor.ran if spec.plan.layers)
    assert set(rounds) == {(3000, 1), (None, 1), (None, 3)}


def test_a_head_alone_trains_ten_times_as_long():
    executor = Scripted(by_layer)
    race(executor, [*SINGLES, HEAD_ONLY], Recipe())
    assert [spec.recipe.epochs for spec, _ in executor.ran if not spec.plan.layers] == [10, 10, 30]


def test_only_models_of_the_last_round_are_kept():
    executor = Scripted(by_layer)
    race(executor, SINGLES, Recipe())
    assert {keep for spec, keep in executor.ran if spec.recipe.epochs == 3} == {True}
    assert {keep for spec, keep in executor.ran if spec.recipe.epochs == 1} == {False}


def test_it_tells_after_every_trial_how_the_round_stands_best_first():
    steps = []
    race(Scripted(by_layer), SINGLES[:4], Recipe(learning_rate=1e-3), progress=steps.append)
    first = [step for step in steps if step.detail == "round 1"]
    assert [len(step.table.rows) for step in first] == [1, 2, 3, 4]
    assert [(step.done, step.total) for step in first] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    values = [row["accuracy, points"] for row in first[-1].table.records()]
    assert values == sorted(values, reverse=True)


# Learning rates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gain", "kept"), [(0.05, 2), (-0.05, 1)])
def test_the_best_plan_of_the_last_but_one_round_tries_another_rate_and_keeps_it_only_if_it_is_better(gain, kept):
    first, second = SINGLES[0].plan, SINGLES[1].plan
    executor = Scripted(lambda spec: by_layer(spec) + (gain if times_usual(spec) == 2 else 0))
    found = race(executor, [*SINGLES, *BASELINES], Recipe())
    others = [(spec.plan, round_of(spec)) for spec, _ in executor.ran if times_usual(spec) == 2]
    assert others == [(first, 2), (first, 3)][:kept]
    assert [(entry.proposal.plan, times_usual(entry.spec)) for entry in found.final[:2]] == [(first, kept), (second, 1)]
    assert len(found.rungs[1]) == 6  # an entry for each plan, whatever it has tried


def test_short_rounds_train_at_higher_rates_by_the_square_root_of_how_much_shorter_they_are():
    executor = Scripted(by_layer)
    race(executor, [*SINGLES, *BASELINES], Recipe())
    rates = {round_of(spec): spec.recipe.learning_rate for spec, _ in executor.ran if spec.plan == HEAD_ONLY.plan}
    usual = learning_rate_for(HEAD_ONLY.plan, WIDTH)
    assert rates == pytest.approx({1: 9**0.5 * usual, 2: 3**0.5 * usual, 3: usual}, rel=0.02)


def test_the_seconds_of_an_entry_are_those_of_all_its_trials_in_the_round():
    found = race(Scripted(by_layer), SINGLES, Recipe())  # the other rate is no better: it took its time all the same
    assert [entry.seconds for entry in found.rungs[0]] == [1.5] * 10
    assert [entry.seconds for entry in found.rungs[1]] == [3.0, 1.5, 1.5]
    assert [entry.seconds for entry in found.final] == [1.5, 1.5]


def test_a_rate_that_was_asked_for_is_the_only_one_that_is_tried():
    executor = Scripted(by_layer)
    race(executor, [*SINGLES, *BASELINES], Recipe(learning_rate=4e-4))
    assert {spec.recipe.learning_rate for spec, _ in executor.ran} == {4e-4}
    assert len({spec.id for spec, _ in executor.ran}) == len(executor.ran)  # and by nobody twice


def test_a_race_of_one_round_tries_no_other_rate():
    executor = Scripted(by_layer, rows=100)
    found = race(executor, SINGLES, Recipe(epochs=1))
    assert len(found.rungs) == 1
    assert len(executor.ran) == len(SINGLES)


# What goes wrong -----------------------------------------------------------------------------------------------------


def test_a_trial_that_failed_is_said_and_out_of_the_race():
    lost = SINGLES[0].plan
    found = race(Scripted(lambda spec: "diverged" if spec.plan == lost else by_layer(spec)), SINGLES, Recipe())
    assert found.failed == (f"{lost} at {3 * learning_rate_for(lost, WIDTH):g}: diverged",)
    assert all(lost not in plans_of(rung) for rung in found.rungs)


def test_another_rate_that_fails_leaves_the_usual_one():
    first = SINGLES[0].plan
    script = Scripted(lambda spec: "diverged" if times_usual(spec) > 1 else by_layer(spec))
    found = race(script, SINGLES, Recipe())
    assert len(found.failed) == 1
    assert plans_of(found.final)[0] == first
    assert times_usual(found.final[0].spec) == 1


def test_a_race_in_which_every_trial_fails_has_no_rounds():
    found = race(Scripted(lambda spec: "diverged"), SINGLES, Recipe())
    assert (found.rungs, found.baselines) == ((), {})
    assert len(found.failed) == 3 * len(SINGLES)


def test_a_deadline_in_the_past_still_tries_one_plan_the_cheapest_and_says_so():
    executor = Scripted(by_layer)
    found = race(executor, SINGLES, Recipe(), deadline=time.monotonic() - 1)
    assert [spec.plan for spec, _ in executor.ran] == [Plan.span(10, 10, DEPTH)]
    assert plans_of(found.final) == [Plan.span(10, 10, DEPTH)]
    assert found.notes[0] == "time limit reached: round 1 tried 1 of 10 plans"


def test_a_deadline_in_the_past_goes_on_until_a_plan_has_not_failed():
    script = Scripted(lambda spec: "diverged" if spec.plan.layers == (10,) else by_layer(spec))
    found = race(script, SINGLES, Recipe(), deadline=time.monotonic() - 1)
    assert plans_of(found.final) == [Plan.span(9, 9, DEPTH)]


def raced_until(deadline, monkeypatch):
    """A race in which every trial takes a second."""
    script = Scripted(by_layer)
    monkeypatch.setattr("frostline.search.successive_halving.time.monotonic", lambda: float(len(script.ran)))
    return script, race(script, [*SINGLES, *BASELINES], Recipe(), deadline=deadline)


def test_a_deadline_in_the_last_round_leaves_the_plans_that_were_done(monkeypatch):
    whole, _ = raced_until(inf, monkeypatch)
    stopped, found = raced_until(len(whole.ran) - 2.5, monkeypatch)
    assert [spec.id for spec, _ in stopped.ran] == [spec.id for spec, _ in whole.ran[:-2]]
    assert [len(rung) for rung in found.rungs] == [13, 6, 3]
    assert found.notes == ("time limit reached: round 3 tried 3 of 5 plans",)


def test_when_time_is_up_in_the_last_round_the_best_plan_has_run_already(monkeypatch):
    whole, _ = raced_until(inf, monkeypatch)
    first_of_last = next(place for place, (spec, _) in enumerate(whole.ran) if round_of(spec) == 3)
    stopped, found = raced_until(first_of_last + 0.5, monkeypatch)
    assert plans_of(found.final) == [SINGLES[0].plan]  # not the head alone, which is the cheapest
    assert {keep for _, keep in stopped.ran} == {True}  # where the last round may be missed, every model may be needed


def test_what_is_recorded_counts_after_the_deadline_too(monkeypatch):
    whole = Scripted(by_layer)
    found = race(whole, [*SINGLES, *BASELINES], Recipe())
    late = Scripted(by_layer)
    late.recorded = {spec.id for spec, _ in whole.ran}
    again = race(late, [*SINGLES, *BASELINES], Recipe(), deadline=time.monotonic() - 1)
    assert [plans_of(rung) for rung in again.rungs] == [plans_of(rung) for rung in found.rungs]
    assert again.notes == ()


def test_a_plan_alone_runs_in_the_last_round_only():
    executor = Scripted(by_layer)
    found = race(executor, [SINGLES[0], FULL], Recipe())
    assert [round_of(spec) for spec, _ in executor.ran] == [3, 3]
    assert [len(rung) for rung in found.rungs] == [2]


# Rows, and races that train ------------------------------------------------------------------------------------------


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


RECIPE = Recipe(epochs=3, batch=16, threads=1)
PROPOSALS = [
    made_up_proposal(Plan.span(2, 2, 2), "top-k:k=1", baseline="the last layers", price=2),
    made_up_proposal(Plan.span(1, 1, 1), "short", price=1),
    made_up_proposal(Plan.full(2), "full", baseline="full fine-tuning", joins_late=True, price=5),
]


def trials_of(inputs, store):
    """Trials of this process, recorded in the store."""
    materials = Materials(encoders={}, tasks={}, folder=store.path.parent, predictions=("validation",))
    context = Context(materials=materials)
    context.shared = lambda spec: inputs
    return Trials(shared=inputs, store=store, executor=Here(context))


def table(found):
    """All that a race says, timings aside."""
    lines = []
    for rung in found.rungs:
        for entry in rung:
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
        yield race(trials_of(inputs, store), PROPOSALS, RECIPE), store


def test_two_races_in_fresh_stores_give_the_same_table(inputs, whole, tmp_path):
    found, first = whole
    with Store(tmp_path / "store.sqlite") as store:
        again = race(trials_of(inputs, store), PROPOSALS, RECIPE)
        # A trial for each but full fine-tuning in the first round, another rate for the best, and the final.
        assert len(store) == len(first) == 2 + 1 + len(again.final)
    assert table(again) == table(found)
    assert [len(rung) for rung in again.rungs] == [2, len(again.final)]


class Stop(Exception):
    pass


def test_a_race_that_was_stopped_runs_only_what_is_missing_and_ends_with_the_same_table(
    inputs, whole, tmp_path, executed
):
    found, first = whole
    done = 0

    def stop_after_four(step):
        nonlocal done
        done += 1
        if done == 4:
            raise Stop

    with Store(tmp_path / "store.sqlite") as store:
        with pytest.raises(Stop):
            race(trials_of(inputs, store), PROPOSALS, RECIPE, progress=stop_after_four)
        assert len(store) == len(executed) == 4
    with Store(tmp_path / "store.sqlite") as store:
        again = race(trials_of(inputs, store), PROPOSALS, RECIPE)
    assert table(again) == table(found)
    assert len(executed) == len({str(trial) for trial in executed}) == len(first)  # none twice, none left out


def test_a_finished_race_is_read_from_its_store_without_training(inputs, whole, executed):
    found, store = whole
    assert table(race(trials_of(inputs, store), PROPOSALS, RECIPE)) == table(found)
    assert executed == []
