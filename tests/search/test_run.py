"""A whole run on a tiny encoder: what it leaves, what it never looks at, stopping and going on, kinds of task."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.logged import logged
from tests.search.race_tools import propose_only, save_shallow, skip_slow_parts, write_rows

import frostline
from frostline.api import _run as api_run
from frostline.encoders.encoder import Encoder
from frostline.errors import DataError, MeasureError, OptionError
from frostline.records import LayerScores, Plan, Recipe
from frostline.records.budget import Budget
from frostline.search import course, judging, planning
from frostline.search import run as running
from frostline.search.validation import with_more_validation
from frostline.stats.intervals import compare
from frostline.tasks import load_task
from frostline.trials import run_trial as trials
from frostline.trials.store import Store

RECIPE = Recipe(epochs=2, batch=16, threads=1)


@pytest.fixture(scope="module", autouse=True)
def judged_on_validation_rows():
    """Few rows, as these are, are judged in folds; what is tested here is the race on validation rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "FEWEST", 0)
        yield


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_shallow(tmp_path_factory.mktemp("models") / "shallow")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("data") / "letters.csv")


@pytest.fixture(scope="module")
def finished(encoder, rows, tmp_path_factory):
    """A run from beginning to end, and in which order it read texts and decided."""
    events = []

    def tokenize(self, texts, pairs=None, **options):
        events.append(("read", frozenset(texts)))
        return Encoder_tokenize(self, texts, pairs, **options)

    def decide(*given, **options):
        events.append(("decided", frozenset()))
        return course_decide(*given, **options)

    Encoder_tokenize, course_decide = Encoder.tokenize, course.decide  # noqa: N806
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "tokenize", tokenize)
        patch.setattr(course, "decide", decide)
        found = frostline.run(encoder, rows, output=tmp_path_factory.mktemp("runs") / "run", recipe=RECIPE)
    return found, events


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Stop(Exception):
    """Stands for the end of what a test wants to see."""


def stop(*given, **options):
    raise Stop


# What a run leaves ---------------------------------------------------------------------------------------------------


def test_the_folder_holds_the_model_and_everything_that_was_found_and_nothing_unfinished(finished):
    found, _ = finished
    assert {path.name for path in found.folder.iterdir()} == {
        "model", "plan.json", "recipe.json", "result.json", "scores.json", "store.sqlite", "run.json", "metrics.jsonl",
        "predictions.jsonl", "report.html", "frostline.json",
    }  # fmt: skip
    assert read(found.folder / "frostline.json")["kind"] == "run"
    assert Plan.from_json(read(found.folder / "plan.json")) == found.chosen.proposal.plan
    assert LayerScores.from_json(read(found.folder / "scores.json")).to_json() == found.scores.to_json()
    assert read(found.folder / "run.json") == json.loads(json.dumps(found.to_json()))
    assert len(lines(found.folder / "metrics.jsonl")) == found.tuned.recipe.epochs


def test_every_text_is_tokenized_once(finished):
    _, events = finished
    read_texts = [texts for name, texts in events if name == "read"]
    assert len(read_texts) == 3
    assert sum(map(len, read_texts)) == len(frozenset().union(*read_texts)) == 120


def test_the_store_holds_every_trial_of_the_race(finished):
    found, _ = finished
    with Store(found.folder / "store.sqlite") as store:
        recorded = {spec.id: (spec, result) for spec, result in store}
    shown = [line for rung in read(found.folder / "run.json")["race"] for line in rung]
    assert {line["trial"] for line in shown} <= recorded.keys()  # other learning rates are not shown
    assert {str(spec.plan) for spec, _ in recorded.values()} == {str(Plan.from_json(line["plan"])) for line in shown}
    for line in shown:
        spec, result = recorded[line["trial"]]
        assert (line["steps"], line["learning_rate"]) == (
            spec.recipe.steps,
            0.0 if spec.recipe.schedule == "solved" else spec.recipe.learning_rate,
        )
        assert line["validation"] == result.metrics["validation"]


