"""Tables of all studies: what comes out of made-up trials is written down, and part computed anew.

FROSTLINE_WRITE_GOLDEN=1 writes the files anew; look at the difference before it is committed.
"""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy import stats
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp, wave
from tests.studies.study_tools import run_quickly, save_tiny, spearman_of_all_orders

from frostline.scoring.measurement import measure_layers
from frostline.scoring.scores import LAYER_SCORES
from frostline.studies import STUDIES

_ARMS = "full+top-1+top-2+down-1+down-2+up+middle-1+random-1"
GOLDEN = Path(__file__).parent / "golden"
CASES = {
    "freeze": ("freeze", {"options": {"rates": 2, "step": 1}}),
    "strategies": ("strategies", {"options": {"rates": 2, "arms": _ARMS, "methods": "full+houlsby"}, "seeds": 2}),
    "surgical": ("surgical", {"seeds": 2}),
    "reinitialise": ("reinitialise", {"options": {"step": 1, "sizes": "40+60"}}),
    "reinitialise-preserved": ("reinitialise", {"options": {"mode": "preserved", "width": 2, "step": 1}}),
    "permute": ("permute", {"options": {"orders": 4}}),
    "probing": ("probing", {}),
    "ranking": ("ranking", {}),
    "robustness": ("robustness", {}),
    "similarity": ("similarity", {}),
    "similarity-across": ("similarity", {"encoders": 2}),
    "skip": ("skip", {}),
    "truncate": ("truncate", {}),
    "truncate-fresh": ("truncate", {"options": {"fresh": True}}),
}


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    """The case's name and the study with made-up answers on two tasks."""
    name, given = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    files = [write_rows(folder / "letters.csv", 120), write_rows(folder / "more.csv", 160)]
    given = {"seeds": 3, **given}
    if "encoders" in given:
        names = ["tiny", "small"]
        given["encoders"] = [
            str(save_tiny(folder / name, layers=4 - seed, seed=seed)) for seed, name in enumerate(names)
        ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("frostline.studies._engine.run.measure_layers", with_made_up_probes)
        found = run_quickly(name, folder, layers=4, tasks=[str(file) for file in files], executor=MadeUp, **given)
    return request.param, found


def with_made_up_probes(encoder, task, *given, **more):
    """Layer scores as measured but for probes: those are trained, by steps whose rounding differs between machines."""
    found = measure_layers(encoder, task, *given, **more)
    scores = {
        name: replace(score, values=tuple(wave(len(task.train), layer) for layer in range(encoder.depth + 1)))
        if LAYER_SCORES[name].is_probe
        else score
        for name, score in found.scores.items()
    }
    return replace(found, scores=scores)


def numbers_or_text(row):
    return [_number(cell) for cell in row]


def _number(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


def read(path):
    return list(csv.reader(path.read_text().splitlines()))


def test_the_tables_are_those_that_were_written_down(made):
    case, found = made
    golden = GOLDEN / case
    for table in found.tables:
        written = found.folder / "tables" / f"{table.name}.csv"
        written.write_text(written.read_text().replace(str(found.folder.parent), "FOLDER"))
        if os.environ.get("FROSTLINE_WRITE_GOLDEN"):
            golden.mkdir(parents=True, exist_ok=True)
            (golden / written.name).write_text(written.read_text())
        ours, theirs = read(written), read(golden / written.name)
        assert ours[0] == theirs[0]
        assert len(ours) == len(theirs)
        for one, other in zip(ours[1:], theirs[1:], strict=True):
            assert numbers_or_text(one) == [
                cell if isinstance(cell, str) else pytest.approx(cell, rel=1e-3, abs=1e-6)
                for cell in numbers_or_text(other)
            ]
    assert {path.stem for path in golden.iterdir()} == {table.name for table in found.tables}


def test_means_differences_and_p_values_are_those_of_direct_sums(made):
    """Every arm of the table of quality, from the points' metrics alone."""
    _, found = made
    checked = 0
    for table in found.tables:
        if not table.name.startswith("quality"):
            continue
        for row in table.records():
            mine, full = (by_seed(found, {**row, "arm": arm}) for arm in (row["arm"], "full"))
            if not mine:
                assert row["seeds"] == 0
                continue
            assert row["mean"] == pytest.approx(mean(mine.values()), rel=1e-4)
            if len(mine) > 1:
                assert row["deviation"] == pytest.approx(stdev(mine.values()), rel=1e-4)
            both = sorted(set(mine) & set(full))
            if row["arm"] != "full" and both:
                gaps = [mine[seed] - full[seed] for seed in both]
                assert row["minus_full"] == pytest.approx(mean(gaps), rel=1e-4, abs=1e-6)
                if len(gaps) > 1 and stdev(gaps) > 1e-9:
                    expected = stats.ttest_rel([mine[s] for s in both], [full[s] for s in both]).pvalue
                    assert row["p"] == pytest.approx(expected, rel=1e-3)
                if len(gaps) > 1:
                    assert row["non_inferior"] is (min(row["rows_low"], row["seeds_low"]) > -1)
                else:  # no interval from one seed
                    assert [row[end] for end in ("seeds_low", "rows_low", "rows_high", "non_inferior")] == [None] * 4
            checked += 1
    assert checked > 5 or not any(table.name.startswith("quality") for table in found.tables)


def test_no_study_is_without_tables_that_were_written_down():
    assert {name for name, _ in CASES.values()} == set(STUDIES)


@pytest.mark.parametrize("made", ["strategies", "surgical", "reinitialise"], indirect=True)
def test_one_arm_minus_another_is_that_of_direct_sums(made):
    _, found = made
    table = next(table for table in found.tables if table.name == "pairs")
    labels = [label for label in ("encoder", "task", "method", "rows") if label in table.columns]
    families = {}
    for row in table.records():
        families.setdefault(tuple(row[label] for label in labels), []).append(row)
    pooled = 0
    for rows in families.values():
        for row in rows:
            alike = [key for key in ("arm", "minus", *labels) if key != "task"]
            several = [one for one in table.records() if all(one[key] == row[key] for key in alike)]
            tasks = [one["task"] for one in several if one["informative"]] if row["task"] == "all" else [row["task"]]
            sides = [[by_seed(found, {**row, "task": task, "arm": arm}) for arm in (row["arm"], row["minus"])]
                     for task in tasks]  # fmt: skip
            seeds = set.intersection(*(set(of_arm) for pair in sides for of_arm in pair))
            gaps = [mean(one[seed] - other[seed] for one, other in sides) for seed in sorted(seeds)]
            assert (row["seeds"], row["difference"]) == (len(gaps), pytest.approx(mean(gaps), rel=1e-4, abs=1e-6))
            if len(gaps) > 1 and stdev(gaps) > 1e-9:
                assert row["p"] == pytest.approx(stats.ttest_1samp(gaps, 0.0).pvalue, rel=1e-3)
            pooled += row["task"] == "all"
        tested = [row for row in rows if row["seeds_low"] is not None]
        smallest = min((row["p"] for row in tested if row["p"] is not None), default=None)
        if smallest is not None:
            first = next(row for row in tested if row["p"] == smallest)
            assert first["p_holm"] == pytest.approx(min(1.0, len(tested) * smallest), rel=1e-3)
    assert pooled


def by_seed(found, row):
    """Accuracy in points of the points that the row is about, by seed."""
    return {
        point["seed"]: 100 * point.result.metrics["test"]["accuracy"]
        for point in found.points
        if point.is_done
        and not point.is_candidate
        and all(point[key] == row[key] for key in ("task", "arm", "rows", "method") if key in row)
    }


def test_what_is_lost_is_counted(made):
    _, found = made
    lost = {point.spec.id for point in found.points if not point.is_done}
    assert len(lost) == len(found.failed)
    for table in found.tables:
        notes = [note.split(": ")[1] for note in table.notes if note.endswith("trials failed and are left out")]
        assert sum(int(note.split()[0]) for note in notes) == len(lost)


@pytest.mark.parametrize("made", ["freeze"], indirect=True)
def test_shares_of_full_tuning_are_ratios_of_means(made):
    _, found = made
    shares = next(table for table in found.tables if table.name == "share").records()
    assert shares
    for row in shares:
        kept, full = (
            by_seed(found, {"task": row["task"], "arm": f"{count} frozen" if count else "full"}).values()
            for count in (row["frozen"], 0)
        )
        assert row["share_of_full"] == pytest.approx(mean(kept) / mean(full), rel=1e-4)


@pytest.mark.parametrize("made", ["permute"], indirect=True)
def test_what_shuffled_layers_keep_lies_between_new_and_pretrained_ones(made):
    _, found = made
    recovered = next(table for table in found.tables if table.name == "recovered").records()
    assert recovered
    for row in recovered:
        if row["arm"] == "all orders":
            mine = [one for one in recovered if one["task"] == row["task"] and one is not row]
            if {one["seeds"] for one in mine} == {row["seeds"]}:  # none has failed
                assert row["recovered"] == pytest.approx(mean(one["recovered"] for one in mine), rel=1e-4)
            continue
        arms = [by_seed(found, {"task": row["task"], "arm": arm}) for arm in (row["arm"], "all new", "full")]
        seeds = set.intersection(*map(set, arms))
        one, new, full = (mean(of_arm[seed] for seed in seeds) for of_arm in arms)
        assert full > new
        assert row["recovered"] == pytest.approx((one - new) / (full - new), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("made", ["permute"], indirect=True)
def test_tasks_are_correlated_over_the_orders_alone(made):
    _, found = made
    rows = next(table for table in found.tables if table.name == "correlations").records()
    orders = [f"order {number}" for number in (1, 2, 3, 4)]
    ones, others = (
        [mean(by_seed(found, {"task": task, "arm": arm}).values()) for arm in orders] for task in ("letters", "more")
    )
    for row, expected in zip(rows, (stats.pearsonr(ones, others), spearman_of_all_orders(ones, others)), strict=True):
        assert row["orders"] == 4
        assert (row["value"], row["p"]) == (
            pytest.approx(expected.statistic, rel=1e-4),
            pytest.approx(expected.pvalue, rel=1e-4),
        )


@pytest.mark.parametrize("made", ["ranking"], indirect=True)
def test_rankings_of_two_tasks_are_compared_draw_by_draw(made):
    _, found = made
    rows = next(table for table in found.tables if table.name == "between").records()
    assert rows
    for row in rows:
        of_task = {
            task: {
                head: [point.result.values["scores"] for point in found.points
                       if point.is_done and point["arm"] == "at the start"
                       and (point["task"], point["rows"], point["head"]) == (task, row["rows"], head)]
                for head in (0, 1)
            }
            for task in (row["task"], row["other"])
        }  # fmt: skip
        one, other = of_task.values()
        between = [mean(stats.kendalltau(a, b).statistic for a in one[head] for b in other[head]) for head in (0, 1)]
        assert row["tau_between"] == pytest.approx(mean(between), rel=1e-4, abs=1e-6)
        within = [
            mean(stats.kendalltau(*draws[head]).statistic for draws in (one, other) if len(draws[head]) == 2)
            for head in (0, 1)
        ]
        assert row["tau_within"] == pytest.approx(mean(within), rel=1e-4, abs=1e-6)
        gaps = [a - b for a, b in zip(within, between, strict=True)]
        assert row["within_minus_between"] == pytest.approx(mean(gaps), rel=1e-4, abs=1e-6)
        low = max(-2.0, mean(gaps) - 12.7062 * abs(gaps[0] - gaps[1]) / 2)  # two correlations differ by 2 at most
        assert row["within_minus_between_low"] == pytest.approx(low, rel=1e-3)
        assert all(-1 <= row[f"tau_{which}_{end}"] <= 1 for which in ("between", "within") for end in ("low", "high"))


@pytest.mark.parametrize("made", ["surgical"], indirect=True)
def test_the_share_of_the_most_frequent_class_is_counted(made):
    _, found = made
    for row in next(table for table in found.tables if table.name == "quality").records():
        mine = [point for point in found.points if point.is_done
                and all(point[key] == row[key] for key in ("task", "arm"))]  # fmt: skip
        shares = [mean(said == 0 for said in point.result.predictions["test"]) for point in mine]
        other = [1 - share for share in shares]  # of two classes either may be the more frequent one
        assert row["majority_predicted"] in (
            pytest.approx(mean(shares), rel=1e-4),
            pytest.approx(mean(other), rel=1e-4),
        )
