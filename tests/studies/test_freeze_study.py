"""Frozen layers: which tasks count for the operating point."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly

from frostline.charts import Results
from frostline.records.table import table_of
from frostline.studies import STUDIES
from frostline.studies.freeze.figures import most_frozen
from frostline.tasks import load_task

SHARES = [
    {"encoder": "tiny", "layers": 4, "task": task, "frozen": frozen, "share_of_full": share, "informative": True}
    for task, shares in {"cola": (1.0, 0.5), "letters": (1.0, 0.95)}.items()
    for frozen, share in zip((0, 2), shares, strict=True)
]


@pytest.mark.parametrize(("preset", "aside"), [("glue/cola", ["cola"]), ("glue/sst2", []), (None, [])])
def test_cola_is_set_aside_by_its_preset_and_not_by_its_name(preset, aside, tmp_path):
    task = replace(load_task(write_rows(tmp_path / "cola.csv", 120)), preset=preset)
    found = run_quickly("freeze", tmp_path, layers=2, tasks=[task], executor=MadeUp)
    (shares,) = (table for table in found.tables if table.name == "share")
    assert shares.settings == {"set_aside": aside}


def test_a_task_that_is_set_aside_does_not_count_for_the_operating_point():
    assert most_frozen(SHARES, ("share_of_full",), aside=["cola"]) == 2
    assert most_frozen(SHARES, ("share_of_full",), aside=[]) == 0


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"set_aside": []}, "none of the depths"), ({"set_aside": ["cola"]}, "2 of 2"), ({}, "2 of 2")],
)
def test_figures_set_aside_what_the_table_does_and_cola_where_it_does_not_say(settings, most):
    tables = {"share": table_of("share", "Shares", SHARES, settings=settings)}
    (figure,) = (one for one in STUDIES["freeze"].draw(Results(tables=tables)) if one.name == "share")
    assert most in figure.title
