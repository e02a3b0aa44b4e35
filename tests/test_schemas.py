"""The JSON schemas in the docs are current, and the files that commands write are as they say."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from docs import generate
from docs.json_schemas import SCHEMAS, schema
from tests.records.made_up import all_records
from tests.search.race_tools import save_shallow, write_rows

from frostline.cli import invoke

SHORT = ("--epochs", "1", "--batch", "64", "--threads", "1")
# Files of JSON that have no schema of ours: those of the stock model.
STOCK = {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json"}


def test_the_schemas_in_the_docs_are_current():
    for path, text in generate.schema_files().items():
        assert path.read_text(encoding="utf-8") == text, "run `make docs`"
    assert {path.name for path in (generate.DOCS / "schemas").iterdir()} == {f"{name}.json" for name in SCHEMAS}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one_and_describes_every_field_of_its_records(name):
    made = schema(name)
    jsonschema.Draft202012Validator.check_schema(made)
    for part in (made, *made.get("$defs", {}).values()):
        for field, about in part.get("properties", {}).items():
            assert about["description"], f"{part['description']} {field}"


def check(value: Any, name: str) -> None:
    jsonschema.Draft202012Validator(schema(name)).validate(value)


def test_a_record_that_is_written_is_as_its_schema_says_and_one_with_another_field_is_not():
    with pytest.raises(jsonschema.ValidationError, match="'layer' was unexpected"):
        check({"layers": [1], "head": 2, "layer": 3}, "plan")
    with pytest.raises(jsonschema.ValidationError, match="'one' is not of type 'integer'"):
        check({"layers": ["one"], "head": 2}, "plan")
    check({"layers": [1], "head": 2}, "plan")


def test_every_record_is_in_some_schema():
    described = {part for name in SCHEMAS for part in (*schema(name).get("$defs", {}),)}
    described |= {kind.__name__ for _, kind in SCHEMAS.values() if hasattr(kind, "__name__")}
    missing = {record.__name__ for record in all_records()} - described
    assert missing <= {"Compute", "EncoderRef"}, missing  # one is never written, the other is what others extend


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What run, measure, tune (of both kinds of models) and study write, and what they print as JSON."""
    folder = tmp_path_factory.mktemp("written")
    model, rows = str(save_shallow(folder / "tiny")), str(write_rows(folder / "letters.csv", 60))
    both = (rows, "--model", model)
    commands = {
        "run": ["run", *both, *SHORT, "--output", str(folder / "run")],
        "tune": ["tune", *both, *SHORT, "--plan", "2,2,2", "--output", str(folder / "tuned")],
        "own": ["tune", *both, *SHORT, "--plan", "2,2,2", "--head", "mean", "--output", str(folder / "own")],
        "measure": ["measure", *both, "--threads", "1", "--save", str(folder / "measured")],
        "plan": ["plan", *both, *SHORT],
        "evaluate": ["evaluate", str(folder / "tuned"), rows],
        "predict": ["predict", str(folder / "tuned"), rows],
        "study": ["study", "freeze", "--encoder", model, "--tasks", rows, "--seeds", "1", *SHORT, "--no-estimate",
                  "--output", str(folder / "study")],
    }  # fmt: skip
    for name, command in commands.items():
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert invoke([*command, "--json"]) == 0, name
        (folder / f"{name}.printed").write_text(out.getvalue())
    return folder


@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("run", {"frostline", "plan", "recipe", "result", "run", "scores", "metrics", "predictions"}),
        ("tuned", {"frostline", "plan", "recipe", "result", "metrics", "predictions"}),
        ("own", {"frostline", "plan", "recipe", "result", "metrics", "predictions", "model"}),
        ("measured", {"frostline", "scores"}),
        ("study", {"frostline", "study", "tables"}),
    ],
)
def test_every_file_of_a_folder_is_as_its_schema_says(written, folder, files):
    seen = set()
    for path in sorted((written / folder).rglob("*.json*")):
        if path.name in STOCK:
            continue
        name = "model" if path.name == "frostline-model.json" else path.stem
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        for line in lines:
            check(json.loads(line), name)
        seen.add(name)
    assert seen == files


@pytest.mark.parametrize("folder", ["run", "study"])
def test_trials_in_a_store_are_as_their_schemas_say(written, folder):
    with sqlite3.connect(written / folder / "store.sqlite") as store:
        rows = store.execute("SELECT spec, result FROM trials").fetchall()
    assert rows
    for spec, result in rows:
        check(json.loads(spec), "trial_spec")
        check(json.loads(result), "trial_result")


@pytest.mark.parametrize(
    ("command", "name"),
    [("run", "run"), ("tune", "result"), ("measure", "scores"), ("plan", "plans"), ("evaluate", "evaluation"),
     ("study", "study_outcome")],
)  # fmt: skip
def test_what_commands_print_as_json_is_as_its_schema_says(written, command, name):
    printed = json.loads((written / f"{command}.printed").read_text())
    if command in ("run", "tune"):
        assert Path(printed.pop("folder")).is_dir()
    check(printed, name)


def test_printed_predictions_are_rows_of_their_schema(written):
    for row in json.loads((written / "predict.printed").read_text())["rows"]:
        check(row, "predictions")
