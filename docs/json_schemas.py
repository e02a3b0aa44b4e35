"""The JSON schemas of all files that Frostline writes, from the records that they are read into."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from frostline.records import LayerScores, Plan, Recipe, TrialResult, TrialSpec
from frostline.records._json import Number, Record, adapter
from frostline.records.folder import FolderInfo
from frostline.records.plans import Plans
from frostline.records.prediction import Evaluation, PredictedRow
from frostline.records.run import RunRecord
from frostline.records.study import StudyOutcome, StudyProgress, StudySpec
from frostline.records.table import Table
from frostline.records.tuned import FrostlineModel, TuningResult

# By the name of the schema: what it describes, and its type.
SCHEMAS: Mapping[str, tuple[str, Any]] = {
    "frostline": ("`frostline.json`", FolderInfo),
    "scores": ("`scores.json`, `measure --json`", LayerScores),
    "plan": ("`plan.json`", Plan),
    "recipe": ("`recipe.json`", Recipe),
    "result": ("`result.json`; `tune --json` adds `folder`", TuningResult),
    "run": ("`run.json`; `run --json` adds `folder`", RunRecord),
    "metrics": ("a line of `metrics.jsonl`", dict[str, Number]),
    "predictions": ("a line of `predictions.jsonl`, a row of `predict --json`", PredictedRow),
    "tables": ("`tables.json`", tuple[Table, ...]),
    "study": ("`study.json`", StudySpec),
    "progress": ("`progress.json`, while a study runs", StudyProgress),
    "trial_spec": ("the column `spec` of `store.sqlite`", TrialSpec),
    "trial_result": ("the column `result` of `store.sqlite`", TrialResult),
    "model": ("`model/frostline-model.json`, of a model that only Frostline can load", FrostlineModel),
    "plans": ("`plan --json`", Plans),
    "evaluation": ("`evaluate --json`", Evaluation),
    "study_outcome": ("`study --json`", StudyOutcome),
}


def schema(name: str) -> dict[str, Any]:
    """Return a JSON schema, with the descriptions that the records' docstrings give to their fields."""
    what, kind = SCHEMAS[name]
    made = adapter(kind).json_schema()
    parts = {record.__name__: record for record in _below(Record)}
    for title, part in {**made.get("$defs", {}), made.get("title", ""): made}.items():
        if title in parts:
            _describe(part, parts[title])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_tidy(made), "title": what.replace("`", "")}


def _describe(part: dict[str, Any], record: type[Record]) -> None:
    summary, _, rest = (inspect.getdoc(record) or "").partition("\n")
    arguments = {match[1]: " ".join(match[2].split()) for match in _ARGUMENT.finditer(rest)}
    part["description"] = summary
    for field, about in part["properties"].items():
        about["description"] = arguments[field]


_ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_EITHER_NUMBER = [{"type": "integer"}, {"type": "number"}]


def _tidy(value: Any) -> Any:
    """Return the schema without titles that repeat names, and with one word for any number."""
    if isinstance(value, list):
        return [_tidy(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: _tidy(part) for key, part in value.items() if not (key == "title" and isinstance(part, str))}
    options = made.get("anyOf", [])
    if all(part in options for part in _EITHER_NUMBER):
        options = [part for part in options if part != {"type": "integer"}]
        made = {key: part for key, part in made.items() if key != "anyOf"} | (
            {"anyOf": options} if len(options) > 1 else options[0]
        )
    return made


def _below(kind: type[Record]) -> list[type[Record]]:
    return [one for below in kind.__subclasses__() for one in (below, *_below(below))]
