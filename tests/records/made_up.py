"""Made-up records: some that other tests build on, and strategies that draw any record."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

import frostline.records
from frostline.records import Plan, Recipe, recipe
from frostline.records._json import Record
from frostline.records.budget import Budget
from frostline.records.compute import Compute
from frostline.records.encoder_and_task import MeasuredEncoder, MeasuredTask
from frostline.records.run import Decision, Judged, RaceEntry, RunRecord
from frostline.records.study import StudySpec
from frostline.records.table import Table


def measured_encoder(layers: int) -> MeasuredEncoder:
    """An encoder of this many layers."""
    return MeasuredEncoder(name="tiny", revision="abc", family="bert", layers=layers, width=8)


def measured_task(name: str = "letters") -> MeasuredTask:
    """A task with two classes."""
    return MeasuredTask(name=name, fingerprint="f00d", kind="classification", labels=("a", "b"), metric="accuracy")


def all_records() -> list[type[Record]]:
    """Every record of the package of records."""
    for module in pkgutil.iter_modules(frostline.records.__path__, "frostline.records."):
        importlib.import_module(module.name)
    return sorted(
        {one for one in _below(Record) if one.__module__.startswith("frostline.records.")}, key=lambda one: one.__name__
    )


def _below(kind: type[Record]) -> Iterator[type[Record]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


# Strategies ----------------------------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def drawn(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that a record's field may have."""
    if kind in _OWN:
        return _OWN[kind]
    if isinstance(kind, type) and issubclass(kind, Record):
        return by_fields(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, UnionType):
        return st.one_of(*map(drawn, inner))
    if origin is tuple:
        return st.lists(drawn(inner[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(st.text(), drawn(inner[1]), max_size=3)
    return _PLAIN[kind]


def by_fields(kind: type[Record], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A record with any values of the types of its fields; those with a default are not always given."""
    hints = get_type_hints(kind)
    own = {field.name: given.get(field.name, drawn(hints[field.name])) for field in fields(kind)}  # type: ignore[arg-type]
    return st.builds(kind, **own)


@st.composite
def _plans(draw: st.DrawFn) -> Plan:
    layers = tuple(sorted(draw(st.sets(st.integers(1, 30), max_size=5))))
    head = draw(st.integers(max([1, *layers]), 30))
    method = draw(st.sampled_from(["full", "lora"]))
    options = draw(st.dictionaries(st.text(), drawn(int | float | str | bool), max_size=3))
    is_whole = method == "full" and layers == tuple(range(1, head + 1))
    embeddings = is_whole and draw(st.booleans())
    because = draw(st.text())
    return Plan(layers=layers, head=head, embeddings=embeddings, method=method, options=options, because=because)


@st.composite
def _tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(st.text(), max_size=3))
    cell = drawn(str | int | float | bool | None)
    rows = draw(st.lists(st.tuples(*[cell] * len(columns)), max_size=3))
    strings = st.lists(st.text(), max_size=2).map(tuple)
    return Table(
        name=draw(st.text()), title=draw(st.text()), columns=tuple(columns), rows=tuple(rows), notes=draw(strings),
        settings=draw(st.dictionaries(st.text(), cell, max_size=2)),
    )  # fmt: skip


@st.composite
def _runs(draw: st.DrawFn) -> Any:
    entries = draw(st.lists(drawn(RaceEntry), min_size=1, max_size=3))
    ids = st.sampled_from([entry.trial for entry in entries])
    tests = st.lists(by_fields(Judged, trial=ids), max_size=2).map(tuple)
    race = st.just((tuple(entries[:1]), tuple(entries)))
    return draw(by_fields(RunRecord, decision=by_fields(Decision, chosen=ids), tests=tests, race=race))


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(), int: st.integers(), float: finite, bool: st.booleans(), NoneType: st.none(), Any: json_values,
}  # fmt: skip
_numbers = st.integers(1, 100) | st.floats(0.01, 100)
_shares = st.floats(0, 1, exclude_max=True)
_counts = st.integers(1, 10**6)


def _in_a_recipe(name: str, least: float) -> st.SearchStrategy[float]:
    if name in ("warmup", "dropout"):
        return _shares
    return _counts if isinstance(least, int) else _numbers


_tasks = st.dictionaries(st.text(), st.lists(st.text(), min_size=1, max_size=3).map(tuple), max_size=2)
_OWN: dict[Any, st.SearchStrategy[Any]] = {}
_OWN |= {
    Plan: _plans(),
    RunRecord: _runs(),
    StudySpec: st.deferred(lambda: by_fields(StudySpec, study=st.text(min_size=1), tasks=_tasks)),
    Table: _tables(),
    Recipe: by_fields(
        Recipe,
        soup=st.none(),
        layer_rates=st.none() | st.lists(_numbers, min_size=1, max_size=3).map(tuple),
        **{
            name: (st.none() if name in recipe._MAY_BE_NONE else st.nothing()) | _in_a_recipe(name, least)
            for name, least in recipe._LEAST.items()
        },
    )
    | st.builds(Recipe, schedule=st.just("averaged"), soup=st.lists(_numbers, min_size=1, max_size=3).map(tuple)),
    Budget: by_fields(
        Budget, minutes=st.none() | _numbers, max_trainable=st.none() | _numbers, max_latency=st.none() | st.just(1),
        max_memory=st.none() | _numbers, max_layers=st.none() | _counts, margin=st.none() | _numbers | st.just(0),
    ),
    Compute: st.builds(Compute, workers=_counts, device=st.text())
    | st.builds(Compute, on=st.text(), cpus_per_trial=_numbers, gpus_per_trial=_numbers | st.just(0)),
}  # fmt: skip
