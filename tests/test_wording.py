"""Results do not depend on words: with every note, title, description, display name and file name replaced, the same
plans are raced, the same one is chosen, and the tables hold the same numbers.

The words that take their place are those that code once looked for.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.search.race_tools import save_shallow, write_rows
from tests.studies.study_tools import SHORT, Nothing, save_tiny, study_with

import frostline
from frostline.charts import Results
from frostline.encoders.families import FAMILIES
from frostline.files.checksums import file_checksum
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES
from frostline.records import LayerScores, Plan, Recipe, TrialResult
from frostline.records.table import Table
from frostline.scoring.scores import LAYER_SCORES
from frostline.studies import STUDIES
from frostline.tasks import PRESETS, Task, load_task
from frostline.tasks.metrics import METRICS
from frostline.training.result import Tuned
from frostline.trials.store import Store

OTHER = "optimistic guessed full fine-tuning top-k middle left out: probe non_inferior the choice chosen sha256:+"
NAME = "optimistic guessed full top-1 order only left out probe cola all-MiniLM-L6-v2"
TEXTS = ("about", "alt", "because", "notes", "question", "subtitle", "summary", "title")


def reworded(value: Any) -> Any:
    """Other words in the place of a text, or of every text of a tuple; nothing stays nothing."""
    if isinstance(value, str):
        return OTHER if value else value
    return tuple(map(reworded, value)) if isinstance(value, tuple) else value


def texts_of(kind: type) -> list[str]:
    """The fields of a record that are there for people."""
    names = {field.name for field in dataclasses.fields(kind)}
    return [name for name in (*TEXTS, *(["source"] if kind is Task else [])) if name in names]


def records() -> list[type]:
    """Every record of the package that has a text for people."""
    skipped = ("frostline.__main__", "frostline.trials.ray_executor")  # one runs, the other needs an extra
    modules = [one.name for one in pkgutil.walk_packages(frostline.__path__, "frostline.") if one.name not in skipped]
    kinds = [value for name in modules for value in vars(importlib.import_module(name)).values()
             if isinstance(value, type) and dataclasses.is_dataclass(value) and texts_of(value)]  # fmt: skip
    return list(dict.fromkeys(kinds))


def reword(patch: pytest.MonkeyPatch) -> None:
    """Replace the texts of every record that is made from now on, and of every plug-in."""
    for kind in records():
        _reword_records(patch, kind)
    for registry in (FAMILIES, LAYER_SCORES, METHODS, METRICS, PRESETS, STRATEGIES, STUDIES):
        for _, plug_in in registry.items():
            for name in (*TEXTS, "note"):
                if name in vars(plug_in):
                    patch.setitem(vars(plug_in), name, reworded(vars(plug_in)[name]))


def _reword_records(patch: pytest.MonkeyPatch, kind: type) -> None:
    make, names = vars(kind)["__init__"], texts_of(kind)

    def make_with_other_words(self: Any, *values: Any, **fields: Any) -> None:
        make(self, *values, **fields)
        for name in names:
            object.__setattr__(self, name, reworded(getattr(self, name)))

    patch.setattr(kind, "__init__", make_with_other_words)


def test_the_records_that_are_reworded_are_those_with_notes_and_titles():
    assert {Plan, LayerScores, Table, Task, Tuned} <= set(records())
    assert TrialResult not in records()
    with pytest.MonkeyPatch.context() as patch:
        reword(patch)
        assert Plan.full(3).because == OTHER
        assert METRICS["accuracy"].summary == OTHER
        assert LayerScores.__init__ is not Table.__init__
    assert Plan.full(3).because != OTHER
    assert METRICS["accuracy"].summary != OTHER


# Runs ----------------------------------------------------------------------------------------------------------------


def run_in(folder: Path, encoder: Path, data: Path) -> dict[str, Any]:
    """What a run finds, without its words and timings."""
    recipe = Recipe(epochs=1, batch=16, threads=1)
    found = frostline.run(encoder, data, output=folder, recipe=recipe, cache=False)
    written = json.loads((folder / "run.json").read_text())
    words, timings = {"because", "name", "why"}, {"seconds"}
    facts = {key: written[key] for key in ("encoder", "task", "plan", "recipe", "decision", "tests", "race")}
    with Store(folder / "store.sqlite", for_reading=True) as store:
        trials = [(spec.id, result.status, result.metrics, result.predictions) for spec, result in store]
    return {
        **without(facts, words | timings),
        "proposals": without(written["proposals"], words | timings | {"low", "high"}),  # the ends of a cost are timed
        "trials": trials,
        "scores": {name: score.values for name, score in found.scores.scores.items()},
        "predictions": (folder / "predictions.jsonl").read_text(),
        "weights": file_checksum(folder / "model" / "model.safetensors"),
        "config": (folder / "model" / "config.json").read_text(),
        "has_report": (folder / "report.html").is_file(),
    }


def without(value: Any, keys: set[str]) -> Any:
    """Plain JSON values without what stands under these keys."""
    if isinstance(value, dict):
        return {key: without(inner, keys) for key, inner in value.items() if key not in keys}
    return [without(inner, keys) for inner in value] if isinstance(value, list) else value


def test_a_run_finds_the_same_whatever_things_are_called(tmp_path):
    encoder, data = save_shallow(tmp_path / "tiny"), write_rows(tmp_path / "letters.csv", 120)
    usual = run_in(tmp_path / "run", encoder, data)
    assert len(usual["race"][-1]) > 1
    assert len(usual["tests"]) > 2  # the choice and baselines
    shutil.copytree(encoder, tmp_path / NAME)
    shutil.copyfile(data, tmp_path / f"{NAME}.csv")
    with pytest.MonkeyPatch.context() as patch:
        reword(patch)
        other = run_in(tmp_path / f"{NAME} run", tmp_path / NAME, tmp_path / f"{NAME}.csv")
    assert other == usual


# Studies -------------------------------------------------------------------------------------------------------------

STUDIED: dict[str, dict[str, Any]] = {
    "freeze": {"step": 1},
    "strategies": {"arms": "full+top-1+down-1+middle-1+random-1", "rates": 2},
    "surgical": {},
    "permute": {"orders": 2, "size": 0},
    "probing": {"scores": "variability,cca,probe.linear,change,probe.head"},
}


def study_in(name: str, folder: Path, encoder: Path, data: Path) -> dict[str, Any]:
    """What a study finds, with the names of its encoder and task replaced by their roles."""
    asked = frostline.StudyOptions(
        encoders=[encoder], tasks=[data], options=STUDIED[name], quick=True, seeds=2, recipe=SHORT
    )
    found = frostline.study(name, asked, output=folder, cache=False, estimate=False)
    task = load_task(data)
    written = json.loads((folder / "study.json").read_text())
    roles = {str(encoder): "ENCODER", task.name: "TASK"}
    tables = {table.name: table for table in found.tables}
    figures = STUDIES[name].draw(Results(tables=tables, options=written["options"]))
    drawn = [[figure.name, len(figure.rows), figure.paper] for figure in figures]
    return {
        "points": [[point.spec.id, point.is_candidate, point.result.status, point.result.metrics,
                    point.result.predictions] for point in found.points],
        "tables": {name: [[roles.get(str(cell), cell) for column, cell in record.items()
                           if not column.startswith(_TIMES)] for record in table.records()]
                   for name, table in tables.items()},
        "settings": {name: table.settings for name, table in tables.items()},
        "figures": drawn,
        "asked": {key: written[key] for key in ("seeds", "rows", "options", "recipe", "protocol", "given")},
        "fingerprint": task.fingerprint,
    }  # fmt: skip


_TIMES = "seconds_"


@pytest.mark.parametrize("name", STUDIED)
def test_a_study_finds_the_same_whatever_things_are_called(name, tmp_path):
    encoder, data = save_tiny(tmp_path / "tiny", layers=3), write_rows(tmp_path / "letters.csv", 120)
    usual = study_in(name, tmp_path / "study", encoder, data)
    assert usual["points"]
    assert usual["figures"]
    shutil.copytree(encoder, tmp_path / NAME)
    shutil.copyfile(data, tmp_path / f"{NAME}.csv")
    with pytest.MonkeyPatch.context() as patch:
        reword(patch)
        other = study_in(name, tmp_path / f"{NAME} study", tmp_path / NAME, tmp_path / f"{NAME}.csv")
    assert other == usual


@pytest.mark.parametrize("called", ["cola", "glue/cola", "glue/sst2", "glue/qqp", NAME])
def test_a_task_that_is_called_like_a_preset_is_not_taken_for_it(called, tmp_path):
    """Papers treat CoLA, QQP and others in ways of their own."""
    encoder, task = save_tiny(tmp_path / "tiny", layers=3), load_task(write_rows(tmp_path / "letters.csv", 60))
    for name in ("freeze", "strategies", "probing"):
        seen = []
        for number, given in enumerate((task, dataclasses.replace(task, name=called))):
            found = study_with(name, encoders=[encoder], tasks=[given], output=tmp_path / f"{name} {number}",
                               options=STUDIED[name], seeds=1, cache=False, estimate=False,
                               executor=Nothing)  # fmt: skip
            seen.append([point.spec.id for point in found.points])
            seen[-1] += [dict(table.settings) for table in found.tables]
        assert seen[0] == seen[1]
