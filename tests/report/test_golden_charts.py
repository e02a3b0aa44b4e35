"""Charts of runs, measurements and tuned models equal the specifications that were written down.

FROSTLINE_WRITE_GOLDEN=1 writes them anew; look at the charts and at the difference before it is committed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import vl_convert
from tests.report.report_tools import make_measurement, make_run, make_tuned

from frostline.charts.theme import config
from frostline.report.opened import open_folder
from frostline.report.pages import page_of
from frostline.report.run_figures import race_rows

GOLDEN = Path(__file__).parent / "golden"
MAKE = {
    "measurement": make_measurement,
    "run": make_run,
    "tuned": make_tuned,
    "regression": lambda folder: make_tuned(folder, kind="regression"),
}


@pytest.mark.parametrize("name", MAKE)
def test_the_charts_are_those_that_were_written_down(name, tmp_path):
    figures = page_of(open_folder(MAKE[name](tmp_path / name))).figures
    told = [{"name": one.name, "title": one.title, "alt": one.alt, "spec": one.spec} for one in figures]
    place = GOLDEN / f"{name}.json"
    if os.environ.get("FROSTLINE_WRITE_GOLDEN"):
        place.write_text(json.dumps(told, indent=1) + "\n")
    assert json.loads(json.dumps(told)) == json.loads(place.read_text())
    for one in figures:
        assert vl_convert.vegalite_to_vega({**one.spec, "config": config()})["marks"]


def test_the_front_holds_the_plans_that_none_beats_at_less_time(tmp_path):
    rows = {row["plan"]: row for row in race_rows(open_folder(make_run(tmp_path / "run")))}
    assert {plan for plan, row in rows.items() if row["on_front"]} == set(rows)
    assert [row["role"] for row in rows.values()] == ["chosen", "tried", "tried"]
    assert rows["(2, 3, 3)"]["trainable"] == 300


def test_the_title_of_a_race_says_what_the_choice_saves_and_loses(tmp_path):
    figures = {one.name: one for one in page_of(open_folder(make_run(tmp_path / "run"))).figures}
    assert figures["race"].title == "(2, 3, 3) takes 33% of the time of (1, 3, 3), 1.0 points below it"
    assert figures["tests"].title == (
        "The choice reaches 79.0 points of accuracy on the test rows, -0.5 (-1.5 to +0.5) against full fine-tuning"
    )
