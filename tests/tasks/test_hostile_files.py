"""Whatever bytes a file holds: a task, or one line. Never a traceback."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frostline.errors import UserError
from frostline.tasks import Task, load_task

GOOD = pd.DataFrame({"text": [f"sentence {i}" for i in range(30)], "label": [("no", "yes")[i % 2] for i in range(30)]})
SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".csv.gz")


def attempt(path: Path) -> None:
    try:
        assert isinstance(load_task(path), Task)
    except UserError as refused:
        assert len(str(refused).splitlines()) == 1
        assert str(refused).startswith(str(path))


def good_bytes(suffix: str, path: Path) -> bytes:
    if suffix == ".parquet":
        GOOD.to_parquet(path)
    elif suffix in (".jsonl", ".json"):
        GOOD.to_json(path, orient="records", lines=suffix == ".jsonl")
    else:
        GOOD.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    return path.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300))
def test_random_bytes_are_refused_in_one_line(suffix: str, content: bytes, tmp_path: Path):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    attempt(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_good_file_with_a_few_bytes_changed_loads_or_is_refused_in_one_line(
    suffix: str, data: st.DataObject, tmp_path: Path
):
    path = tmp_path / f"a{suffix}"
    content = bytearray(good_bytes(suffix, path))
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content))
    attempt(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.lists(st.fixed_dictionaries({}, optional={"text": _JSON, "label": _JSON}), min_size=1, max_size=8))
def test_any_json_rows_load_or_are_refused_in_one_line(cells: list[dict[str, object]], tmp_path: Path):
    import json

    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, cells)), encoding="utf-8")
    attempt(path)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.text() | st.none() | st.floats() | st.integers(), min_size=6, max_size=6),
    labels=st.lists(
        st.none() | st.integers() | st.booleans() | st.text(max_size=3) | st.floats(), min_size=6, max_size=6
    ),
)
def test_any_frame_loads_or_is_refused_in_one_line(texts: list[object], labels: list[object]):
    try:
        load_task(pd.DataFrame({"text": texts, "label": labels}))
    except UserError as refused:
        assert len(str(refused).splitlines()) == 1
