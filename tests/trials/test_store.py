"""The store of trials: what is recorded comes back, another trial has another id, and kills lose nothing."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

from frostline.errors import UserError
from frostline.records import EncoderRef, Plan, Recipe, TaskRef, TrialResult, TrialSpec
from frostline.trials.store import FORMAT, Store

SPEC = TrialSpec(
    encoder=EncoderRef(name="tiny", revision="abc123"),
    task=TaskRef(name="weather", fingerprint="f00d", metrics=("accuracy",)),
    plan=Plan(layers=(2, 3), head=4, method="lora", options={"rank": 2}, because="a reason"),
    recipe=Recipe(learning_rate=1e-3, epochs=2, threads=1, seed=3),
    train_rows=100,
)
RESULT = TrialResult(
    status="done",
    metrics={"validation": {"accuracy": 1 / 3}},
    history=({"step": 4, "loss": 0.1 + 0.2, "validation_accuracy": 1 / 3},),
    predictions={"validation": (0, 1, 1)},
    parameters={"total": 10, "trainable": 4},
    seconds={"training": 0.125},
    versions={"python": "3"},
)
FAILED = TrialResult(status="failed", reason="training diverged at step 2: the loss is nan")

# Every number of a recipe, changed to another one that is allowed.
OTHER_RECIPES = {
    "learning_rate": 2e-3, "epochs": 3, "batch": 8, "accumulate": 2, "schedule": "constant", "warmup": 0.5,
    "weight_decay": 0.1, "clip": 0.0, "dropout": 0.0, "frozen_dropout": False, "head": "mean", "max_length": 9,
    "select": "last", "patience": 1, "evaluate_every": 5, "new_layer_rate": 2.0, "precision": "bfloat16",
    "cache_dtype": "float32", "threads": 2, "seed": 4,
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


def numbered(number: int) -> TrialSpec:
    return replace(SPEC, recipe=replace(SPEC.recipe, seed=number))


# What is recorded ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [RESULT, FAILED], ids=["done", "failed"])
def test_what_is_put_is_there_in_every_digit_when_the_store_is_opened_again(path, result):
    with Store(path) as store:
        store.put(SPEC, result)
    with Store(path) as store:
        assert store.get(SPEC) == result
        assert list(store) == [(SPEC, result)]
        assert len(store) == 1


def test_a_trial_that_was_not_run_is_not_there(path):
    with Store(path) as store:
        store.put(SPEC, RESULT)
        assert store.get(replace(SPEC, train_rows=None)) is None


def test_a_trial_that_is_put_again_replaces_the_first_one(path):
    with Store(path) as store:
        store.put(SPEC, FAILED)
        store.put(SPEC, RESULT)
        assert list(store) == [(SPEC, RESULT)]


def test_trials_come_in_the_order_in_which_they_were_finished(path):
    with Store(path) as store:
        for number in (5, 2, 9):
            store.put(numbered(number), RESULT)
        assert [spec.recipe.seed for spec, _ in store] == [5, 2, 9]


def test_a_number_that_is_not_finite_is_not_recorded(path):
    with Store(path) as store:
        with pytest.raises(ValueError, match="JSON"):
            store.put(SPEC, replace(RESULT, metrics={"validation": {"accuracy": float("nan")}}))
        assert len(store) == 0


def test_a_copy_is_whole_in_one_file_also_while_another_process_reads(path, tmp_path):
    with Store(path) as store, Store(path) as reader:
        for number in (5, 2, 9):
            store.put(numbered(number), RESULT)
        assert len(reader) == 3
        (tmp_path / "copy").mkdir()
        store.copy_to(tmp_path / "copy" / "store.sqlite")
    assert [file.name for file in (tmp_path / "copy").iterdir()] == ["store.sqlite"]
    with Store(tmp_path / "copy" / "store.sqlite") as copy:
        assert [spec.recipe.seed for spec, _ in copy] == [5, 2, 9]


# What is the same trial ----------------------------------------------------------------------------------------------


def test_every_part_of_a_recipe_is_part_of_the_id():
    assert OTHER_RECIPES.keys() == SPEC.recipe.to_json().keys()
    ids = {
        name: replace(SPEC, recipe=replace(SPEC.recipe, **{name: value})).id for name, value in OTHER_RECIPES.items()
    }
    assert len({SPEC.id, *ids.values()}) == len(OTHER_RECIPES) + 1


def test_everything_else_that_matters_is_part_of_the_id():
    others = [
        replace(SPEC, plan=replace(SPEC.plan, layers=(3,))),
        replace(SPEC, plan=replace(SPEC.plan, head=5)),
        replace(SPEC, plan=replace(SPEC.plan, method="full")),
        replace(SPEC, plan=replace(SPEC.plan, options={"rank": 4})),
        replace(SPEC, plan=Plan.span(1, 4, 4)),
        replace(SPEC, plan=Plan.span(1, 4, 4, embeddings=True)),
        replace(SPEC, train_rows=99),
        replace(SPEC, train_rows=None),
        replace(SPEC, encoder=replace(SPEC.encoder, revision="abc124")),
        replace(SPEC, task=replace(SPEC.task, fingerprint="f00e")),
        replace(SPEC, task=replace(SPEC.task, metrics=("macro_f1", "accuracy"))),
    ]
    assert len({SPEC.id, *(other.id for other in others)}) == len(others) + 1


def test_names_and_reasons_are_no_part_of_the_id():
    renamed = replace(
        SPEC,
        encoder=replace(SPEC.encoder, name="another name"),
        task=replace(SPEC.task, name="another name"),
        plan=replace(SPEC.plan, because="another reason"),
    )
    assert renamed.id == SPEC.id


def test_the_id_outlives_json():
    again = TrialSpec.from_json(json.loads(json.dumps(SPEC.to_json())))
    assert again == SPEC
    assert again.id == SPEC.id


# Files that are no store ---------------------------------------------------------------------------------------------


def test_a_file_that_is_no_store_is_one_line_and_stays_as_it_is(path):
    path.write_text("my thesis, " * 1000)
    with pytest.raises(UserError, match=r"store\.sqlite: is not a trial database \(file is not a database\)") as error:
        Store(path)
    assert "\n" not in str(error.value)
    assert path.read_text() == "my thesis, " * 1000


def test_a_folder_in_the_place_of_a_store_is_one_line(path):
    path.mkdir()
    with pytest.raises(UserError, match="is not a trial database") as error:
        Store(path)
    assert "\n" not in str(error.value)


def test_a_store_of_a_newer_format_is_one_line(path):
    with Store(path) as store:
        store._file.execute("INSERT INTO about VALUES (?)", (FORMAT + 1,))
    with pytest.raises(UserError, match=rf"was written by a newer Frostline \(format {FORMAT + 1}\)") as error:
        Store(path)
    assert "\n" not in str(error.value)


# As the first format had it: without kind, surgery, options and values, under an id of another hash.
OLD_SPEC = {
    "encoder": {"name": "tiny", "revision": "abc"},
    "task": {"name": "weather", "fingerprint": "f00d", "metrics": "accuracy"},
    "plan": {"layers": [2, 3], "head": 4, "method": "lora", "options": {"rank": 2}, "embeddings": False,
             "because": "a reason"},
    "recipe": {"learning_rate": 0.001, "epochs": 2, "batch": 32, "accumulate": 1, "schedule": "linear",
               "warmup": 0.06, "weight_decay": 0.0, "clip": 1.0, "dropout": None, "frozen_dropout": True,
               "head": "family", "max_length": None, "select": "best", "patience": None, "evaluate_every": None,
               "new_layer_rate": 1.0, "precision": "float32", "cache_dtype": "float16", "threads": 1, "seed": 3},
    "train_rows": 100,
}  # fmt: skip
OLD_RESULT = {
    "status": "done", "reason": "", "metrics": {"validation": {"accuracy": 0.5}},
    "history": [{"step": 4, "loss": 0.25}], "predictions": {"validation": [0, 1]},
    "parameters": {"total": 10, "trainable": 4}, "seconds": {"training": 0.125}, "versions": {"python": "3"},
}  # fmt: skip


def write_old_store(path, rows, *, form=1):
    with closing(sqlite3.connect(path)) as file, file:
        file.executescript(
            f"CREATE TABLE about (format INTEGER NOT NULL); INSERT INTO about VALUES ({form});"
            "CREATE TABLE trials (id TEXT PRIMARY KEY, spec TEXT NOT NULL, status TEXT NOT NULL, result TEXT NOT NULL,"
            " finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);"
        )
        for number, (spec, result) in enumerate(rows):
            told = (f"old-{number}", spec, "done", result, "2024-01-01 00:00:00")
            file.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?)", told)


def test_a_store_of_the_first_format_is_migrated_and_its_trials_are_found(path):
    write_old_store(path, [(json.dumps(OLD_SPEC), json.dumps(OLD_RESULT))])
    with Store(path) as store:
        found = store.get(TrialSpec.from_json(OLD_SPEC))
        assert found is not None
        assert (found.metrics, found.predictions) == ({"validation": {"accuracy": 0.5}}, {"validation": (0, 1)})
        assert found.values == {}
        assert len(store) == 1
    with closing(sqlite3.connect(path)) as file:
        ((known,),) = file.execute("SELECT format FROM about").fetchall()
        ((told, when),) = file.execute("SELECT spec, finished FROM trials").fetchall()
    assert (known, json.loads(told)["kind"], when) == (FORMAT, "tune", "2024-01-01 00:00:00")


@pytest.mark.parametrize("for_reading", [False, True])
def test_a_store_of_the_second_format_keeps_its_trials_and_their_ids(path, for_reading):
    task = {"name": "weather", "fingerprint": "f00d", "metrics": "macro_f1,accuracy"}
    second = {**OLD_SPEC, "task": task, "kind": "tune", "surgery": {}, "options": {"timed": True}}
    write_old_store(path, [(json.dumps(second), json.dumps({**OLD_RESULT, "values": {}}))], form=2)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE trials SET id = '9723c970f3fc2560'")
    with Store(path, for_reading=for_reading) as store:
        ((spec, result),) = store
        assert spec.task.metrics == ("macro_f1", "accuracy")
        assert store.get(spec) == result
        assert spec.to_json()["task"]["metrics"] == ["macro_f1", "accuracy"]


def test_a_migration_that_cannot_be_finished_changes_nothing(path):
    write_old_store(path, [(json.dumps(OLD_SPEC), json.dumps(OLD_RESULT)), ("{}", "{}")])
    with pytest.raises(UserError, match="contains a trial that cannot be read"):
        Store(path)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT format FROM about").fetchall() == [(1,)]
        assert [row for (row,) in file.execute("SELECT id FROM trials ORDER BY rowid")] == ["old-0", "old-1"]


def test_a_full_disk_is_one_line_and_what_is_recorded_stays(path):
    with Store(path) as store:
        store.put(SPEC, RESULT)
        (pages,) = store._file.execute("PRAGMA page_count").fetchone()
        store._file.execute(f"PRAGMA max_page_count = {pages}")  # the error that SQLite gives on a full disk
        large = replace(RESULT, predictions={"validation": tuple(range(10_000))})
        with pytest.raises(UserError, match="the disk is full; free some space") as error:
            store.put(numbered(1), large)
        assert "\n" not in str(error.value)
    with Store(path) as store:
        assert store.get(SPEC) == RESULT
        assert store.get(numbered(1)) is None


# Kills and readers ---------------------------------------------------------------------------------------------------


def test_the_log_is_written_ahead_and_synced_in_full(path):
    with Store(path) as store:
        assert store._file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._file.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


_PUT = """
import json, os, signal, sys
from dataclasses import replace
from pathlib import Path
from frostline.records import TrialResult, TrialSpec
from frostline.trials.store import Store

