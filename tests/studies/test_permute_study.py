"""Shuffled layers: the trials of the paper, the mean over orders and the bands around baselines."""

from __future__ import annotations

from statistics import mean, stdev

import pytest
from scipy import stats
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly

from frostline.charts import Results
from frostline.studies import STUDIES
from frostline.studies.permute import _all_shares

ORDERS = 5


def run(folder, **given):
    return run_quickly("permute", folder, layers=4, executor=MadeUp, **given)


@pytest.fixture(scope="module")
def of_paper(tmp_path_factory):
    """At full size, where every order is one trial with its own rows."""
    return run(tmp_path_factory.mktemp("permute"), quick=False, recipe={"epochs": 1}, options={"orders": ORDERS})


def qualities(found, arm):
    return {point["seed"]: 100 * point.result.metrics["test"]["accuracy"] for point in found.points
            if point["arm"] == arm and point.is_done}  # fmt: skip


def table(found, name):
    return next(table for table in found.tables if table.name == name).records()


def test_every_order_is_one_trial_with_its_own_rows_and_baselines_have_the_rows_of_all(of_paper):
    seeds = {}
    for point in of_paper.points:
        seeds.setdefault(point["arm"], []).append(point["seed"])
    assert seeds == {
        "full": [0, 1, 2, 3, 4],
        "all new": [0, 1, 2, 3, 4],
        **{f"order {number}": [number - 1] for number in range(1, ORDERS + 1)},
    }
    assert STUDIES["permute"].seeds == 1


def test_a_baseline_has_three_trials_with_fewer_orders_and_seeds_that_are_set_hold_for_all_arms(tmp_path):
    few = run(tmp_path, quick=False, recipe={}, options={"orders": 1}, output=tmp_path / "few")
    assert [point["seed"] for point in few.points] == [0, 1, 2, 0, 1, 2, 0]
    given = run(tmp_path, quick=False, recipe={}, options={"orders": 2}, seeds=2)
    assert [point["seed"] for point in given.points] == [0, 1] * 4


def test_the_mean_over_orders_and_the_bands_are_those_of_direct_sums(of_paper):
    rows = {row["arm"]: row for row in table(of_paper, "orders")}
    values = [value for number in range(1, ORDERS + 1) for value in qualities(of_paper, f"order {number}").values()]
    shuffled = rows["all orders"]
    assert (shuffled["values"], shuffled["mean"]) == (len(values), pytest.approx(mean(values), rel=1e-4))
    reach = stats.t.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    assert shuffled["low"] == pytest.approx(mean(values) - reach, rel=1e-4)
    assert shuffled["high"] == pytest.approx(min(100, mean(values) + reach), rel=1e-4)
    assert shuffled["below"] is None
    for arm in ("full", "all new"):
        values = list(qualities(of_paper, arm).values())
        assert rows[arm]["below"] == pytest.approx(mean(values) - 2 * stdev(values), rel=1e-4)
        assert rows[arm]["above"] == pytest.approx(mean(values) + 2 * stdev(values), rel=1e-4)


def test_orders_with_several_seeds_count_once_in_the_mean(tmp_path):
    found = run(tmp_path, options={"orders": 3}, seeds=4)
    means = [mean(qualities(found, f"order {number}").values()) for number in (1, 2, 3)]
    row = next(row for row in table(found, "orders") if row["arm"] == "all orders")
    assert (row["values"], row["mean"]) == (3, pytest.approx(mean(means), rel=1e-4))
    assert row["deviation"] == pytest.approx(stdev(means), rel=1e-4)


def test_the_share_of_all_orders_is_a_ratio_of_means_also_without_common_seeds():
    full, new = {0: 90.0, 1: 80.0, 2: 85.0}, {0: 50.0, 1: 60.0, 2: 55.0}
    shares = _all_shares({"order 1": {0: 70.0}, "order 2": {1: 65.0}, "order 3": {3: 99.0}}, full, new)
    assert mean(shares.values()) == pytest.approx((20 + 5) / (40 + 20))  # seed 3 has no baseline


def test_the_figure_has_a_band_for_the_mean_and_for_both_baselines(of_paper):
    results = Results(tables={table.name: table for table in of_paper.tables})
    figure = next(figure for figure in STUDIES["permute"].draw(results) if figure.name == "orders")
    levels = [row for row in figure.spec["data"]["values"] if "level" in row]
    rows = {row["arm"]: row for row in table(of_paper, "orders")}
    assert {level["name"]: (level["below"], level["above"]) for level in levels} == {
        "mean": (rows["all orders"]["low"], rows["all orders"]["high"]),
        "usual order": (rows["full"]["below"], rows["full"]["above"]),
        "all new": (rows["all new"]["below"], rows["all new"]["above"]),
    }
    assert any(note.startswith("bands: 95% interval of the mean over orders") for note in figure.notes)
