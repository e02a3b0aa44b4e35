"""Charts of runs, measurements and tuned models have the titles, marks, fields and values that they should have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.charts.figure_facts import check_figures
from tests.report.report_tools import make_measurement, make_run, make_tuned, some_run

from frostline.report.pages import page_of
from frostline.report.result_folder import open_folder
from frostline.report.run_figures import race_rows

CHARTS = Path(__file__).parent / "charts"
MAKE = {
    "measurement": make_measurement,
    "run": make_run,
    "tuned": make_tuned,
    "regression": lambda folder: make_tuned(folder, kind="regression"),
}


@pytest.mark.parametrize("name", MAKE)
def test_the_charts_claim_and_draw_what_the_folder_holds(name, tmp_path):
    figures = page_of(open_folder(MAKE[name](tmp_path / name))).figures
    check_figures(figures, CHARTS / f"{name}.txt")


def test_the_front_holds_the_plans_that_none_beats_at_less_time():
    rows = {row["plan"]: row for row in race_rows(some_run())}
    assert {plan for plan, row in rows.items() if row["on_front"]} == set(rows)
    assert [row["role"] for row in rows.values()] == ["chosen", "tried", "tried"]
    assert rows["(2, 3, 3)"]["trainable"] == 300


def test_the_title_of_a_race_says_what_the_choice_saves_and_loses(tmp_path):
    figures = {one.name: one for one in page_of(open_folder(make_run(tmp_path / "run"))).figures}
    assert figures["race"].title == "(2, 3, 3) takes 33% of the time of (1, 3, 3) full, 1.0 points below it"
    assert figures["tests"].title == (
        "The chosen plan reaches 79.0 points of accuracy on the test rows, -0.5 (-1.5 to +0.5) against full fine-tuning"
    )
