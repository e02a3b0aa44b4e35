"""What notebooks show: short, right, and escaped."""

from __future__ import annotations

from tests.report.report_tools import some_scores

from frostline.records import Plan
from frostline.records.table import table_of
from frostline.report.notebook import tables_html

HOSTILE = "<script>alert(1)</script>"


def test_scores_show_every_layer_with_the_best_ones_marked():
    found = some_scores()._repr_html_()
    assert "<td>1.00 ±0.30 ◀</td>" in found  # layer 2 by variability
    assert "<td>1.20 ±0.30 ~</td>" in found
    assert found.count("<tr>") == 1 + 4
    assert "fisher (high)" in found


def test_a_plan_shows_its_layers_from_the_top_down():
    found = Plan.span(2, 3, 4, because="two are enough")._repr_html_()
    order = [found.index(name) for name in ("head", "layer 4", "layer 3", "layer 2", "layer 1", "embeddings")]
    assert order == sorted(order)
    assert found.count("· tuned") == 2
    assert "two are enough" in found


def test_long_tables_are_cut_and_hostile_text_is_text():
    table = table_of("many", HOSTILE, [{HOSTILE: number, "text": HOSTILE * 100} for number in range(100)])
    found = tables_html(HOSTILE, [table])
    assert "<script" not in found
    assert "and 40 more rows" in found
    assert len(found) < 60 * 1000
    hostile = some_scores(HOSTILE)._repr_html_() + Plan(layers=(1,), head=1, because=HOSTILE)._repr_html_()
    assert "<script" not in hostile
