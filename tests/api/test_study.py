"""A study's folder: what is asked is taken down, what is finished stays, and what goes wrong is one line."""

from __future__ import annotations

import copy
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest
import torch
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import SHORT, run_quickly, save_tiny, study_with
from tests.trials.test_store import RESULT, numbered

from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError, UserError
from frostline.records import Recipe, TrialResult
from frostline.records.study import StudySpec
from frostline.studies import Ask
from frostline.studies._engine import run as study_run
from frostline.studies._engine.folder import write_specification
from frostline.studies._engine.results import describe_unfinished, read_tables, read_trials, write_trials
from frostline.studies._tables import notes_on_all
from frostline.tasks import load_task
from frostline.trials.context import Context
from frostline.trials.executors import Here
from frostline.trials.store import Store


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished study of the lower layers, and the folder that its encoder and data lie in."""
    folder = tmp_path_factory.mktemp("finished")
    return run_quickly("freeze", folder, layers=2), folder


def test_the_folder_holds_the_specification_trials_tables_and_where_it_comes_from(finished):
    found, _ = finished
    asked = json.loads((found.folder / "study.json").read_text())
    assert (asked["study"], asked["seeds"], asked["options"]["step"]) == ("freeze", 2, 3)
    about = json.loads((found.folder / "frostline.json").read_text())
    assert (about["kind"], about["threads"]) == ("study", 1)  # those of a trial, whatever this process has
    assert about["seeds"] == 2
    assert [table.name for table in read_tables(found.folder)] == ["quality", "share", "mean_share", "parameters"]
    assert tuple(read_tables(found.folder)) == found.tables
    assert len(read_trials(found.folder).rows) == len({point.spec.id for point in found.points})
    assert not (found.folder / "trials").exists()  # what trials keep while they run is gone


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"seeds": 1}, "seeds 2 there, 1 here"),
        ({"seeds": 3, "options": {"step": 2}}, "options step 3 there, 2 here"),
        ({"options": {"rates": 2}}, "options rates 1 there, 2 here"),
        ({"options": {"step": 2}}, "options step 3 there, 2 here"),
        ({"recipe": {"epochs": 2, "batch": 16}}, "recipe epochs 1 there, 2 here"),
    ],
)
def test_a_folder_made_with_another_specification_is_refused_with_the_difference(finished, changed, difference):
    found, folder = finished
    before = (found.folder / "study.json").read_text()
    with pytest.raises(OptionError) as error:
        run_quickly("freeze", folder, **changed)
    assert difference in str(error.value)
    assert "another `output`" in str(error.value)
    assert (found.folder / "study.json").read_text() == before


def test_a_finished_study_takes_more_seeds_and_runs_only_those(tmp_path):
    """Also where the first seeds were the usual number and the second is given."""
    few = run_quickly("freeze", tmp_path, layers=2, executor=MadeUp)
    ran = []

    class Counting(MadeUp):
        def answer(self, spec):
            ran.append(spec.recipe.seed)
            return super().answer(spec)

    more = run_quickly("freeze", tmp_path, seeds=4, executor=Counting)
    assert set(ran) == {2, 3}
    assert len(more.points) == 2 * len(few.points)
    elsewhere = run_quickly("freeze", tmp_path, seeds=4, executor=MadeUp, output=tmp_path / "at once")
    assert more.tables == elsewhere.tables
    with pytest.raises(OptionError, match="seeds 4 there, 2 here"):
        run_quickly("freeze", tmp_path, executor=MadeUp)


def test_a_folder_with_another_study_is_refused_by_its_name(finished):
    found, folder = finished
    with pytest.raises(OptionError) as error:
        run_quickly("surgical", folder, output=found.folder)
    assert str(error.value) == f"{found.folder}: contains the study freeze; choose another `output`"


def test_a_folder_from_before_there_was_an_option_can_be_gone_on_with(finished):
    found, folder = finished
    place = found.folder / "study.json"
    before = place.read_text()
    asked = json.loads(before)
    del asked["options"]["frozen_as_released"], asked["recipe"]["new_layer_rate"]
    place.write_text(json.dumps(asked))
    try:
        assert run_quickly("freeze", folder).tables == found.tables
        with pytest.raises(OptionError, match="options frozen_as_released false there, true here"):
            run_quickly("freeze", folder, options={"frozen_as_released": True})
    finally:
        place.write_text(before)


def test_a_study_goes_on_when_its_data_and_encoder_are_called_otherwise(finished, tmp_path, log_lines):
    found, folder = finished
    shutil.copytree(found.folder, tmp_path / "study")
    shutil.copytree(folder / "tiny", tmp_path / "called otherwise")
    shutil.copyfile(folder / "letters.csv", tmp_path / "renamed.csv")
    again = run_quickly("freeze", tmp_path, encoders=[str(tmp_path / "called otherwise")],
                        tasks=[str(tmp_path / "renamed.csv")], output=tmp_path / "study")  # fmt: skip
    assert not any("trials to run" in line for line in log_lines)
    assert [point.spec.id for point in again.points] == [point.spec.id for point in found.points]
    assert {point["task"] for point in again.points} == {"renamed"}


def asked_in(folder, **asked):
    """Ask for a study in a folder, in which there is a trial from then on."""
    usual = {"study": "reinitialise", "encoders": {}, "tasks": {}, "seeds": 3, "options": {}, "given": [],
             "recipe": Recipe().to_json(), "protocol": "held-out", "device": "cpu"}  # fmt: skip
    varies, only_looks = asked.pop("varies", ("epochs", "seeds")), asked.pop("only_looks", False)
    write_specification(folder, StudySpec.from_json(usual | asked), defaults={}, varies=varies, only_looks=only_looks)
    with Store(folder / "store.sqlite") as store:
        store.put(numbered(1), RESULT)
    return json.loads((folder / "study.json").read_text())["seeds"]


def test_what_papers_vary_unless_it_is_given_is_part_of_the_specification(tmp_path):
    """As many seeds as are usual are other trials where they are given: papers have more of them for few rows."""
    asked_in(tmp_path)
    asked_in(tmp_path)
    for seeds in (3, 5):  # five can be fewer than the paper has
        with pytest.raises(OptionError, match=r'given \[\] there, \["seeds"\] here'):
            asked_in(tmp_path, seeds=seeds, given=["seeds"])


def test_where_papers_vary_nothing_it_does_not_matter_what_is_given(tmp_path):
    assert asked_in(tmp_path, given=["seeds"], varies=()) == 3  # by an older version, say
    assert asked_in(tmp_path, varies=()) == 3
    assert asked_in(tmp_path, seeds=5, varies=()) == 5


def test_more_seeds_are_no_cover_for_another_number_of_epochs(tmp_path):
    asked_in(tmp_path, given=["epochs"])
    with pytest.raises(OptionError, match=r'given \["epochs"\] there, \["seeds"\] here'):
        asked_in(tmp_path, seeds=5, given=["seeds"])


def test_a_dry_run_leaves_what_was_asked_as_it_is(tmp_path):
    asked_in(tmp_path, given=["seeds"])
    assert asked_in(tmp_path, seeds=5, given=["seeds"], only_looks=True) == 3
    with pytest.raises(OptionError, match="seeds 3 there, 2 here"):
        asked_in(tmp_path, seeds=2, given=["seeds"], only_looks=True)
    assert asked_in(tmp_path, seeds=5, given=["seeds"]) == 5


def test_a_folder_from_before_an_option_existed_is_not_mixed_with_todays_protocol(tmp_path, log_lines):
    as_before = {"recipe": {**SHORT, "select": "best"}, "options": {"rate_per_seed": True}, "executor": MadeUp}
    found = run_quickly("freeze", tmp_path, layers=2, **as_before)
    path = found.folder / "study.json"
    written = json.loads(path.read_text())
    del written["options"]["rate_per_seed"]
    path.write_text(json.dumps(written))
    with pytest.raises(OptionError) as error:
        run_quickly("freeze", tmp_path, executor=MadeUp)
    assert "options rate_per_seed true there, false here" in str(error.value)
    assert 'recipe select "best" there, "last" here' in str(error.value)
    log_lines.clear()
    run_quickly("freeze", tmp_path, **as_before)
    assert not any("trials to run" in line for line in log_lines)
    today = run_quickly("freeze", tmp_path, output=tmp_path / "today", executor=MadeUp)
    assert not {point.spec.id for point in today.points} & {point.spec.id for point in found.points}


def test_a_study_that_was_refused_before_its_first_trial_does_not_block_its_folder(tmp_path):
    with pytest.raises(OptionError, match="step 0"):
        run_quickly("freeze", tmp_path, layers=2, options={"step": 0})
    found = run_quickly("freeze", tmp_path, layers=2)
    assert found.tables
    assert json.loads((found.folder / "study.json").read_text())["options"]["step"] != 0


def test_other_data_in_the_same_folder_are_refused(finished, tmp_path):
    _, folder = finished
    with pytest.raises(OptionError, match="task letters has other rows there"):
        run_quickly("freeze", folder, tasks=[str(write_rows(tmp_path / "letters.csv", 90))])
    with pytest.raises(OptionError, match="tasks letters there, more here"):
        run_quickly("freeze", folder, tasks=[str(write_rows(tmp_path / "more.csv", 90))])


def test_another_protocol_and_another_device_are_refused_by_their_names(finished, tmp_path):
    _, folder = finished
    with pytest.raises(OptionError, match='specification: protocol "held-out" there, "paper" here; use'):
        run_quickly("freeze", folder, protocol="paper")

    class Elsewhere(MadeUp):
        device = "cuda"

    with pytest.raises(OptionError, match='specification: device "cpu" there, "cuda" here; use'):
        run_quickly("freeze", folder, executor=Elsewhere)


def test_a_folder_of_which_all_trials_failed_is_no_obstacle(tmp_path):
    class Failing(MadeUp):
        def run(self, specs, *, keep=False):
            yield from ((spec, TrialResult(status="failed", reason="on purpose")) for spec in specs)

    assert run_quickly("freeze", tmp_path, layers=2, executor=Failing).failed
    found = run_quickly("freeze", tmp_path, executor=MadeUp, recipe={"epochs": 2, "batch": 16})
    assert any(point.is_done for point in found.points)


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "freeze").mkdir()
    (tmp_path / "freeze" / "thesis.txt").write_text("mine")
    with pytest.raises(OptionError, match="is neither a study's folder nor empty"):
        run_quickly("freeze", tmp_path, layers=2)
    assert (tmp_path / "freeze" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be an object"),
        ("null", "must be an object"),
        ("{}", "study: is missing"),
        ('{"study": 4}', "study: must be a valid string, not 4"),
        ('{"study": ""}', "study: names no study"),
        ('{"study": "freeze", "tasks": {"letters": 5}}', "tasks.letters: must be a valid array, not 5"),
        ('{"study": "freeze", "tasks": {"letters": []}}', "tasks.letters: has no fingerprint"),
        ('{"study": "freeze", "encoders": ["a"]}', "encoders: must be an object"),
        ('{"study": "freeze", "options": null}', "options: must be an object, not null"),
        ('{"study": "freeze", "given": 3}', "given: must be a valid array, not 3"),
        ('{"study": "freeze", "seeds": "two"}', 'seeds: must be a valid integer, not "two"'),
    ],
)
def test_a_damaged_specification_is_one_line(finished, tmp_path, content, problem):
    _, folder = finished
    (tmp_path / "freeze").mkdir()
    (tmp_path / "freeze" / "study.json").write_text(content)
    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    with pytest.raises(UserError) as error:
        run_quickly("freeze", tmp_path, **given)
    assert str(error.value).startswith(f"{tmp_path / 'freeze' / 'study.json'}: {problem}")
    assert str(error.value).endswith("; restore a copy of it, or choose another `output`")
    assert "\n" not in str(error.value)


def test_trials_without_what_was_asked_are_no_studys_folder(tmp_path):
    """A run's folder has trials, too, and one study's must not become another's."""
    with Store(tmp_path / "freeze" / "store.sqlite") as store:
        store.put(numbered(1), RESULT)
    with pytest.raises(OptionError, match="is neither a study's folder nor empty"):
        run_quickly("freeze", tmp_path, layers=2)


