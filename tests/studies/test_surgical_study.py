"""Layers with the most Fisher information: deciding metrics, rows of the scores, and results by what tasks demand."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import mean, stdev

import pytest
from scipy import stats
from tests.search.race_tools import write_rows
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly

from frostline.charts import Results
from frostline.encoders.loading import load_encoder
from frostline.scoring.measurement import MeasureOptions, measure_layers
from frostline.studies import STUDIES
from frostline.studies._by_tag import _title
from frostline.studies._lodha import LODHA_TASKS
from frostline.tasks import METRICS, PRESETS, load_task
from frostline.tasks.tags import TAGS

TAGGED = {
    "glue/mrpc": ("discourse understanding", "domain shift"),
    "super_glue/wsc": ("discourse understanding", "coreference resolution"),
    "super_glue/wic": ("semantic understanding",),
    None: (),
}


def tagged_tasks(folder):
    """Letters four times, with the names and tags of presets."""
    return [replace(load_task(write_rows(folder / f"rows{number}.csv", 80 + 20 * number)), name=str(preset),
                    preset=preset, tags=tags)
            for number, (preset, tags) in enumerate(TAGGED.items())]  # fmt: skip


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagged")
    return run_quickly("surgical", folder, layers=3, tasks=tagged_tasks(folder), executor=MadeUp, seeds=3)


def table(studied, name):
    return next(table for table in studied.tables if table.name == name)


def gap(studied, task, arm):
    """The mean difference from full tuning over seeds, from the trials themselves."""
    values = {}
    for point in studied.points:
        if point["task"] == task and point["arm"] in (arm, "full") and point.is_done:
            values.setdefault(point["seed"], {})[point["arm"]] = 100 * point.result.metrics["test"]["accuracy"]
    pairs = [one for one in values.values() if len(one) == 2]
    return mean(one[arm] - one["full"] for one in pairs)


def test_a_tag_has_the_mean_of_its_tasks_and_an_interval_over_them(tagged):
    rows = table(tagged, "by_tag").records()
    assert {(row["kind"], row["tag"]) for row in rows} == {
        ("linguistic feature", "discourse understanding"), ("linguistic feature", "coreference resolution"),
        ("linguistic feature", "semantic understanding"), ("distribution shift", "domain shift"),
    }  # fmt: skip
    assert {row["arm"] for row in rows} >= {"top-1", "bottom-1", "last-1", "top-k, k by validation"}
    assert "full" not in {row["arm"] for row in rows}
    for row in rows:
        names = [name for name, tags in TAGGED.items() if row["tag"] in tags]
        assert (row["tasks"], row["names"]) == (len(names), ", ".join(names))
        gaps = [gap(tagged, name, row["arm"]) for name in names]
        assert row["minus_full"] == pytest.approx(mean(gaps), abs=1e-3)
        if len(gaps) == 1:
            assert row["minus_full_low"] is row["minus_full_high"] is None
        else:
            reach = stats.t.ppf(0.975, len(gaps) - 1) * stdev(gaps) / len(gaps) ** 0.5
            assert row["minus_full_low"] == pytest.approx(mean(gaps) - reach, rel=1e-4)
            assert row["minus_full_high"] == pytest.approx(mean(gaps) + reach, rel=1e-4)


def test_the_table_by_tag_says_which_tags_are_ours_and_what_has_no_task(tagged):
    notes = "\n".join(table(tagged, "by_tag").notes)
    assert "super_glue/wsc (coreference resolution); super_glue/wic (semantic understanding)" in notes
    assert "the paper defines demographic shift and places no task there" in notes
    assert "glue/mrpc (" not in notes


def test_informative_counts_the_tasks_that_full_tuning_learns(tagged):
    learned = {row["task"]: row["informative"] for row in table(tagged, "quality").records() if row["arm"] == "full"}
    for row in table(tagged, "by_tag").records():
        assert row["informative"] == sum(learned[name] for name in row["names"].split(", "))


def test_tasks_without_tags_and_metrics_in_other_units_have_no_row_by_tag(tmp_path):
    assert "by_tag" not in [one.name for one in run_quickly("surgical", tmp_path, layers=2, executor=MadeUp).tables]
    numbers = replace(load_task("movies-rating", metric="mse"), tags=("domain shift",))
    (tmp_path / "numbers").mkdir()
    studied = run_quickly("surgical", tmp_path / "numbers", layers=2, tasks=[numbers], executor=MadeUp)
    assert "by_tag" not in [one.name for one in studied.tables]


@pytest.mark.parametrize(("name", "kind"), [("by-feature", "linguistic feature"), ("by-shift", "distribution shift")])
def test_the_figures_by_tag_draw_the_table(tagged, name, kind):
    tables = {one.name: one for one in tagged.tables}
    (figure,) = (one for one in STUDIES["surgical"].draw(Results(tables=tables)) if one.name == name)
    drawn = {(row["tag"], row["arm"]): row["minus_full"] for row in figure.rows}
    arms = ("top-k, k by validation", "top-1", "bottom-1")
    rows = [row for row in tables["by_tag"].records() if row["arm"] in arms and row["kind"] == kind]
    assert drawn == {(row["tag"], row["arm"]): row["minus_full"] for row in rows}
    if kind == "distribution shift":  # a single one
        assert figure.title == "Difference from tuning all layers by distribution shift"
        return
    best = sorted((row for row in rows if row["arm"] == arms[0]), key=lambda row: row["minus_full"])
    low, high = (f"{row['minus_full']:+.1f} points ({row['tag']}, {row['tasks']} task{'s' * (row['tasks'] > 1)})"
                 for row in (best[0], best[-1]))  # fmt: skip
    assert figure.title.startswith("By linguistic feature, ")
    assert figure.title.endswith(f" by {low} to {high}")


def test_a_title_about_one_tag_or_equal_ones_claims_nothing():
    row = {"encoder": "tiny", "arm": "top-1", "tag": "a", "minus_full": -1.0, "tasks": 2}
    assert _title([row], "top-1", "shift") == _title([row, {**row, "tag": "b"}], "top-1", "shift") == ""
    other = {**row, "tag": "b", "minus_full": -2.0}
    title = _title([row, other], "top-1", "shift")
    assert title.endswith("changes the mean by -2.0 points (b, 2 tasks) to -1.0 points (a, 2 tasks)")
    large = [{**one, "encoder": "large", "minus_full": one["minus_full"] - 1} for one in (row, other)]
    assert _title([row, other, *large], "top-1", "shift") == (
        f"{title} with tiny; by -3.0 points (b, 2 tasks) to -2.0 points (a, 2 tasks) with large"
    )


# Tags and metrics of the 15 tasks ------------------------------------------------------------------------------------


def test_all_tasks_of_the_paper_have_a_tag_and_only_known_ones():
    assert len(set(LODHA_TASKS)) == 15
    assert all(PRESETS[name].tags for name in LODHA_TASKS)
    for _, preset in PRESETS.items():
        assert set(preset.tags) <= set(TAGS)
        assert set(preset.own_tags) <= set(preset.tags)


def test_the_tags_are_those_of_the_paper():
    """Sections 5.3.1 and 5.3.2, and appendix A.2; without the tags that are ours."""
    placed = {tag: {name.split("/")[1] for name in LODHA_TASKS
                    if tag in PRESETS[name].tags and tag not in PRESETS[name].own_tags}
              for tag in TAGS}  # fmt: skip
    assert placed == {
        "semantic understanding": {"sst2", "qnli", "qqp"},
        "discourse understanding": {"mnli", "mrpc", "wnli", "wsc", "multirc"},
        "syntactic understanding": {"cola"},
        "coreference resolution": {"wnli"},
        "commonsense and world knowledge": {"sst2", "qnli", "copa", "wsc"},
        "textual entailment": {"rte", "qnli"},
        "understanding propositions": {"cb"},
        "logical reasoning and comprehension": {"boolq"},
        "domain shift": {"mnli", "mrpc"},
        "environmental shift": {"sst2", "cola", "qnli"},
        "temporal drift": {"stsb", "rte"},
        "demographic shift": set(),
    }


@pytest.mark.parametrize("name", ["surgical", "ranking"])
def test_accuracy_decides_but_on_cola_and_sts_b(name):
    study = STUDIES[name]
    assert study.tasks == LODHA_TASKS
    deciding = {task: study.metric_of(task) or PRESETS[task].metrics[0] for task in study.tasks}
    assert {task: metric for task, metric in deciding.items() if metric != "accuracy"} == {
        "glue/cola": "matthews", "glue/stsb": "spearman",
    }  # fmt: skip
    assert study.metric_of("MRPC") == "accuracy"  # names are forgiving
    assert study.metric_of("movies") is study.metric_of(None) is None
    assert STUDIES["freeze"].metric_of("glue/mrpc") is None


def write_mrpc(folder):
    (folder / "MRPC").mkdir()
    rows = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
    rows += [f"{number % 3 > 0:d}\t{number}\t{number}\tfirst {number}\tsecond {number}" for number in range(90)]
    for split in ("train", "dev"):
        (folder / "MRPC" / f"{split}.tsv").write_text("\n".join(rows))
    return folder


@pytest.mark.parametrize(("name", "metrics"), [("surgical", ("accuracy", "f1")), ("freeze", ("f1", "accuracy"))])
def test_the_metric_of_the_study_decides_with_the_official_one_beside_it(name, metrics, tmp_path):
    studied = run_quickly(name, tmp_path, layers=2, tasks=["mrpc"], data_dir=write_mrpc(tmp_path), executor=MadeUp)
    assert {point.spec.task.metrics for point in studied.points} == {metrics}
    rows = [row for row in table(studied, "quality").records() if row["arm"] == "full"]
    assert [(row["metric"], row["second_metric"]) for row in rows] == [metrics]
    assert all(metric in METRICS for metric in metrics)


def test_a_file_with_the_name_of_a_preset_keeps_its_own_metric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert STUDIES["surgical"].metric_of("mrpc") == "accuracy"
    write_rows(tmp_path / "mrpc", 40)
    assert STUDIES["surgical"].metric_of("mrpc") is None


# Rows of the Fisher score --------------------------------------------------------------------------------------------


def test_layers_are_scored_on_the_rows_that_are_asked_for(tmp_path):
    scored = {}
    for rows in ("train", "validation"):
        options = {"fisher_rows": rows, "most": 1}
        run_quickly("surgical", tmp_path, layers=3, options=options, executor=MadeUp, output=tmp_path / rows)
        (path,) = (tmp_path / rows / "scores").glob("*.json")
        scored[rows] = path.name, json.loads(path.read_text())
    encoder, task = load_encoder(tmp_path / "tiny"), load_task(tmp_path / "letters.csv")
    for rows, (_, found) in scored.items():
        asked = MeasureOptions(scores=["fisher"], rows=rows, similarity=False, uncertainty=False)
        expected = measure_layers(encoder, task, asked).to_json()
        assert found["rows"] == rows
        values, own = (one["scores"]["fisher"]["values"][1:] for one in (found, expected))
        assert values == pytest.approx(own, rel=1e-4)
    assert len({name for name, _ in scored.values()}) == 2  # one never stands for the other