spec = TrialSpec.from_json(json.loads(sys.argv[2]))
result = TrialResult.from_json(json.loads(sys.argv[3]))
store = Store(Path(sys.argv[1]))
"""
_THEN_DIE = "store.put(spec, result); os.kill(os.getpid(), signal.SIGKILL)"
_DIE_HALF_WAY = """
store.put(spec, result)
store._file.execute("BEGIN")
store.put(replace(spec, train_rows=7), result)
os.kill(os.getpid(), signal.SIGKILL)
"""
_GO_ON = """
for number in range(100_000):
    store.put(replace(spec, train_rows=number), replace(result, reason="x" * 5000))
    print(number, flush=True)
"""


def start(path, script):
    arguments = [str(path), json.dumps(SPEC.to_json()), json.dumps(RESULT.to_json())]
    return subprocess.Popen([sys.executable, "-c", _PUT + script, *arguments], stdout=subprocess.PIPE, text=True)


def is_sound(path):
    """Whether SQLite itself finds nothing wrong."""
    with sqlite3.connect(path) as file:
        found = file.execute("PRAGMA integrity_check").fetchone()
    file.close()
    return found == ("ok",)


@pytest.mark.parametrize("script", [_THEN_DIE, _DIE_HALF_WAY], ids=["after a trial", "half-way through the next"])
def test_a_killed_process_loses_no_recorded_trial_and_leaves_no_half_one(path, script):
    process = start(path, script)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    with Store(path) as store:
        assert list(store) == [(SPEC, RESULT)]
    assert is_sound(path)


def test_a_process_that_is_killed_at_any_moment_leaves_every_trial_that_it_has_told_of(path):
    process = start(path, _GO_ON)
    told = [int(process.stdout.readline()) for _ in range(25)]
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    with Store(path) as store:
        found = [spec.train_rows for spec, result in store if result.reason == "x" * 5000]
    assert found[: len(told)] == told
    assert found == list(range(len(found)))
    assert is_sound(path)


def test_a_second_reader_sees_finished_trials_and_no_others(path):
    with Store(path) as writer, Store(path) as reader:
        writer.put(numbered(1), RESULT)
        assert reader.get(numbered(1)) == RESULT
        writer._file.execute("BEGIN IMMEDIATE")
        writer.put(numbered(2), RESULT)
        assert reader.get(numbered(2)) is None
        writer._file.execute("COMMIT")
        assert reader.get(numbered(2)) == RESULT


# Reading only --------------------------------------------------------------------------------------------------------


def test_reading_changes_nothing_and_leaves_nothing_beside_the_file(path):
    with Store(path) as store:
        store.put(numbered(1), RESULT)
    before = path.read_bytes()
    with Store(path, for_reading=True) as store:
        assert list(store) == [(numbered(1), RESULT)]
        assert [one.name for one in path.parent.iterdir()] == [path.name]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.put(numbered(2), RESULT)
    assert path.read_bytes() == before


def test_what_is_read_while_another_process_writes_is_what_was_finished(path):
    with Store(path) as writer:
        writer.put(numbered(1), RESULT)
        with Store(path, for_reading=True) as reader:
            assert len(reader) == 1
            writer.put(numbered(2), RESULT)
            assert len(reader) == 2


def test_a_store_of_the_first_format_is_read_as_it_is(path):
    write_old_store(path, [(json.dumps(OLD_SPEC), json.dumps(OLD_RESULT))])
    before = path.read_bytes()
    with Store(path, for_reading=True) as store:
        assert store.get(TrialSpec.from_json(OLD_SPEC)) is None  # its id is an older one
        assert [spec for spec, _ in store] == [TrialSpec.from_json(OLD_SPEC)]
    assert path.read_bytes() == before


def test_reading_what_a_killed_process_left_sees_all_of_it_and_changes_none(path):
    with Store(path) as store:
        store.put(numbered(1), RESULT)
        left = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    for name, content in left.items():  # as after a kill: what was recorded is still in the log
        path.with_name(name).write_bytes(content)
    log = path.with_name(f"{path.name}-wal")
    assert log.read_bytes()
    with Store(path, for_reading=True) as store:
        assert list(store) == [(numbered(1), RESULT)]
    assert (path.read_bytes(), log.read_bytes()) == (left[path.name], left[log.name])


def test_a_store_that_another_program_has_locked_is_one_line_that_says_so(path, monkeypatch):
    monkeypatch.setattr("frostline.trials.store._PATIENCE", 0.1)
    with Store(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UserError, match="another program has locked it; close that program") as error:
            store.put(numbered(1), RESULT)
        other.execute("ROLLBACK")
        store.put(numbered(1), RESULT)
    assert "remove" not in str(error.value)
    write_old_store(path.with_name("old.sqlite"), [(json.dumps(OLD_SPEC), json.dumps(OLD_RESULT))])
    with closing(sqlite3.connect(path.with_name("old.sqlite"), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match="another program has locked it"):
            Store(path.with_name("old.sqlite"))


def test_reading_what_is_no_store_is_one_line(path):
    path.write_text("my thesis, " * 1000)
    with pytest.raises(UserError, match=r"is not a trial database \(file is not a database\)"):
        Store(path, for_reading=True)
    with pytest.raises(UserError, match="is not a trial database"):
        Store(path.with_name("missing.sqlite"), for_reading=True)
    assert not path.with_name("missing.sqlite").exists()
