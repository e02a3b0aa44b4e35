"""A task with several test splits: trained once, judged on each, and a row of the tables for each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly

from frostline.stats.intervals import summarise
from frostline.tasks import load_task
from frostline.tasks.metrics import METRICS

BOTH = ("both", "both elsewhere")
OPTIONS = {"freeze": {"rates": 1, "step": 1}, "strategies": {"rates": 0, "arms": "full+top-1"}}


def with_elsewhere(folder, name="both", *, turned=False):
    """Letters, a third of whose test rows are further test rows; turned, if the two are the other way round."""
    task = load_task(write_rows(folder / "rows.csv", 180))
    cut = len(task.test) // 3
    parts = [task.test.take(range(cut, len(task.test))), task.test.take(range(cut))]
    first, second = parts[::-1] if turned else parts
    return replace(task, name=name, test=first, more_tests={"elsewhere": second})


@pytest.fixture(scope="module", params=OPTIONS)
def found(request, tmp_path_factory):
    """The study's name, and what came out on such a task and on an ordinary one; really trained."""
    folder = tmp_path_factory.mktemp(request.param)
    tasks = [with_elsewhere(folder), load_task(write_rows(folder / "letters.csv", 120))]
    return request.param, run_quickly(request.param, folder, layers=2, tasks=tasks, options=OPTIONS[request.param])


def rows_of(studied, name="quality"):
    return next(table for table in studied.tables if table.name == name).records()


def test_there_is_a_row_for_each_split_and_its_name_is_a_field(found):
    _, studied = found
    by_task = {}
    for row in rows_of(studied):
        by_task.setdefault((row["task"], row["split"]), []).append(row["arm"])
    assert set(by_task) == {("both", "test"), ("both elsewhere", "elsewhere"), ("letters", None)}
    assert len({tuple(arms) for arms in by_task.values()}) == 1


def test_a_row_is_of_the_predictions_for_its_split(found, tmp_path):
    _, studied = found
    task = with_elsewhere(tmp_path)
    checked = 0
    for row in rows_of(studied):
        if row["task"] in BOTH:
            points = [point for point in studied.points
                      if (point["task"], point["arm"]) == ("both", row["arm"]) and not point.is_candidate]  # fmt: skip
            labels = task.splits[row["split"]].labels
            values = [100 * METRICS["accuracy"](labels, point.result.predictions[row["split"]]) for point in points]
            assert row["mean"] == pytest.approx(summarise(values).mean)
            checked += 1
    assert checked


def test_the_task_is_trained_once(found):
    _, studied = found
    trials = {
        name: {point.spec.id for point in studied.points if point["task"] == name} for name in ("both", "letters")
    }
    assert len(trials["both"]) == len(trials["letters"])
    assert all(
        {"test", "elsewhere"} <= set(point.result.metrics) for point in studied.points if point["task"] == "both"
    )


def test_the_further_split_has_the_row_that_it_has_as_the_test_split(found, tmp_path):
    name, studied = found
    (tmp_path / "turned").mkdir()
    turned = run_quickly(name, tmp_path / "turned", layers=2, tasks=[with_elsewhere(tmp_path, turned=True)],
                         options=OPTIONS[name])  # fmt: skip
    left_out = ("encoder", "task", "split")
    expected = [{key: value for key, value in row.items() if key not in left_out}
                for row in rows_of(turned) if row["split"] == "test"]  # fmt: skip
    rows = [{key: value for key, value in row.items() if key not in left_out}
            for row in rows_of(studied) if row["split"] == "elsewhere"]  # fmt: skip
    assert rows == [{key: row.get(key) for key in rows[0]} for row in expected]


def test_means_over_tasks_count_the_task_once(tmp_path):
    tasks = [with_elsewhere(tmp_path), load_task(write_rows(tmp_path / "letters.csv", 120))]
    studied = run_quickly("freeze", tmp_path, layers=2, tasks=tasks, executor=MadeUp, seeds=3)
    assert {row["tasks"] for row in rows_of(studied, "mean_share")} == {2}
    assert {row["task"] for row in rows_of(studied, "share")} == {*BOTH, "letters"}


def test_a_failed_trial_of_such_a_task_is_counted_in_both_rows(tmp_path):
    class Failing(MadeUp):
        def answer(self, spec):
            result = super().answer(spec)
            fails = spec.recipe.seed == 0 and spec.plan.layers == (2,)
            return replace(result, status="failed", reason="lost", metrics={}, predictions={}) if fails else result

    studied = run_quickly("freeze", tmp_path, layers=2, tasks=[with_elsewhere(tmp_path)], executor=Failing, seeds=2)
    failed = {row["task"]: row["failed"] for row in rows_of(studied) if row["frozen"] == 1}
    lost = {point["seed"] for point in studied.points if point["frozen"] == 1 and not point.is_done}
    assert 0 in lost  # made-up trials of other seeds may diverge too
    assert failed == dict.fromkeys(BOTH, len(lost))


def test_tables_of_other_tasks_have_no_such_column(tmp_path):
    studied = run_quickly("freeze", tmp_path, layers=2, executor=MadeUp)
    assert all("split" not in table.columns for table in studied.tables)


def test_a_quick_study_takes_few_rows_of_every_test_split(tmp_path):
    task = load_task(write_rows(tmp_path / "rows.csv", 1000))
    task = replace(task, name="both", more_tests={"elsewhere": task.train})
    studied = run_quickly("freeze", tmp_path, layers=2, tasks=[task], executor=MadeUp, seeds=1)
    assert {len(point.result.predictions["elsewhere"]) for point in studied.points} == {300}
