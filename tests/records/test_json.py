"""Every record survives JSON, and what is no such record is refused in one line with the path of the field."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.records.made_up import all_records, drawn

from frostline.costs.timing import Speed
from frostline.errors import RecordError
from frostline.records import LayerScores, Plan, Recipe, TrialResult, TrialSpec
from frostline.records._json import Number, Record, read
from frostline.records.table import Table
from frostline.training.freeze_audit import AuditReport
from frostline.trials.kept_models import KeptModel


@pytest.mark.parametrize("kind", [*all_records(), AuditReport, KeptModel, Speed], ids=lambda kind: kind.__name__)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_record_survives_json(kind, data):
    record = data.draw(drawn(kind))
    text = json.dumps(record.to_json(), allow_nan=False)
    for again in (kind.from_json(record.to_json()), kind.from_text(text)):
        assert again == record
        assert repr(again) == repr(record)  # a number stays whole, or does not become so


@dataclass(frozen=True, kw_only=True)
class Inner(Record):
    numbers: tuple[Number, ...] = ()
    word: Literal["a", "b"] = "a"


@dataclass(frozen=True, kw_only=True)
class Outer(Record):
    left_out_at_default = ("note",)

    name: str
    inner: dict[str, Inner]
    note: str = ""

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise ValueError("the name is bad")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"inner": {}}, "name: is missing"),
        ({"name": 3, "inner": {}}, "name: must be a valid string, not 3"),
        ({"name": "x", "inner": {"i": {"numbers": [1, "2"]}}}, 'inner.i.numbers[1]: must be a valid integer, not "2"'),
        ({"name": "x", "inner": {"i": {"numbers": [True]}}}, "inner.i.numbers[0]: must be a valid integer, not true"),
        ({"name": "x", "inner": {"one": {"numbers": 3}}}, "inner.one.numbers: must be a valid array, not 3"),
        ({"name": "x", "inner": {"one": {"word": "c"}}}, "inner.one.word: must be 'a' or 'b', not \"c\""),
        ({"name": "x", "inner": {"one": {"w": 1}}}, "inner.one.w: is unknown"),
        ({"name": "bad", "inner": {}}, "the name is bad"),
        ([1], "must be an object, not [1]"),
        (None, "must be an object, not null"),
    ],
)  # fmt: skip
def test_what_is_no_such_record_is_one_line_with_the_path_of_the_field(data, message):
    with pytest.raises(RecordError) as error:
        Outer.from_json(data)
    assert str(error.value) == message


def test_a_text_that_is_not_json_is_one_line():
    with pytest.raises(RecordError, match=r"^is not JSON \(EOF while parsing an object at line 1 column 1\)$"):
        Outer.from_text("{")
    with pytest.raises(RecordError, match=r"^is not JSON \(EOF while parsing"):
        LayerScores.from_text("{")


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path):
    (tmp_path / "outer.json").write_text('{"inner": {}}')
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match=r"outer\.json: name: is missing$"):
        Outer.from_file(tmp_path / "outer.json")
    with pytest.raises(RecordError, match=r"bytes\.json: is not text"):
        Outer.from_file(tmp_path / "bytes.json")


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(RecordError, match=r"numbers\[0\]: must be a"):
        Inner.from_json({"numbers": [float("nan")]})


def test_a_field_is_left_out_only_at_its_default():
    assert Outer(name="x", inner={}).to_json() == {"name": "x", "inner": {}}
    assert Outer(name="x", inner={}, note="n").to_json() == {"name": "x", "inner": {}, "note": "n"}


def test_several_records_are_read_as_one_value():
    table = Table(name="a", title="b", columns=("x",), rows=((1,), (None,)))
    assert read(tuple[Table, ...], json.dumps([table.to_json()])) == (table,)
    with pytest.raises(RecordError, match=r"^\[1\]\.title: is missing$"):
        read(tuple[Table, ...], json.dumps([table.to_json(), {"name": "a", "columns": [], "rows": []}]))


# Older versions ------------------------------------------------------------------------------------------------------


@settings(max_examples=5, deadline=None)
@given(spec=drawn(TrialSpec))
def test_metrics_in_one_word_are_those_of_the_first_stores(spec):
    old: dict[str, Any] = spec.to_json()
    old["task"] |= {"metrics": "macro_f1,accuracy"}
    assert TrialSpec.from_json(old).task.metrics == ("macro_f1", "accuracy")
    assert TrialSpec.from_text(json.dumps(old)).task.metrics == ("macro_f1", "accuracy")


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(new=drawn(LayerScores))
def test_a_measurement_whose_scores_have_no_names_is_read(new):
    old = new.to_json()
    for score in old["scores"].values():
        del score["name"]
    del old["left_out"]
    assert set(LayerScores.from_json(old).scores) == set(new.scores)
    assert {name: score.name for name, score in LayerScores.from_json(old).scores.items()} == {
        name: name for name in new.scores
    }


def test_fields_that_came_later_may_be_missing():
    assert TrialResult.from_json({"status": "failed", "reason": "no"}).cause == ""
    assert Recipe.from_json({}) == Recipe()
    assert Plan.from_json({"layers": [], "head": 3}) == Plan(layers=(), head=3)


# Weight --------------------------------------------------------------------------------------------------------------


def test_only_reading_imports_pydantic():
    code = (
        "import sys, frostline.records.plans; from frostline import Plan; "
        "p = Plan.span(1, 2, 3); p.to_json(); assert 'pydantic' not in sys.modules; "
        "assert Plan.from_json(p.to_json()) == p; assert 'pydantic' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
