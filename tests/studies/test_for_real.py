"""Every study at its quick size, on real weights and data."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from frostline.api._study import StudyOptions, study
from frostline.studies import STUDIES


@pytest.mark.studies
@pytest.mark.embedded
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", STUDIES.names())
def test_a_quick_run_ends_with_tables_and_no_failed_trial(name, tmp_path):
    place = Path(os.environ.get("FROSTLINE_STUDIES", tmp_path)) / name  # where `make docs-figures` finds them again
    started = time.process_time()
    found = study(name, StudyOptions(quick=True), output=place)
    print(f"{name}: {time.process_time() - started:.0f} s of computing")
    assert found.failed == ()
    assert len({point.spec.id for point in found.points}) <= 12
    for table in found.tables:
        assert table.rows, table.name
