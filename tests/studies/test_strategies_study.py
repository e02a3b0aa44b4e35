"""Plans of paper 1: which learning rates and how many epochs each gets."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly
from tests.studies.test_figures import DRAWN, read_table

from frostline.charts import Results
from frostline.studies import STUDIES
from frostline.studies._arms import Arm, read_arm
from frostline.studies._comparisons import non_inferior_note
from frostline.studies.strategies import plans_of_xie
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
    chosen = [point for point in points if point["arm"] == f"top-{count}" and not point.is_candidate]
    assert len(rates(points, f"top-{count}")) == 5
    assert rates(points, f"{kind}-{count}") == {chosen[0].spec.recipe.learning_rate}


def test_full_fine_tuning_alone_is_shorter_on_the_largest_tasks(points):
    epochs = {(point["arm"], point["method"]): point.spec.recipe.epochs for point in points}
    assert epochs.pop(("full", "full")) == 10
    assert set(epochs.values()) == {20}


def test_adapters_are_those_of_the_implementation_that_the_paper_used(points):
    options = {point["method"]: point.spec.plan.options for point in points}
    paper = {"activation": "relu", "initialisation": "normal"}
    assert options == {"full": {}, "houlsby": {"bottleneck": 8, **paper}}  # a quarter of the width


@pytest.mark.parametrize("best", [1, 3, 6])
def test_the_name_of_an_arm_gives_the_arm_back(best):
    arms = [arm for arm, _ in plans_of_xie(SimpleNamespace(depth=6), best, 0)]
    assert [read_arm(str(arm)) for arm in arms] == arms
    assert len({str(arm) for arm in arms}) == len(set(arms))


def test_a_name_without_a_number_of_layers_is_a_kind():
    assert read_arm("top-k, k by validation") == Arm(kind="top-k, k by validation")
    assert read_arm("up to the middle, cut") == Arm(kind="up to the middle", is_cut=True)
    with pytest.raises(ValueError, match="has no kind"):
        read_arm("")


def test_the_margin_by_which_plans_keep_up_is_said_whatever_the_table_s_notes_say():
    tables = {path.stem: read_table(path) for path in (DRAWN / "strategies").glob("*.csv")}
    tables["quality"] = replace(tables["quality"], settings={"margin": 2.5}, notes=("non_inferior: something else",))
    (figure,) = (one for one in STUDIES["strategies"].draw(Results(tables=tables)) if one.name == "plans")
    assert non_inferior_note(2.5) in figure.notes
    assert "non_inferior: something else" not in figure.notes
