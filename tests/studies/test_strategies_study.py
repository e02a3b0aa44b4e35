"""Plans of paper 1: which learning rates and how many epochs each gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly

from frostline.tasks import load_task


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """All arms, all of the paper's rates, fine-tuning and adapters, the paper's epochs; nothing is trained."""
    given = {"rates": 5, "methods": "full+houlsby", "arms": "all"}
    folder = tmp_path_factory.mktemp("strategies")
    task = replace(load_task(write_rows(folder / "letters.csv", 120)), preset="glue/qqp")
    how = {"options": given, "seeds": 1, "quick": False, "recipe": {}, "executor": MadeUp}
    return run_quickly("strategies", folder, tasks=[task], **how).points


def rates(points, arm, method="full"):
    mine = [point for point in points if (point["arm"], point["method"]) == (arm, method)]
    return {point.spec.recipe.learning_rate for point in mine}


@pytest.mark.parametrize(("kind", "count"), [("down", 1), ("middle", 1), ("middle", 2), ("random", 1), ("random", 2)])
def test_plans_of_as_many_layers_take_the_rate_of_the_last_ones(points, kind, count):
    chosen = [point for point in points if (point["arm"], point["rate"]) == (f"top-{count}", "chosen")]
    assert len(rates(points, f"top-{count}")) == 5
    assert rates(points, f"{kind}-{count}") == {chosen[0].spec.recipe.learning_rate}


def test_full_fine_tuning_alone_is_shorter_on_the_largest_tasks(points):
    epochs = {(point["arm"], point["method"]): point.spec.recipe.epochs for point in points}
    assert epochs.pop(("full", "full")) == 10
    assert set(epochs.values()) == {20}