def test_the_model_loads_with_transformers_alone_and_says_what_was_recorded(finished):
    import transformers

    found, _ = finished
    said = [line for line in lines(found.folder / "predictions.jsonl") if line["split"] == "test"]
    classify = transformers.pipeline("text-classification", str(found.folder / "model"))
    again = classify([line["text"] for line in said])
    assert [one["label"] for one in again] == [line["prediction"] for line in said]
    right = [line["prediction"] == line["label"] for line in said]
    assert found.tests[0].metrics["accuracy"] == pytest.approx(sum(right) / len(right))


def test_the_run_says_what_the_model_of_the_chosen_plan_says_when_it_is_tuned_alone(finished, encoder, rows):
    found, _ = finished
    assert found.tuned.recipe.rows == "all"  # it was trained on validation rows too
    alone = frostline.tune(encoder, rows, plan=found.tuned.plan, recipe=found.tuned.recipe)
    assert alone.outputs["test"].equal(found.tuned.outputs["test"])
    assert alone.metrics == found.tuned.metrics
    divided = with_more_validation(load_task(rows))
    before = frostline.tune(encoder, divided, plan=found.tuned.plan, recipe=found.chosen.spec.recipe)
    assert before.metrics["validation"] == found.chosen.result.metrics["validation"]
    assert before.metrics["test"] == found.tests[1].metrics


def test_choice_and_baselines_are_compared_on_the_test_rows(finished):
    found, _ = finished
    assert [test.name for test in found.tests] == ["the choice", "the choice before its refit", *found.race.baselines]
    assert {"full fine-tuning", "the head only"} <= set(found.race.baselines)
    for test in found.tests:
        assert test.low <= test.metrics["accuracy"] <= test.high
        if test is found.tests[0]:
            assert test.choice_minus_it is None
        else:
            gap = 100 * (found.tests[0].metrics["accuracy"] - test.metrics["accuracy"])
            assert test.choice_minus_it.value == pytest.approx(gap)
    others = [test for test in found.tests if test.trial != found.decision.chosen]
    assert [line.split(":")[0] for line in found.record.given_up] == [
        f"vs {test.name}, {found.race.entry(test.trial).proposal.plan}" for test in others
    ]


def test_plans_that_only_frostline_can_load_stay_out_and_that_is_said(finished):
    found, _ = finished
    assert not {"houlsby", "pfeiffer", "prefix"} & {one.plan.method for one in found.record.proposals}
    assert any(
        "only Frostline can load (houlsby, pfeiffer, prefix) are left out" in note for note in found.record.notes
    )


def test_no_test_row_is_read_before_the_choice_is_made(finished):
    found, events = finished
    hidden = set(found.tuned.task.test.texts)
    decided = [what for what, _ in events].index("decided")
    before = set().union(*(texts for _, texts in events[:decided]))
    after = set().union(*(texts for _, texts in events[decided:]))
    assert set(found.tuned.task.train.texts) <= before
    assert set(found.tuned.task.validation.texts) <= before
    assert not hidden & before
    assert hidden <= after


def test_a_finished_folder_is_refused(finished, encoder, rows):
    found, _ = finished
    before = (found.folder / "run.json").read_text()
    with pytest.raises(OptionError, match="contains an earlier result; pass `overwrite=True`") as error:
        frostline.run(encoder, rows, output=found.folder, recipe=RECIPE)
    assert "\n" not in str(error.value)
    assert (found.folder / "run.json").read_text() == before


# Stopping and going on -----------------------------------------------------------------------------------------------


@pytest.fixture
def executed(monkeypatch):
    """The plans and recipes that are trained."""
    found = []
    execute = trials.execute

    def recording(inputs, plan, recipe, *, settings):
        found.append((str(plan), recipe))
        return execute(inputs, plan, recipe, settings=settings)

    monkeypatch.setattr(trials, "execute", recording)
    return found


def interrupt_after(count):
    """A progress callback that interrupts the run once, after a number of trials."""
    standings = []

    def stop_run(step):
        if step.table is not None:
            standings.append(step)
            if len(standings) == count:
                raise KeyboardInterrupt

    return stop_run


def facts(found):
    """What a run says, timings aside."""
    said = found.to_json()
    race = [[{**line, "seconds": 0} for line in rung] for rung in said["race"]]
    return {**{key: said[key] for key in ("plan", "recipe", "decision", "tests", "notes")}, "race": race}


