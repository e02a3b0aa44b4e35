"""Trials on a tiny encoder: run once, recorded when they fail, and their models kept or made again to the bit."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from tests.search.race_tools import save_shallow, write_rows

from frostline.encoders.loading import load_encoder
from frostline.records import Plan, Recipe
from frostline.tasks import load_task
from frostline.training.loop import weights_of
from frostline.training.shared_inputs import SharedInputs
from frostline.trials import run_trial as trials
from frostline.trials.context import Context, Materials
from frostline.trials.executors import Here
from frostline.trials.results import decode_outputs, make_spec
from frostline.trials.run_missing import run_missing
from frostline.trials.store import Store

RECIPE = Recipe(epochs=2, batch=16, learning_rate=3e-3, threads=1)
TOP, WHOLE, HEAD = Plan.span(2, 2, 2), Plan.full(2), Plan(layers=(), head=1)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trials")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(folder / "cache"))
        task = load_task(write_rows(folder / "rows.csv"))
        yield SharedInputs(load_encoder(save_shallow(folder / "encoder")), task)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        yield store


class Runner:
    """Runs trials on shared inputs in this process and records them, as a search does."""

    def __init__(self, inputs, store, *, predictions=("validation",)):
        self.shared, self.store = inputs, store
        folder = store.path.parent
        materials = Materials(encoders={}, tasks={}, folder=folder, kept=folder / "kept", predictions=predictions)
        self.context = Context(materials=materials)
        self.context.shared = lambda spec: inputs

    def run(self, specs, *, keep=False):
        found = {spec.id: result for spec, result in run_missing(self.store, specs, Here(self.context), keep=keep)}
        return [found[spec.id] for spec in specs]

    def model(self, spec):
        return trials.model_of(self.context, spec)


@pytest.fixture
def executor(inputs, store):
    return Runner(inputs, store)


@pytest.fixture
def executed(monkeypatch):
    """What was executed: the plans and what came out."""
    found = []
    execute = trials.execute

    def recording(inputs, plan, recipe, *, settings):
        found.append([plan, None])
        found[-1][1] = execute(inputs, plan, recipe, settings=settings)
        return found[-1][1]

    monkeypatch.setattr(trials, "execute", recording)
    return found


def test_a_recorded_trial_is_not_run_again(inputs, store, executed):
    one, other, third = (make_spec(inputs, plan, RECIPE) for plan in (TOP, WHOLE, HEAD))
    first = Runner(inputs, store).run([one, other])
    assert [plan for plan, _ in executed] == [TOP, WHOLE]
    second = Runner(inputs, store).run([one, third, other])
    assert [plan for plan, _ in executed] == [TOP, WHOLE, HEAD]
    assert [second[0], second[2]] == first
    assert [store.get(spec) for spec in (one, other, third)] == [first[0], first[1], second[1]]


def test_what_is_recorded_is_what_came_out(executor, executed):
    (result,) = executor.run([make_spec(executor.shared, TOP, RECIPE)])
    ((_, tuned),) = executed
    assert result.status == "done"
    assert result.metrics == tuned.metrics
    assert result.history == tuned.trained.history
    assert result.predictions == {"validation": decode_outputs(tuned.outputs["validation"], "classification")}
    assert set(result.predictions["validation"]) <= {0, 1}
    assert result.parameters["trainable"] == sum(value.numel() for value in weights_of(tuned.tunable).values())
    assert sum(result.seconds.values()) > 0


def test_test_rows_are_judged_only_where_that_is_asked_for(inputs, store, tmp_path):
    spec = make_spec(inputs, HEAD, RECIPE)
    (result,) = Runner(inputs, store).run([spec])
    assert set(result.metrics) == set(result.predictions) == {"validation"}
    with Store(tmp_path / "other" / "store.sqlite") as other:
        (result,) = Runner(inputs, other, predictions=("validation", "test")).run([spec])
    assert set(result.metrics) == set(result.predictions) == {"validation", "test"}


def test_all_rows_asked_for_by_number_are_the_same_trial(inputs):
    rows = len(inputs.task.train)
    whole = make_spec(inputs, TOP, RECIPE)
    assert {make_spec(inputs, TOP, RECIPE, train_rows=count).id for count in (rows, rows + 9)} == {whole.id}
    assert make_spec(inputs, TOP, RECIPE, train_rows=rows - 1).id != whole.id


def test_another_metric_makes_another_trial(inputs):
    """It chooses the epoch that is kept, and is what is looked up later."""
    other = SharedInputs(inputs.encoder, replace(inputs.task, metrics=("macro_f1", "accuracy")))
    assert make_spec(other, TOP, RECIPE).id != make_spec(inputs, TOP, RECIPE).id


# What goes wrong -----------------------------------------------------------------------------------------------------


def test_a_trial_that_diverges_is_recorded_with_its_reason_and_stops_no_other(executor, store, executed):
    wild = make_spec(executor.shared, WHOLE, replace(RECIPE, learning_rate=1e30))
    tame = make_spec(executor.shared, TOP, RECIPE)
    failed, done = executor.run([wild, tame])
    assert [plan for plan, _ in executed] == [WHOLE, TOP]  # the failing one comes first
    assert failed.cause == "diverged"
    assert (failed.status, done.status) == ("failed", "done")
    assert "diverged at step" in failed.reason
    assert "try a lower learning rate" in failed.reason
    assert store.get(wild) == failed
    assert executor.run([wild]) == [failed]
    assert len(executed) == 2


def test_an_interrupt_records_what_was_done_and_nothing_else(executor, store, monkeypatch):
    first, second = (make_spec(executor.shared, plan, RECIPE) for plan in (TOP, HEAD))
    execute = trials.execute

    def interrupted(inputs, plan, recipe, *, settings):
        if plan == HEAD:
            raise KeyboardInterrupt
        return execute(inputs, plan, recipe, settings=settings)

    monkeypatch.setattr(trials, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        executor.run([first, second])
    assert [spec for spec, _ in store] == [first]


# Models --------------------------------------------------------------------------------------------------------------


def is_same(one, other):
    """Whether two models are the same to the bit, and say the same to the bit."""
    mine, theirs = weights_of(one.tunable), weights_of(other.tunable)
    return (
        mine.keys() == theirs.keys()
        and all(value.equal(theirs[name]) for name, value in mine.items())
        and one.outputs["validation"].equal(other.outputs["validation"])
    )


@pytest.mark.parametrize("plan", [TOP, WHOLE, HEAD, Plan(layers=(1, 2), head=2, method="lora")], ids=str)
def test_the_model_of_a_trial_is_the_kept_one_to_the_bit(executor, executed, plan):
    spec = make_spec(executor.shared, plan, RECIPE, train_rows=60)
    (result,) = executor.run([spec], keep=True)
    ((_, tuned),) = executed
    kept = executor.model(spec)
    assert len(executed) == 1  # read, not trained
    assert is_same(kept, tuned)
    assert kept.metrics == result.metrics
    assert decode_outputs(kept.outputs["validation"], "classification") == result.predictions["validation"]
    assert (kept.trained.history, kept.trained.audit, kept.notes, kept.recipe) == (
        tuned.trained.history,
        tuned.trained.audit,
        tuned.notes,
        tuned.recipe,
    )


def flip_a_bit(place):
    path = place / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


def cut_weights(place):
    path = place / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def cut_description(place):
    path = place / "about.json"
    path.write_text(path.read_text()[:40])


def lose_weights(place):
    (place / "weights.safetensors").unlink()


@pytest.mark.parametrize("damage", [flip_a_bit, cut_weights, cut_description, lose_weights, shutil.rmtree])
def test_a_model_whose_files_are_damaged_or_gone_is_trained_again_to_the_same_bits(executor, store, executed, damage):
    spec = make_spec(executor.shared, TOP, RECIPE)
    executor.run([spec], keep=True)
    place = store.path.parent / "kept" / spec.id
    damage(place)
    again = executor.model(spec)
    assert len(executed) == 2
    assert is_same(again, executed[0][1])
    assert is_same(executor.model(spec), executed[0][1])
    assert len(executed) == 2  # kept again, and whole


def test_a_model_that_was_not_to_be_kept_is_trained_again_to_the_same_bits(executor, store, executed):
    spec = make_spec(executor.shared, TOP, RECIPE, train_rows=60)
    executor.run([spec])
    assert not (store.path.parent / "kept").exists()
    assert is_same(executor.model(spec), executed[0][1])
    assert len(executed) == 2
