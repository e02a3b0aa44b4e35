"""Tables on a page: what is the same in all rows is said once, and results stay in their columns."""

from __future__ import annotations

from frostline.records.table import table_of
from frostline.report.page import Page, Section, render


def shown(records):
    page = Page(
        kind="Study", title="a study", sections=[Section(name="Tables", tables=[table_of("t", "A table", records)])]
    )
    return render(page)


def test_what_is_the_same_in_all_rows_is_said_once_above_them():
    html = shown(
        [{"encoder": "<b>tiny", "layer": layer, "seeds": 2, "tau": 1.0, "mean": 80.5 + layer} for layer in (1, 2)]
    )
    assert "In all rows: <bdi>encoder &lt;b&gt;tiny; seeds 2</bdi>." in html
    headings = html.split("<thead>")[1].split("</thead>")[0]
    assert all(
        f"<bdi>{name}</bdi>" in headings for name in ("layer", "tau", "mean")
    )  # a result stays, if it is the same
    assert "encoder" not in headings


def test_a_table_of_one_row_and_one_whose_rows_are_all_the_same_are_whole():
    for records in ([{"encoder": "tiny", "layer": 1}], [{"encoder": "tiny", "layer": 1}] * 2):
        html = shown(records)
        assert "In all rows" not in html
        assert "<bdi>encoder</bdi>" in html
