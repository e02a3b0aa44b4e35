"""Figures of studies: drawn from tables alone, with the titles, marks, fields and values that they should have.

`tests/studies/drawn/STUDY/` holds tables as CSV files and what matters of their figures as `figures.txt`.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.charts.figure_facts import check_figures, check_valid

from frostline.charts import Results
from frostline.records.table import Table
from frostline.studies import STUDIES
from frostline.studies.strategies import plans_of_xie
from frostline.studies.strategies.figures import _kind

DRAWN, GOLDEN = Path(__file__).parent / "drawn", Path(__file__).parent / "golden"


def read_table(path):
    """The table of a CSV file: numbers, truth values, text, and nothing where a cell is empty."""
    columns, *rows = csv.reader(path.read_text().splitlines())
    return Table(name=path.stem, title=path.stem, columns=tuple(columns),
                 rows=tuple(tuple(cell(one) for one in row) for row in rows))  # fmt: skip


def cell(text):
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@pytest.fixture(scope="module", params=STUDIES.names())
def drawn(request):
    """The study's name and its figures."""
    folder = DRAWN / request.param
    tables = {path.stem: read_table(path) for path in sorted(folder.glob("*.csv"))}
    assert tables, f"{folder} has no tables"
    return request.param, STUDIES[request.param].draw(Results(tables=tables))


def test_the_figures_claim_and_draw_what_the_tables_hold(drawn):
    name, figures = drawn
    check_figures(figures, DRAWN / name / "figures.txt")


def test_every_figure_says_what_it_shows_and_has_rows_behind_it(drawn):
    _, figures = drawn
    assert figures
    assert len({one.name for one in figures}) == len(figures)
    assert any(one.paper for one in figures)
    for one in figures:
        assert len(one.title) > 15, one.name
        assert not one.title.endswith("."), one.name
        assert len(one.alt) > 30, one.name
        assert one.rows, one.name
        assert '"tooltip"' in json.dumps(one.spec), one.name


def test_a_study_of_which_everything_failed_has_no_figures_and_no_error(drawn):
    name, _ = drawn
    assert STUDIES[name].draw(Results()) == []


@pytest.mark.parametrize("case", sorted(path.name for path in GOLDEN.iterdir()))
def test_the_tables_that_studies_write_can_be_drawn(case):
    """`drawn` holds tables with numbers worth looking at; these have the columns that there really are."""
    tables = {path.stem: read_table(path) for path in sorted((GOLDEN / case).glob("*.csv"))}
    figures = STUDIES[case.split("-")[0]].draw(Results(tables=tables))
    assert figures
    for one in figures:
        assert one.rows
        assert "None" not in one.title and "nan" not in one.title
        check_valid(one)


@pytest.mark.parametrize("best", [1, 3, 6])
def test_only_full_tuning_is_drawn_as_tuning_all_layers(best):
    arms = [str(arm) for arm, _ in plans_of_xie(SimpleNamespace(depth=6), best, 0)]
    assert "middle-2, cut" in arms
    assert [arm for arm in arms if _kind(arm) == _kind("full")] == ["full"]