def test_a_run_that_is_stopped_twice_measures_and_trains_nothing_again_and_ends_the_same(
    finished, encoder, rows, tmp_path, executed, monkeypatch
):
    whole, _ = finished
    place, said, proposed = tmp_path / "run", [], []
    propose = planning.propose

    def go_on(**options):
        with logged(said):
            return frostline.run(encoder, rows, output=place, recipe=RECIPE, **options)

    def remember(*given, **options):
        proposed.append(propose(*given, **options))
        return proposed[0]

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "propose", remember)
    with pytest.raises(KeyboardInterrupt):
        go_on(progress=interrupt_after(3))
    early = read(place / "run.json")
    assert (early["is_finished"], early["tests"][0]["name"]) == (False, "the choice")
    assert (place / "report.html").is_file()
    assert len(executed) == 3
    assert not any("continuing" in line for line in said)

    monkeypatch.setattr(running, "measure_for_plans", stop)
    monkeypatch.setattr(running, "time_steps", stop)
    # Counting the arithmetic of all plans takes most of the time, and the first part above did it anew.
    monkeypatch.setattr(planning, "propose", lambda *given, **options: proposed[0])
    with monkeypatch.context() as patch:
        patch.setattr("frostline.prediction.export._move_into_place", interrupted)
        with pytest.raises(KeyboardInterrupt):  # while the result is being saved
            go_on()
    assert said.count(f"continuing the interrupted run in {place}") == 1

    found = go_on()
    with Store(whole.folder / "store.sqlite") as store:
        assert len(executed) == len({str(trial) for trial in executed}) == len(store) + 1  # with the refit
    assert facts(found) == facts(whole)
    for name in ("model/model.safetensors", "predictions.jsonl", "plan.json"):
        assert (place / name).read_bytes() == (whole.folder / name).read_bytes()
    assert {path.name for path in place.iterdir()} == {path.name for path in whole.folder.iterdir()}


@pytest.fixture(scope="module")
def stopped(encoder, rows, tmp_path_factory):
    """The folder of a run that was stopped while it measured."""
    place = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "measure_for_plans", stop)
        with pytest.raises(Stop):
            frostline.run(encoder, rows, output=place, recipe=RECIPE)
    return place


@pytest.mark.parametrize(
    "changed",
    [
        {"recipe": replace(RECIPE, epochs=1)},
        {"recipe": replace(RECIPE, learning_rate=1e-3)},
        {"budget": Budget(margin=2)},
        {"budget": Budget(max_layers=1)},
        {"allow_frostline_only": True},
    ],
    ids=str,
)
def test_a_stopped_run_goes_on_with_other_limits_or_rates(stopped, encoder, rows, changed, monkeypatch, log_lines):
    """Trials know themselves what they depend on, so that advice such as a larger limit can be followed."""
    monkeypatch.setattr(running, "measure_for_plans", stop)
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=stopped, **{"recipe": RECIPE, **changed})
    assert log_lines == [f"continuing the interrupted run in {stopped}"]


def test_a_run_that_was_killed_before_it_had_begun_starts_anew(encoder, rows, tmp_path, monkeypatch):
    place = tmp_path / "run" / "checkpoints"
    place.mkdir(parents=True)
    monkeypatch.setattr(running, "measure_for_plans", stop)
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert (place / "run.json").is_file()


def test_trouble_with_the_report_does_not_take_the_model_away(
    encoder, rows, tmp_path, few_plans, monkeypatch, log_lines
):
    def broken(folder):
        raise ValueError("no page today")

    monkeypatch.setattr(api_run, "write_report", broken)
    frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
    assert any("the report was not written (no page today)" in line for line in log_lines)


def test_a_run_that_is_killed_while_it_tidies_up_is_a_finished_one(encoder, rows, tmp_path, few_plans, monkeypatch):
    remove = running.shutil.rmtree
    monkeypatch.setattr(running.shutil, "rmtree",
                        lambda path, **more: stop() if path.name == ".finished" and path.exists()
                        else remove(path, **more))  # fmt: skip
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
    assert not (tmp_path / "run" / "checkpoints").exists()
    with pytest.raises(OptionError, match="contains an earlier result"):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    monkeypatch.setattr(running.shutil, "rmtree", remove)
    frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE, overwrite=True)
    assert not (tmp_path / "run" / ".finished").exists()


