"""Tables of studies whose trials all tune: what comes out of made-up answers is written down, and part computed anew.

FROSTLINE_WRITE_GOLDEN=1 writes the files anew; look at the difference before it is committed.
"""

from __future__ import annotations

import csv
import json
import os
import zlib
from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy import stats
from tests.race_tools import write_rows
from tests.studies.study_tools import run_quickly

from frostline.records import TrialResult
from frostline.tasks.metrics import METRICS

_ARMS = "full+top-1+top-2+down-1+down-2+up+middle-1+random-1"
GOLDEN = Path(__file__).parent / "golden"
CASES = {
    "freeze": ("freeze", {"options": {"rates": 2, "step": 1}}),
    "strategies": ("strategies", {"options": {"rates": 2, "arms": _ARMS, "methods": "full+houlsby"}, "seeds": 2}),
    "surgical": ("surgical", {"seeds": 2}),
    "reinitialise": ("reinitialise", {"options": {"step": 1, "sizes": "40+60"}}),
    "reinitialise-preserved": ("reinitialise", {"options": {"mode": "preserved", "width": 2, "step": 1}}),
    "permute": ("permute", {"options": {"orders": 4}}),
}
LOST = 3  # of hundred trials


class MadeUp:
    """An executor whose models are as good as a checksum of the specification says; few fail."""

    def __init__(self, materials):
        self.tasks = materials.tasks

    def run(self, specs):
        for spec in specs:
            yield spec, self.answer(spec)

    def answer(self, spec):
        number = checksum(spec)
        if number % 100 < LOST:
            return TrialResult(status="failed", reason="the loss is nan")
        task = self.tasks[spec.task["fingerprint"]]
        splits = {"validation": task.validation, "test": task.test}
        said = {name: answers(rows.labels, number) for name, rows in splits.items()}
        return TrialResult(
            status="done",
            metrics={
                name: {key: METRICS[key](rows.labels, said[name]) for key in task.metrics}
                for name, rows in splits.items()
            },
            predictions=said,
            history=tuple({"epoch": epoch, "validation_loss": (number % 997) / 997 / epoch} for epoch in (1, 2)),
            parameters={"total": 100, "trainable": 10 * len(spec.plan.layers)},
            seconds={"training": 1.0, "testing": 0.5, "prediction": 0.25},
        )

    def close(self):
        pass


def checksum(spec):
    """A number for the trial that is the same on every machine: no revision, no fingerprint, no reasons."""
    told = spec.to_json()
    said = [{**told["plan"], "because": ""}, told["recipe"], told["surgery"], told["train_rows"], spec.task["name"]]
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


def answers(labels, number):
    """Wrong for one row in three to one in twelve."""
    step = 3 + number % 10
    return tuple(1 - label if (place + number) % step == 0 else label for place, label in enumerate(labels))


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    """The case's name and the study with made-up answers on two tasks."""
    name, given = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    files = [write_rows(folder / "letters.csv", 120), write_rows(folder / "more.csv", 160)]
    given = {"seeds": 3, **given}
    found = run_quickly(name, folder, layers=4, tasks=[str(file) for file in files], executor=MadeUp, **given)
    return request.param, found


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
            # The probe is really trained, by steps whose rounding differs between machines: a row or two of 24.
            near = [0.1 if column == "probe" else 1e-6 for column in ours[0]]
            assert numbers_or_text(one) == [
                cell if isinstance(cell, str) else pytest.approx(cell, rel=1e-3, abs=close)
                for cell, close in zip(numbers_or_text(other), near, strict=True)
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
                assert row["non_inferior"] is (row["rows_low"] > -1)
            checked += 1
    assert checked > 5


def by_seed(found, row):
    """Accuracy in points of the points that the row is about, by seed."""
    return {
        point["seed"]: 100 * point.result.metrics["test"]["accuracy"]
        for point in found.points
        if point.is_done
        and point.labels.get("rate", "chosen") == "chosen"
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
        one, new, full = (
            mean(by_seed(found, {"task": row["task"], "arm": arm}).values()) for arm in (row["arm"], "all new", "full")
        )
        assert row["recovered"] == pytest.approx((one - new) / (full - new), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("made", ["permute"], indirect=True)
def test_tasks_are_correlated_over_the_orders_alone(made):
    _, found = made
    rows = next(table for table in found.tables if table.name == "correlations").records()
    orders = [f"order {number}" for number in (1, 2, 3, 4)]
    ones, others = (
        [mean(by_seed(found, {"task": task, "arm": arm}).values()) for arm in orders] for task in ("letters", "more")
    )
    for row, expected in zip(rows, (stats.pearsonr(ones, others), stats.spearmanr(ones, others)), strict=True):
        assert row["orders"] == 4
        assert (row["value"], row["p"]) == (
            pytest.approx(expected.statistic, rel=1e-4),
            pytest.approx(expected.pvalue, rel=1e-4),
        )