def test_what_is_in_the_way_is_said_before_anything_runs(tmp_path):
    found = run_quickly("freeze", tmp_path, layers=2, executor=MadeUp)
    shutil.rmtree(found.folder / "tables")
    (found.folder / "tables").write_text("mine")
    with pytest.raises(OptionError, match="tables: is a file where the tables go"):
        run_quickly("freeze", tmp_path)
    (found.folder / "tables").unlink()
    (found.folder / "tables.json").unlink()
    (found.folder / "tables.json").mkdir()
    with pytest.raises(UserError, match=r"tables\.json: cannot be read \(Is a directory\); delete it"):
        read_tables(found.folder)
    (found.folder / "tables.json").rmdir()
    (found.folder / "tables.json").write_text("{}")
    with pytest.raises(UserError, match=r"tables\.json: must be a valid array, not \{\}; delete it"):
        read_tables(found.folder)
    (found.folder / "study.json").unlink()
    (found.folder / "study.json").mkdir()
    with pytest.raises(OptionError, match="is neither a study's folder nor empty"):
        run_quickly("freeze", tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "freeze").write_text("mine")
    with pytest.raises(OptionError, match="is a file"):
        run_quickly("freeze", tmp_path, layers=2)


def test_two_processes_cannot_run_a_study_in_one_folder_and_a_killed_one_leaves_no_lock(finished):
    found, folder = finished
    script = (
        "import pathlib, sys, time\n"
        "from frostline.studies._engine.folder import lock_folder\n"
        "with lock_folder(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(300)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script, str(found.folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another process is running this study") as error:
            run_quickly("freeze", folder)
        assert "\n" not in str(error.value)
    finally:
        other.kill()
        other.communicate()
    assert run_quickly("freeze", folder).tables == found.tables


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seeds": 0}, "seeds 0: must be 1 or more"),
        ({"margin": 0.0}, "margin 0: must be above 0"),
        ({"recipe": {"epochs": 0}}, "recipe epochs 0"),
        ({"options": {"stpe": 2}}, "unknown option 'stpe' (did you mean step?)"),
        ({"options": {"step": "two"}}, "step 'two' must be a whole number"),
        ({"protocol": "papper"}, "unknown protocol 'papper'"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_written(tmp_path, given, message):
    with pytest.raises(UserError) as error:
        run_quickly("freeze", tmp_path, layers=2, **given)
    assert message in str(error.value)
    assert not (tmp_path / "freeze").exists()


def test_an_unknown_study_or_task_has_a_suggestion(tmp_path):
    with pytest.raises(OptionError, match=r"unknown study 'freez' \(did you mean freeze\?\)"):
        run_quickly("freez", tmp_path, layers=2)
    with pytest.raises(UserError, match="sst2"):
        run_quickly("freeze", tmp_path, layers=2, tasks=["glue/sst3"])


def test_the_same_task_or_encoder_twice_is_refused(finished):
    _, folder = finished
    with pytest.raises(OptionError, match="task letters: there are two of that name"):
        run_quickly("freeze", folder, tasks=[str(folder / "letters.csv")] * 2)
    with pytest.raises(OptionError, match="there are two of that name"):
        run_quickly("freeze", folder, encoders=[str(folder / "tiny")] * 2)
    one = load_encoder(folder / "tiny")
    other = copy.copy(one)
    other.revision = "another one"
    with pytest.raises(OptionError, match="there are two of that name"):
        run_quickly("freeze", folder, encoders=[one, other])


class Failing:
    """An executor of which every trial of one seed fails until it is mended."""

    device = "cpu"

    def __init__(self, materials, is_mended=False):
        self.inner, self.is_mended = Here(Context(materials=materials)), is_mended
        self.ran = []

    def run(self, specs, *, keep=False):
        for spec, result in self.inner.run(specs):
            self.ran.append(spec.id)
            lost = spec.recipe.seed == 1 and not self.is_mended
            yield spec, TrialResult(status="failed", reason="the loss is nan") if lost else result

    def close(self):
        pass


def test_failed_trials_are_counted_said_and_run_again_only_where_that_is_asked(finished, tmp_path):
    _, folder = finished
    made = []

    def failing(is_mended):
        return lambda materials: made.append(Failing(materials, is_mended)) or made[-1]

    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    found = run_quickly("freeze", tmp_path, executor=failing(False), **given)
    assert len(found.failed) == 3  # full tuning with seed 1, and what starts from its learning rate
    assert all("seed 1: the loss is nan" in line for line in found.failed)
    rows = found.tables[0].records()
    assert [(row["seeds"], row["failed"]) for row in rows] == [(1, 1)] * len(rows)
    for table in found.tables:
        assert any("3 of 6 trials failed and are left out" in note for note in table.notes)
    again = run_quickly("freeze", tmp_path, executor=failing(True), **given)
    assert made[-1].ran == []
    assert again.failed == found.failed
    mended = run_quickly("freeze", tmp_path, executor=failing(True), retry_failed=True, **given)
    assert mended.failed == ()
    assert len(made[-1].ran) == len({point.spec.id for point in mended.points if point["seed"] == 1})
    assert len(made[-1].ran) == 3  # those too that follow from a result which was itself run again


def test_plans_are_not_chosen_by_rows_that_no_trial_may_train_on(finished, tmp_path, monkeypatch):
    _, folder = finished
    seen = []
    measure = study_run.measure_layers

    def remember(encoder, task, *options, **more):
        seen.append(len(task.train))
        return measure(encoder, task, *options, **more)

    monkeypatch.setattr(study_run, "measure_layers", remember)
    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    study_with("surgical", output=tmp_path / "surgical", quick=True, rows=20, recipe={"epochs": 1}, estimate=False,
          cache=False, **given)  # fmt: skip
    assert seen == [20]


def test_a_file_that_was_being_written_when_a_study_was_killed_does_not_matter(finished, tmp_path):
    _, folder = finished
    (tmp_path / "freeze").mkdir()
    (tmp_path / "freeze" / ".study.json.123").write_text("{")
    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    assert run_quickly("freeze", tmp_path, **given).failed == ()


def test_a_task_without_test_rows_is_judged_on_validation(finished, tmp_path):
    _, folder = finished
    task = replace(load_task(str(folder / "letters.csv")), test=None)
    found = run_quickly("freeze", tmp_path, encoders=[str(folder / "tiny")], tasks=[task])
    assert found.failed == ()
    for point in found.points:
        assert set(point.result.predictions) == {"validation"}


def test_the_paper_protocol_is_labelled_optimistic(finished, tmp_path):
    _, folder = finished
    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    found = run_quickly("freeze", tmp_path, protocol="paper", recipe={**SHORT, "select": "best"}, **given)
    note = "letters: protocol 'paper': the epoch is chosen on the reported rows, so results are optimistic"
    for table in found.tables:
        assert note in table.notes
    with pytest.raises(OptionError, match="letters: is loaded already; give the protocol 'paper' when loading it"):
        run_quickly("freeze", tmp_path, protocol="paper", **{**given, "tasks": [load_task(given["tasks"][0])]})
    for point in found.points:
        assert point.result.metrics["validation"] == point.result.metrics["test"]


def test_the_paper_protocol_is_not_called_optimistic_where_nothing_is_chosen(finished, tmp_path):
    """The last epoch is kept, and one learning rate is no choice."""
    _, folder = finished
    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    found = run_quickly("freeze", tmp_path, protocol="paper", **given)
    note = "no validation rows are set apart, and nothing is chosen on the reported rows"
    for table in found.tables:
        assert f"letters: protocol 'paper': {note}" in table.notes
        assert not any("optimistic" in note for note in table.notes)


def test_a_file_with_optimistic_in_its_name_does_not_change_the_protocol(finished, tmp_path):
    _, folder = finished
    data = tmp_path / "optimistic_reviews.csv"
    data.write_bytes((folder / "letters.csv").read_bytes())
    assert any("optimistic_reviews.csv" in note for note in load_task(data).notes)  # the notes name the file
    found = run_quickly("freeze", tmp_path, encoders=[str(folder / "tiny")], tasks=[str(data)])
    assert json.loads((found.folder / "study.json").read_text())["protocol"] == "held-out"
    write_trials(found.folder, tmp_path / "trials.json")
    assert {trial["protocol"] for trial in json.loads((tmp_path / "trials.json").read_text())} == {"held-out"}
    for table in found.tables:
        assert not any("so results are optimistic" in note for note in table.notes)


def test_trials_of_two_versions_are_said_in_every_table(finished):
    found, folder = finished
    task = load_task(folder / "letters.csv")
    ask = Ask(encoders=(), tasks=(task,), seeds=2, rows=None, recipe=Recipe(), known=None, scores=None)
    assert not [note for note in notes_on_all(ask, found.points) if "trials ran with" in note]
    first, *others = found.points
    newer = replace(first.result, versions={**first.result.versions, "torch": "99.0"})
    said = [note for note in notes_on_all(ask, [replace(first, result=newer), *others]) if "trials ran with" in note]
    was = first.result.versions["torch"]
    assert said == [f"trials ran with torch {was} and 99.0, which may add differences of its own"]


def test_few_test_rows_are_said_in_every_table(finished):
    found, folder = finished
    count = len(load_task(folder / "letters.csv").test)
    for table in found.tables:
        assert f"letters: only {count} test rows, too few to decide anything by themselves" in table.notes


def test_it_says_how_many_trials_and_how_long_before_it_starts(finished, tmp_path, log_lines):
    _, folder = finished
    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    run_quickly("freeze", tmp_path, estimate=True, **given)
    assert log_lines[0] == "letters: columns guessed from their names: text = 'text', label = 'label'"
    assert log_lines[1].startswith("2 of 2 trials to run, 4 will follow from their results: about ")
    assert " to " in log_lines[1].split("about ")[1]


def test_a_dry_run_says_so_and_runs_nothing_and_the_study_goes_on_from_it(finished, tmp_path, log_lines):
    done, folder = finished
    given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")]}
    found = run_quickly("freeze", tmp_path, estimate=True, dry_run=True, **given)
    assert log_lines[1].startswith("2 of 2 trials to run, 4 will follow from their results: about ")
    assert (found.points, found.tables) == ((), ())
    assert len(read_trials(found.folder).rows) == 0
    assert read_tables(found.folder) == []
    assert run_quickly("freeze", tmp_path, **given).tables == done.tables


def test_an_encoder_is_the_same_by_whatever_path(finished, monkeypatch):
    found, folder = finished
    monkeypatch.chdir(folder)
    assert run_quickly("freeze", folder, encoders=["tiny"]).tables[0].rows[0][1:] == found.tables[0].rows[0][1:]


def test_layers_are_measured_with_the_threads_of_the_trials(finished, tmp_path, monkeypatch):
    _, folder = finished
    seen, measure = [], study_run.measure_layers
    monkeypatch.setattr(study_run, "measure_layers", lambda *given, **more: seen.append(torch.get_num_threads())
                        or measure(*given, **more))  # fmt: skip
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        given = {"encoders": [str(folder / "tiny")], "tasks": [str(folder / "letters.csv")], "dry_run": True}
        run_quickly("surgical", tmp_path, **given)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


# Results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_trials_are_exported_whole(finished, tmp_path, suffix):
    found, _ = finished
    path = tmp_path / f"trials.{suffix}"
    assert write_trials(found.folder, path) == len({point.spec.id for point in found.points})
    if suffix == "json":
        by_id = {one["id"]: one for one in json.loads(path.read_text())}
        for point in found.points:
            assert by_id[point.spec.id]["result"] == point.result.to_json()
            assert by_id[point.spec.id]["protocol"] == "held-out"
        return
    import pandas as pd

    frame = (pd.read_csv if suffix == "csv" else pd.read_parquet)(path).set_index("id")
    for point in found.points:
        row = frame.loc[point.spec.id]
        assert row["test_accuracy"] == point.result.metrics["test"]["accuracy"]  # every digit
        assert (row["seed"], row["batch"], row["threads"]) == (point["seed"], 16, 1)
        assert row["protocol"] == "held-out"
        assert (row["revision"], row["fingerprint"]) == (
            point.spec.encoder.revision,
            point.spec.task.fingerprint,
        )
        assert json.loads(row["versions"]) == point.result.versions


def test_an_export_to_something_else_and_a_folder_without_trials_are_refused(finished, tmp_path):
    found, _ = finished
    with pytest.raises(OptionError, match=r"must end in \.csv, \.json or \.parquet"):
        write_trials(found.folder, tmp_path / "trials.xlsx")
    with pytest.raises(OptionError, match=r"`export=.*trials.csv`: cannot be written \(No such file or directory\)"):
        write_trials(found.folder, tmp_path / "nowhere" / "trials.csv")
    with pytest.raises(OptionError, match="is a file; give the folder"):
        read_trials(found.folder / "store.sqlite")
    with pytest.raises(OptionError, match="contains no trials"):
        read_trials(tmp_path)
    with pytest.raises(OptionError, match="there is no such folder"):
        read_tables(tmp_path / "nowhere")


def test_a_study_that_was_stopped_says_how_far_it_is(finished, tmp_path):
    found, _ = finished
    assert describe_unfinished(found.folder) is None

    class Stopped(MadeUp):
        def run(self, specs, *, keep=False):
            yield from list(super().run(specs))[:2]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_quickly("freeze", tmp_path, layers=2, executor=Stopped)
    again = "; run the same `frostline study` command to continue it"
    assert describe_unfinished(tmp_path / "freeze") == f"this study is not finished: 2 of 6 trials are done{again}"
    run_quickly("freeze", tmp_path, executor=MadeUp)
    assert describe_unfinished(tmp_path / "freeze") is None
    with pytest.raises(KeyboardInterrupt):
        run_quickly("freeze", tmp_path, executor=Stopped, seeds=4)
    said = "this study is not finished: 8 of 12 trials are done; its tables are older"
    assert describe_unfinished(tmp_path / "freeze") == f"{said}{again}"
    (tmp_path / "freeze" / "progress.json").unlink()  # stopped before the first of the trials that are missing
    assert describe_unfinished(tmp_path / "freeze") == f"this study is not finished; its tables are older{again}"


# Kills ---------------------------------------------------------------------------------------------------------------


def recorded(folder):
    """Every finished trial and when it was recorded: one that ran twice would have a later time."""
    path = folder / "store.sqlite"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        try:
            return dict(file.execute("SELECT id, result FROM trials").fetchall())
        except sqlite3.Error:
            return {}


def kill_and_go_on(command, folder, *, kills, trials, draw):
    """Start the study, kill it again and again after a few more trials, and let it end at last."""
    known = {}
    # Each some time into the next trial after one or two more: else most would come while Python is starting.
    for number in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = len(known) + draw.randint(1, 2 if trials - len(known) > 3 * (kills - number) else 1)
        while process.poll() is None and len(recorded(folder)) < wanted:
            time.sleep(0.005)
        time.sleep(draw.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, f"kill {number} came when the study was over"
        now = recorded(folder)
        assert {key: now.get(key) for key in known} == known, f"kill {number} lost or repeated a finished trial"
        known = now
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    now = recorded(folder)
    assert {key: now.get(key) for key in known} == known
    return now


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("kills", "seeds", "workers"),
    [(2, 3, 1), pytest.param(20, 14, 2, marks=pytest.mark.slow), pytest.param(20, 14, 1, marks=pytest.mark.slow)],
)
def test_a_study_that_is_killed_again_and_again_loses_nothing_and_ends_with_the_same_tables(
    tmp_path, kills, seeds, workers
):
    encoder, data = save_tiny(tmp_path / "tiny", layers=2), write_rows(tmp_path / "letters.csv", 100)
    whole = run_quickly("freeze", tmp_path, seeds=seeds)
    command = [
        sys.executable, "-m", "frostline", "study", "freeze", "--quick", "--encoder", str(encoder),
        "--tasks", str(data), "--seeds", str(seeds), "--epochs", "1", "--batch", "16", "--no-cache",
        "--workers", str(workers), "--output", str(tmp_path / "killed"), "--no-estimate",
    ]  # fmt: skip
    trials = len({point.spec.id for point in whole.points})
    found = kill_and_go_on(command, tmp_path / "killed", kills=kills, trials=trials, draw=random.Random(kills))
    assert len(found) == trials
    for table in whole.tables:
        written = (tmp_path / "killed" / "tables" / f"{table.name}.csv").read_bytes()
        assert written == (tmp_path / "freeze" / "tables" / f"{table.name}.csv").read_bytes()


def test_the_order_in_which_trials_are_run_does_not_change_the_tables(tmp_path):
    class Shuffled(Here):
        def run(self, specs, *, keep=False):
            waiting = list(specs)
            first = waiting[0]
            random.Random(1).shuffle(waiting)
            assert waiting[0] != first
            return super().run(waiting)

    whole = run_quickly("freeze", tmp_path, layers=2, seeds=3)
    run_quickly("freeze", tmp_path, seeds=3, output=tmp_path / "shuffled",
                executor=lambda given: Shuffled(Context(materials=given)))  # fmt: skip
    for table in whole.tables:
        names = (tmp_path / name / "tables" / f"{table.name}.csv" for name in ("freeze", "shuffled"))
        assert len({place.read_bytes() for place in names}) == 1


def test_epochs_that_are_asked_for_go_before_the_papers_steps(tmp_path):
    given = {"quick": False, "layers": 2, "executor": MadeUp, "seeds": 1}
    for recipe, found in (({}, (4, 10_000, 3)), ({"epochs": 2}, (4, None, 2)), ({"steps": 5}, (4, 5, 3))):
        name = "-".join(map(str, recipe)) or "paper"
        points = run_quickly("skip", tmp_path, recipe=recipe, output=tmp_path / name, **given).points
        asked = points[0].spec.recipe
        assert (asked.batch, asked.steps, asked.epochs) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"rate": "nan"}}, "study truncate: rate 'nan' must be finite"),
        ({"options": {"head_rate": "inf"}}, "study truncate: head_rate 'inf' must be finite"),
        ({"margin": float("inf")}, "margin inf: must be above 0, and finite"),
    ],
)
def test_numbers_without_end_are_refused(tmp_path, given, message):
    with pytest.raises(OptionError, match=message):
        run_quickly("truncate", tmp_path, layers=2, **given)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OptionError, match=r"cannot be created \(Not a directory\); choose another `output`"):
        run_quickly("skip", tmp_path, layers=2, output=tmp_path / "file" / "study")