def test_the_minutes_of_a_run_go_on_where_it_was_stopped(encoder, rows, tmp_path, few_plans, monkeypatch, log_lines):
    place, deadlines = tmp_path / "run", []

    def race(*given, deadline, **more):
        deadlines.append(deadline - running.time.monotonic())
        raise Stop

    monkeypatch.setattr(course, "race", race)
    budget = Budget(minutes=60)
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=place, recipe=RECIPE, budget=budget)
    spent = json.loads((place / "checkpoints" / "spent.json").read_text())
    assert 0 < spent < 3600 - deadlines[0] + 1
    assert json.loads((place / "checkpoints" / "before_race.json").read_text()) == pytest.approx(spent, abs=1)
    (place / "checkpoints" / "spent.json").write_text(json.dumps(spent + 1800))
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=place, recipe=RECIPE, budget=budget)
    assert deadlines[1] < deadlines[0] - 1800
    (place / "checkpoints" / "before_race.json").write_text("3600")
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=place, recipe=RECIPE, budget=budget)
    assert "note: the 60-minute limit was used up before the race; taking the cheapest plan" in log_lines


def test_limits_that_no_plan_keeps_are_known_before_anything_is_measured(encoder, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "measure_for_plans", stop)
    with pytest.raises(OptionError, match="no plan fits: `max_trainable=3` excludes 2 of 2 heads alone"):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE, budget=Budget(max_trainable=3))
    assert not (tmp_path / "run").exists()


def test_where_every_plan_needs_frostline_the_message_says_what_to_do(encoder, rows, tmp_path, quickly):
    with pytest.raises(OptionError, match="no plan makes a model that transformers alone can load; pass `allow_f"):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=replace(RECIPE, head="mean"))


def test_going_on_with_another_seed_is_refused_in_one_line(stopped, encoder, rows):
    with pytest.raises(
        OptionError, match="interrupted run with a different data and seed; pass `overwrite=True`"
    ) as error:
        frostline.run(encoder, rows, output=stopped, recipe=replace(RECIPE, seed=1))
    assert "\n" not in str(error.value)
    assert "`overwrite=True`" in str(error.value)


def test_a_run_that_an_earlier_version_began_goes_on(encoder, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "measure_for_plans", stop)
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    identity = tmp_path / "run" / "checkpoints" / "run.json"
    earlier = {name: value for name, value in read(identity).items() if name != "number of folds"}
    identity.write_text(json.dumps({**earlier, "a name of old": 1}))
    with pytest.raises(Stop):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)


def test_tuning_does_not_touch_a_stopped_run(stopped, encoder, rows):
    for resume in (False, True):
        with pytest.raises(OptionError, match="contains an interrupted `frostline run`; run it again"):
            frostline.tune(encoder, rows, output=stopped, resume=resume)


def test_going_on_with_other_data_another_metric_or_another_model_is_refused(stopped, encoder, rows, tmp_path):
    with pytest.raises(OptionError, match="a different data;"):
        frostline.run(encoder, write_rows(tmp_path / "letters.csv", rows=119), output=stopped, recipe=RECIPE)
    with pytest.raises(OptionError, match="a different metric;"):
        frostline.run(encoder, load_task(rows, metric="macro_f1"), output=stopped, recipe=RECIPE)
    with pytest.raises(OptionError, match="a different model;"):
        frostline.run(save_shallow(tmp_path / "other", seed=1), rows, output=stopped, recipe=RECIPE)


def test_the_same_run_under_another_name_goes_on(stopped, encoder, rows, tmp_path, monkeypatch, log_lines):
    monkeypatch.setattr(running, "measure_for_plans", stop)
    renamed = tmp_path / "renamed.csv"
    renamed.write_bytes(rows.read_bytes())
    with pytest.raises(Stop):
        frostline.run(encoder, renamed, output=stopped, recipe=RECIPE)
    assert log_lines == [f"continuing the interrupted run in {stopped}"]


