"""The probe next to the curves, and what the released script did otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly

from frostline.records import TrialResult
from frostline.scoring.measurement import measure_layers
from frostline.studies import STUDIES
from frostline.studies.reinitialise.probe import PROBE, _probe, measure_options
from frostline.tasks import load_task
from frostline.trials.context import Context, Materials


def run(folder, **given):
    return run_quickly("reinitialise", folder, layers=4, executor=MadeUp, **given)


def probes(found):
    return [point.spec for point in found.points if point.spec.kind == PROBE.name]


@pytest.fixture(scope="module")
def of_paper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reinitialise")
    return run(folder, quick=False, recipe={}, seeds=1, options={"sizes": "40", "step": 2})


@pytest.fixture(scope="module")
def context(of_paper):
    folder = of_paper.folder.parent
    task = load_task(folder / "letters.csv")
    (spec,) = probes(of_paper)
    return Context(
        materials=Materials(
            encoders={spec.encoder.revision: str(folder / "tiny")},
            tasks={task.fingerprint: task},
            kinds=STUDIES["reinitialise"].kinds,
            cache=False,
        )
    )


def test_one_trial_probes_all_layers_as_in_the_paper(of_paper):
    (spec,) = probes(of_paper)
    assert spec.options == {
        "score": "probe.linear.paper", "rate": pytest.approx(2e-5 * 768 / 32, rel=1e-2), "batch": 8, "trials": 8,
        "patience": 3,
    }  # fmt: skip
    assert spec.train_rows is None  # all of them, whatever the sizes of tuning


def test_a_rate_that_is_set_for_tuning_is_not_that_of_the_probe(of_paper, tmp_path):
    found = run(tmp_path, quick=False, recipe={"learning_rate": 1e-3}, seeds=1, options={"sizes": "40", "step": 2})
    assert probes(found)[0].options == probes(of_paper)[0].options


@pytest.mark.parametrize(("options", "rows"), [({"probe_rows": 30}, 30), ({"probe_rows": 10_000}, None)])
def test_the_probes_training_rows_are_an_option(options, rows, tmp_path):
    (spec,) = probes(run(tmp_path, options=options, seeds=1))
    assert spec.train_rows == rows


def test_blocks_and_no_trials_have_no_probe(tmp_path):
    assert probes(run(tmp_path, options={"mode": "single"}, seeds=1, output=tmp_path / "single")) == []
    found = run(tmp_path, options={"probe_trials": 0}, seeds=1)
    assert probes(found) == []
    rows = next(table for table in found.tables if table.name == "probing").records()
    assert {row["probe"] for row in rows} == {None}


def test_the_probe_is_the_layer_score_with_an_interval_over_trials(of_paper, context):
    (spec,) = probes(of_paper)
    options = {**spec.options, "rate": 1e-2, "trials": 3}
    result = _probe(context, replace(spec, options=options))
    encoder, task = context.encoder(spec.encoder.revision), context.task(spec)
    asked = measure_options(task, replace(spec, options=options))
    expected = measure_layers(encoder, task, asked)["probe.linear.paper"]
    assert result.values["probe"] == list(expected.values)
    assert result.values["low"] == list(expected.low)
    assert expected.uncertainty == "trials"
    assert result.values["examples"] == len(task.train)


def test_the_probe_is_judged_on_the_rows_of_tuning_and_its_epoch_is_chosen_on_validation(of_paper, context):
    (spec,) = probes(of_paper)
    task = context.task(spec)
    asked = measure_options(task, spec)
    assert (asked.rows, asked.chosen_on, asked.judged_on) == ("train", "validation", "test")
    on_dev = measure_options(replace(task, test=None), spec)
    assert (on_dev.chosen_on, on_dev.judged_on) == ("validation", "validation")


def test_a_probe_that_cannot_be_judged_is_a_note_and_not_a_failure(of_paper, context):
    (spec,) = probes(of_paper)
    few = _probe(context, replace(spec, train_rows=4, options={**spec.options, "score": "probe.pooler"}))
    encoder = context.encoder(spec.encoder.revision)
    encoder.has_pretrained_pooler = False
    try:
        without = _probe(context, replace(spec, options={**spec.options, "score": "probe.pooler"}))
    finally:
        encoder.has_pretrained_pooler = True
    assert few.status == without.status == "done"
    assert "pretrained pooler" in without.values["left_out"]


class WithoutPooler(MadeUp):
    """Probes that say why there are none."""

    def answer(self, spec):
        if spec.kind == PROBE.name:
            return TrialResult(status="done", values={"left_out": "no pooler"})
        return super().answer(spec)


def test_the_table_says_why_there_is_no_probe(tmp_path):
    found = run_quickly("reinitialise", tmp_path, layers=4, executor=WithoutPooler, seeds=1)
    table = next(table for table in found.tables if table.name == "probing")
    assert any(note.endswith("letters: no probe: no pooler") for note in table.notes)
    assert {row["probe"] for row in table.records()} == {None}


@pytest.mark.parametrize("name", ["reinitialise", "permute"])
def test_as_released_trains_as_the_script_did(name, tmp_path):
    found = run_quickly(name, tmp_path, layers=4, executor=MadeUp, seeds=1, options={"as_released": True})
    for point in found.points:
        recipe = point.spec.recipe
        assert (recipe.head, recipe.warmup, recipe.max_length, recipe.select) == ("family", 0.0, 128, "last")
        if point.spec.kind == PROBE.name:
            assert point.spec.options["score"] == "probe.pooler"


def test_what_is_set_goes_before_what_the_script_did(tmp_path):
    found = run(tmp_path, seeds=1, options={"as_released": True}, recipe={"max_length": 64, "epochs": 1})
    assert {point.spec.recipe.max_length for point in found.points} == {64}
    assert {point.spec.recipe.warmup for point in found.points} == {0.0}


@pytest.mark.parametrize(("options", "trials"), [({}, 10), ({"block_trials": 3}, 3)])
def test_blocks_have_ten_trials_or_three(options, trials, tmp_path):
    given = {"mode": "blocks", "width": 2, "step": 3, "sizes": "40", **options}
    found = run(tmp_path, quick=False, recipe={}, options=given)
    assert {point["seed"] for point in found.points} == set(range(trials))