def test_trials_that_last_so_many_steps_say_no_epochs(tmp_path):
    found = run_quickly("skip", tmp_path, layers=2, executor=MadeUp, seeds=1, recipe={"steps": 5})
    (row,) = read_trials(found.folder).records()
    assert (row["steps"], row["epochs"]) == (5, None)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("freeze", {"rates": 9}, "study freeze: option rates 9 must be 1..5"),
        ("freeze", {"step": 0}, "study freeze: option step 0 must be 1 or more"),
        ("permute", {"orders": 0}, "study permute: option orders 0 must be 1 or more"),
        ("probing", {"probe_rate": -1}, "study probing: option probe_rate -1 must be 0 or more"),
        ("ranking", {"heads": 0}, "study ranking: option heads 0 must be 1 or more"),
        ("reinitialise", {"step": -1}, "study reinitialise: option step -1 must be 0 or more"),
        ("similarity", {"permutations": 0}, "study similarity: option permutations 0 must be 1 or more"),
        ("strategies", {"bottleneck": -1}, "study strategies: option bottleneck -1 must be 0 or more"),
        ("strategies", {"arms": "sideways"}, "unknown 'sideways'; choose from full, top-K"),
        ("surgical", {"most": 0}, "study surgical: option most 0 must be 1 or more"),
        ("truncate", {"head_rate": -1}, "study truncate: option head_rate -1 must be 0 or more"),
        ("skip", {"rate": -1}, "option rate -1 must be above 0"),
    ],
)
def test_an_option_that_cannot_be_is_blamed_alone(tmp_path, name, options, message):
    with pytest.raises(OptionError) as error:
        run_quickly(name, tmp_path, layers=3, options=options)
    assert message in str(error.value)


def test_an_option_that_names_the_same_thing_twice_does_not_double_the_seeds(tmp_path):
    once = run_quickly("reinitialise", tmp_path, layers=2, executor=MadeUp, options={"sizes": "40"})
    twice = run_quickly("reinitialise", tmp_path, executor=MadeUp, options={"sizes": "40+40"}, output=tmp_path / "two")
    assert len(once.points) == len(twice.points)
    assert once.tables == twice.tables