def test_overwriting_starts_anew(encoder, rows, tmp_path, monkeypatch, log_lines):
    """Also over a stopped run of other options, of which nothing is left."""
    place = tmp_path / "run"
    monkeypatch.setattr(running, "measure_for_plans", stop)
    for options in ({}, {"overwrite": True, "budget": Budget(margin=2)}):
        with pytest.raises(Stop):
            frostline.run(encoder, rows, output=place, recipe=RECIPE, **options)
        (place / "checkpoints" / "scores.json").write_text("left by this run")
    assert log_lines == []
    with pytest.raises(Stop):  # measured again, for what was there is gone
        frostline.run(encoder, rows, output=place, recipe=RECIPE, overwrite=True)


def test_a_folder_with_other_files_is_refused(encoder, rows, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OptionError, match="contains other files"):
        frostline.run(encoder, rows, output=tmp_path, recipe=RECIPE)


# Tasks ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quickly(monkeypatch):
    skip_slow_parts(monkeypatch)


@pytest.fixture
def few_plans(quickly, monkeypatch):
    propose_only(monkeypatch, [Plan.span(1, 1, 1), Plan.full(2)])


def test_a_task_without_validation_rows_is_one_line(encoder, rows, tmp_path):
    task = replace(load_task(rows), validation=None)
    with pytest.raises(DataError, match="letters: has no validation rows") as error:
        frostline.run(encoder, task, output=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_the_chosen_model_is_judged_on_every_test_split(encoder, rows, tmp_path, few_plans):
    task = load_task(rows)
    half = len(task.test) // 2
    elsewhere = task.test.take(range(half, len(task.test)))
    task = replace(task, test=task.test.take(range(half)), more_tests={"elsewhere": elsewhere})
    found = frostline.run(encoder, task, output=tmp_path / "run", recipe=RECIPE)
    said = [line for line in lines(found.folder / "predictions.jsonl") if line["split"] == "elsewhere"]
    assert [line["text"] for line in said] == list(elsewhere.texts)
    right = [line["prediction"] == line["label"] for line in said]
    assert found.tuned.metrics["elsewhere"]["accuracy"] == pytest.approx(sum(right) / len(right))
    assert read(found.folder / "result.json")["metrics"].keys() == {"test", "elsewhere"}


def test_a_task_without_test_rows_is_chosen_on_and_compared_without_them(encoder, rows, tmp_path, few_plans):
    task = replace(load_task(rows), test=None)
    budget = Budget(goal="smallest", margin=100)
    found = frostline.run(encoder, task, output=tmp_path / "run", recipe=RECIPE, budget=budget, refit=False)
    assert found.tests == ()
    assert set(found.tuned.metrics) == {"validation"}
    assert {line["split"] for line in lines(tmp_path / "run" / "predictions.jsonl")} == {"validation"}
    assert not found.tuned.plan.embeddings  # or there would be nothing to compare it with
    (line,) = found.record.given_up
    (full,) = [entry for entry in found.race.final if entry.proposal.plan.embeddings]
    mine, theirs = (one.result.predictions["validation"] for one in (found.chosen, full))
    gap = compare(task.validation.labels, mine, theirs, "accuracy")
    assert line.startswith(f"vs full fine-tuning, (1, 2, 2): {gap} points of validation accuracy; ")


def test_texts_that_are_cut_are_said_for_every_split(encoder, rows, tmp_path, few_plans):
    found = frostline.run(encoder, rows, output=tmp_path / "run", recipe=replace(RECIPE, max_length=5))
    for split in ("train", "validation", "test"):
        assert any(f"{split} texts were longer than the limit and cut" in note for note in found.record.notes)


def test_every_trial_failing_is_one_line(encoder, rows, tmp_path, few_plans):
    with pytest.raises(OptionError, match=r"every trial failed: .*diverged.*; try a lower `learning_rate`") as error:
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=replace(RECIPE, learning_rate=1e38))
    assert "\n" not in str(error.value)


def test_few_rows_run_through_without_the_scores_that_they_do_not_allow(encoder, tmp_path, quickly):
    rows = str(write_rows(tmp_path / "few.csv", 40))
    found = frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert "probe.linear" not in found.scores.scores
    assert any("probe.linear left out: a probe holds out" in note for note in found.scores.notes)
    assert {one.plan.head for one in found.record.proposals if not one.plan.layers} == {1, 2}


