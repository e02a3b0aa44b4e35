"""New layers: what is drawn follows from what was asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.studies.test_figures import GOLDEN, read_table

from frostline.charts import Results
from frostline.studies import STUDIES


@pytest.mark.parametrize(("mode", "name"), [("preserved", "preserved"), ("blocks", "blocks")])
def test_whether_blocks_are_new_or_the_only_old_ones_is_what_was_asked_and_not_how_arms_are_called(mode, name):
    tables = {path.stem: read_table(path) for path in (GOLDEN / "reinitialise-preserved").glob("*.csv")}
    arm = tables["quality"].columns.index("arm")
    rows = [[*row[:arm], str(row[arm]).replace("only", "nothing but"), *row[arm + 1 :]]
            for row in tables["quality"].rows]  # fmt: skip
    tables["quality"] = replace(tables["quality"], rows=tuple(map(tuple, rows)))
    figures = STUDIES["reinitialise"].draw(Results(tables=tables, options={"mode": mode}))
    assert name in {figure.name for figure in figures}
