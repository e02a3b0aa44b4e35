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
from frostline.records import Plan
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


@pytest.fixture(scope="module", params=["strategies", "freeze"])
def chosen_rates(request, tmp_path_factory):
    """The candidates and the rates that were chosen by arm and seed, with one rate for all seeds and with one each."""
    folder, found = tmp_path_factory.mktemp("rates"), {}
    given = {"rates": 4, "arms": "full+top-1", "methods": "full"} if request.param == "strategies" else {"rates": 4}
    for per_seed in (False, True):
        options = {**given, "rate_per_seed": per_seed}
        points = run_quickly(
            request.param, folder, output=folder / str(per_seed), options=options, seeds=4, recipe={}, executor=MadeUp
        ).points
        candidates = [point for point in points if point.is_candidate]
        chosen = {
            (point["arm"], point["seed"]): point.spec.recipe.learning_rate
            for point in points
            if not point.is_candidate and point["arm"] in ("full", "top-1")
        }
        found[per_seed] = candidates, chosen
    return found


def validation(point):
    return point.result.metrics["validation"]["accuracy"] if point.is_done else -1e9


def test_the_rate_of_an_arm_is_the_best_one_on_average_over_all_seeds(chosen_rates):
    candidates, chosen = chosen_rates[False]
    for arm in {arm for arm, _ in chosen}:
        tried = dict.fromkeys(point.spec.recipe.learning_rate for point in candidates if point["arm"] == arm)
        sums = {
            rate: sum(
                validation(point)
                for point in candidates
                if (point["arm"], point.spec.recipe.learning_rate) == (arm, rate)
            )
            for rate in tried
        }
        assert len(tried) == 4
        assert {rate for (name, _), rate in chosen.items() if name == arm} == {max(sums, key=sums.__getitem__)}


def test_each_seed_can_choose_its_own_rate(chosen_rates):
    candidates, chosen = chosen_rates[True]
    for (arm, seed), rate in chosen.items():
        own = [point for point in candidates if (point["arm"], point["seed"]) == (arm, seed)]
        assert rate == max(own, key=validation).spec.recipe.learning_rate
    assert len({rate for (arm, _), rate in chosen.items() if arm == "full"}) > 1
    assert {point.spec.id for point in candidates} == {point.spec.id for point in chosen_rates[False][0]}


def test_the_table_of_costs_has_seconds_with_and_without_the_cache_and_of_inference(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))
    given = {"timed_uncached": True, "arms": "full+top-1"}
    found = run_quickly("strategies", tmp_path, layers=2, options=given, seeds=1, cache=True)
    (costs,) = (table for table in found.tables if table.name == "costs")
    rows = {row["plan"]: row for row in costs.records()}
    assert len(rows) == 2
    judged = len(load_task(tmp_path / "letters.csv").test)
    for row in rows.values():
        assert row["seconds_per_epoch_cached"] > 0 and row["seconds_per_epoch_uncached"] > 0
        assert row["seconds_of_inference"] == pytest.approx(judged * row["seconds_per_prediction"], rel=1e-3)
    assert rows[str(Plan.full(2))]["seconds_per_epoch_cached"] == rows[str(Plan.full(2))]["seconds_per_epoch_uncached"]
    assert any("5 training steps" in note for note in costs.notes)


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