def test_a_mistake_that_measuring_finds_leaves_nothing_behind(encoder, rows, tmp_path, monkeypatch):
    def refuse(*given, **options):
        raise MeasureError("these rows are all of one class")

    monkeypatch.setattr(running, "measure_for_plans", refuse)
    with pytest.raises(MeasureError, match="all of one class"):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert not (tmp_path / "run").exists()


def test_numbers_to_predict_run_through(encoder, tmp_path, quickly):
    task = load_task(write_rows(tmp_path / "numbers.csv", kind="regression"), kind="regression")
    recipe = replace(
        RECIPE, epochs=1, cache_dtype="float32"
    )  # predictions from rounded states differ in the fourth digit
    found = frostline.run(encoder, task, output=tmp_path / "run", refit=False, recipe=recipe)
    assert set(found.tests[0].metrics) == {"spearman", "pearson"}
    said = [line for line in lines(tmp_path / "run" / "predictions.jsonl") if line["split"] == "validation"]
    values = found.chosen.result.predictions["validation"]
    assert [line["prediction"] for line in said] == pytest.approx(list(values), abs=1e-6)
    assert len({round(value, 6) for value in values}) > 2
    again = frostline.predict(tmp_path / "run", [line["text"] for line in said])
    assert again.labels == pytest.approx(list(values), abs=1e-4)


def test_multiple_choice_runs_through(encoder, tmp_path, few_plans):
    path = write_rows(tmp_path / "choices.csv", kind="multiple choice")
    task = load_task(path, text="text", choices=["one", "two"], kind="multiple choice")
    found = frostline.run(encoder, task, output=tmp_path / "run", recipe=replace(RECIPE, epochs=1))
    assert found.tuned.outputs["test"].shape == (len(task.test), 2)
    assert found.tests[0].metrics["accuracy"] == pytest.approx(
        (found.tuned.outputs["test"].argmax(-1).numpy() == task.test.labels).mean()
    )


def test_plans_that_only_frostline_can_load_take_part_where_that_is_allowed(
    encoder, rows, tmp_path, quickly, monkeypatch
):
    adapters = replace(Plan.span(1, 2, 2), method="houlsby")
    propose_only(monkeypatch, [adapters, replace(adapters, method="prefix"), Plan.full(2)])
    found = frostline.run(
        encoder,
        rows,
        output=tmp_path / "run",
        recipe=replace(RECIPE, epochs=1),
        budget=Budget(margin=100),
        allow_frostline_only=True,
    )
    assert {entry.proposal.plan.method for entry in found.race.final} == {"houlsby", "prefix", "full"}
    assert found.tuned.plan.method in ("houlsby", "prefix")
    said = [line for line in lines(tmp_path / "run" / "predictions.jsonl") if line["split"] == "test"]
    again = frostline.predict(tmp_path / "run", [line["text"] for line in said])
    assert list(again.labels) == [line["prediction"] for line in said]


def test_without_refit_and_proof_the_model_is_that_of_the_race(encoder, rows, tmp_path, few_plans):
    found = frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE, refit=False, proof=False)
    assert [test.name for test in found.tests] == ["the choice"]
    assert found.tuned.recipe == found.chosen.spec.recipe
    assert not any(entry.proposal.plan.embeddings for entries in found.race.rounds for entry in entries)
    assert found.decision.proof is None


def test_a_refit_without_test_rows_is_saved_without_scores_of_its_own(encoder, rows, tmp_path, few_plans):
    found = frostline.run(encoder, replace(load_task(rows), test=None), output=tmp_path / "run", recipe=RECIPE)
    assert (found.tests, found.tuned.metrics) == ((), {})
    assert (tmp_path / "run" / "report.html").is_file()


def test_an_interruption_before_the_first_model_says_so(encoder, rows, tmp_path, few_plans, monkeypatch, log_lines):
    def race(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "race", race)
    with pytest.raises(KeyboardInterrupt):
        frostline.run(encoder, rows, output=tmp_path / "run", recipe=RECIPE)
    assert "no model was ready yet" in log_lines
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoints"]
