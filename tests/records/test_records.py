"""Records check themselves and survive JSON."""

from __future__ import annotations

import json

import pytest

from frostline.errors import OptionError
from frostline.records import LayerScore, Plan
from frostline.records.table import Table, table_of


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Plan.full(12), "(1, 12, 12)"),
        (Plan.span(9, 10, 12), "(9, 10, 12)"),
        (Plan(layers=(2, 5, 9), head=12), "(layers 2+5+9, head 12)"),
        (Plan(layers=(), head=4), "head only at 4"),
    ],
)
def test_a_plan_prints_as_a_triple_where_it_is_contiguous(plan, text):
    assert str(plan) == text


def test_a_plan_survives_json():
    plan = Plan.span(3, 5, 6, because="layer 5 is the best")
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_table_survives_json():
    table = table_of("quality", "Quality", [{"arm": "full", "mean": 0.5}], notes=["a note"], settings={"margin": 2.0})
    assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table


def test_a_table_from_before_settings_were_written_can_be_read():
    written = table_of("quality", "Quality", [{"arm": "full"}], settings={"margin": 2.0}).to_json()
    del written["settings"]
    assert Table.from_json(written).settings == {}


def test_only_full_fine_tuning_trains_the_embeddings():
    assert Plan.full(6).embeddings
    assert not Plan.span(1, 5, 5).embeddings


@pytest.mark.parametrize(
    ("layers", "head", "message"),
    [
        ((3, 2), 6, "different numbers from 1, ascending"),
        ((2, 2), 6, "different numbers from 1, ascending"),
        ((0, 1), 6, "different numbers from 1, ascending"),
        ((5, 6), 5, "plan head 5: must not lie below layer 6"),
        ((), -1, "plan head -1"),
    ],
)
def test_an_impossible_plan_is_refused(layers, head, message):
    with pytest.raises(OptionError, match=message):
        Plan(layers=layers, head=head)


def score(values, better="low"):
    return LayerScore(name="s", better=better, values=tuple(values))


def test_the_best_layer_is_never_the_embeddings_nor_an_undefined_one():
    assert score([0.1, None, 0.5, 0.4]).best == 3
    assert score([0.1, None, 0.5, 0.4], better="high").best == 2
    assert score([0.1, None, None]).best is None


def test_of_equal_layers_the_lowest_is_the_best():
    assert score([9, 2, 1, 1]).best == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_a_bug(value):
    with pytest.raises(ValueError, match="not finite"):
        score([1.0, value])
