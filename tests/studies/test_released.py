"""What scripts did otherwise than the papers say."""

from __future__ import annotations

import pytest
from tests.studies.study_tools import run_quickly

from frostline.errors import OptionError
from frostline.records import Plan
from frostline.studies.released import frozen_by_prefix


@pytest.mark.parametrize(
    ("tuned", "kept"),
    [
        (range(8, 13), [8, 9, 10]),  # layer 2 is `layer.1`, and 11 and 12 are `layer.10` and `layer.11`
        ([2, 11, 12], [2, 11, 12]),
        ([11, 12], []),
        ([1, 3, 5], [1, 3, 5]),
        (range(1, 13), range(1, 13)),
    ],
)
def test_freezing_by_the_beginning_of_names_freezes_the_tens_with_the_one(tuned, kept):
    plan = Plan(layers=tuple(tuned), head=12)
    assert frozen_by_prefix(plan).layers == tuple(kept)


def test_an_encoder_of_24_layers_loses_all_the_tens_and_twenties():
    plan = frozen_by_prefix(Plan(layers=tuple(range(4, 25)), head=24))
    assert plan.layers == tuple(range(4, 11))  # `layer.1` and `layer.2` take 10..19 and 20..23 with them


def test_surgical_ranks_by_any_score(tmp_path):
    found = run_quickly("surgical", tmp_path, layers=2, options={"score": "fisher.released"}, rows=60)
    assert {"full", "top-1", "bottom-1", "last-1"} <= {point["arm"] for point in found.points}
    assert found.failed == ()


def test_robustness_takes_the_states_that_are_asked_for(tmp_path):
    found = run_quickly("robustness", tmp_path, layers=2, options={"states": "released", "sizes": "40,20"}, seeds=1)
    assert {row["states"] for row in found.tables[0].records()} == {"released"}
    with pytest.raises(OptionError, match="option states 'reelased' must be one of mean, first, all, released"):
        run_quickly("robustness", tmp_path, layers=2, options={"states": "reelased"}, output=tmp_path / "other")
