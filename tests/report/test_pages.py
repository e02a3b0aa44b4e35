"""Pages of measurements and studies, and what goes wrong with folders."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from tests.report.report_tools import failed, make_measurement, make_run, make_study, make_tuned, some_scores, told
from tests.report.test_page import Parsed
from tests.trials.test_store import numbered

from frostline.errors import OptionError, UserError
from frostline.report import model_pages
from frostline.report.live import serving
from frostline.report.pages import page_of, write_report
from frostline.report.result_folder import open_folder
from frostline.report.score_figures import best_in_words, curve_figures, similarity_figures
from frostline.studies import STUDIES
from frostline.trials.store import Store


def words_of(folder):
    return Parsed(write_report(folder).read_text(encoding="utf-8")).words


# Measurements --------------------------------------------------------------------------------------------------------


def test_a_measurement_has_its_scores_legend_notes_and_command(tmp_path):
    words = words_of(make_measurement(tmp_path / "scores"))
    for said in ("tiny on letters", "Layer 2 is the best by variability; 2 and 3 cannot be told apart",
                 "1.00 ±0.30 ◀", "1.20 ±0.30 ~", "How spread out classes are.", "a note",
                 "frostline measure 'my data.csv'"):  # fmt: skip
        assert said in words


def test_every_value_interval_and_null_is_drawn():
    (scores,), (alike,) = curve_figures(some_scores()), similarity_figures(some_scores())
    drawn = {(row["score"], row["what"], row["layer"]): row for row in scores.rows}
    assert len(drawn) == 4 + 4 + 3  # variability, its null, and fisher, which has no layer 0
    assert drawn["variability", "measured", 2] == {
        "score": "variability", "what": "measured", "layer": 2, "value": 1.0, "low": 0.7, "high": 1.3, "best": True
    }  # fmt: skip
    assert [row["layer"] for row in scores.rows if row["best"]] == [
        2,
        3,
        3,
    ]  # two are tied
    assert len(alike.rows) == 16
    assert "between 0 and 1" in alike.title


def test_ties_are_said_in_ranges():
    score = some_scores()["variability"]
    assert best_in_words(score) == "Layer 2 is the best by variability; 2 and 3 cannot be told apart"
    from dataclasses import replace

    apart = replace(score, tied=(1, 2, 3), values=(9.0, 2.0, 1.0, 1.2))
    assert "1 to 3 cannot" in best_in_words(apart)
    assert best_in_words(replace(score, tied=(2,))) == "Layer 2 is the best by variability"
    assert "undefined" in best_in_words(replace(score, values=(None, None, None, None), low=None, high=None, tied=()))


# Models that were tuned without a race -------------------------------------------------------------------------------


def test_a_tuned_model_has_its_plan_its_scores_and_its_errors(tmp_path):
    page = page_of(open_folder(make_tuned(tmp_path / "tuned")))
    assert [part["role"] for part in page.stack] == ["dropped", "head", "tuned", "frozen", "frozen"]
    figures = {figure.name: figure for figure in page.figures}
    assert figures["learning"].title == "(2, 2, 2) is best after epoch 2 of 3: 75.0 points on validation"
    assert figures["confusion"].title == "The most frequent error: yes predicted as no, 3 of 8 texts"
    counted = {(row["label"], row["prediction"]): row["texts"] for row in figures["confusion"].rows}
    assert counted == {("yes", "no"): 3, ("yes", "yes"): 5, ("no", "no"): 0, ("no", "yes"): 0}
    (worst,) = (table for section in page.sections for table in section.tables if table.name == "hardest")
    assert [row["row"] for row in worst.records()] == [6, 3, 0]  # wrong ones alone, the surest first


def test_of_very_many_classes_the_most_frequent_errors_are_drawn(tmp_path):
    folder = make_tuned(tmp_path / "tuned")
    record = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0])
    names = [(f"class {number % 50}", f"class {(number + (number >= 50)) % 50}") for number in range(150)]
    told = [{**record, "label": label, "prediction": guess, "probabilities": {label: 0.2, guess: 0.8}}
            for label, guess in names]  # fmt: skip
    (folder / "predictions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))
    figure = next(one for one in page_of(open_folder(folder)).figures if one.name == "confusion")
    assert figure.title.startswith("The most frequent error: class ")
    assert len(figure.rows) == 20
    assert {(row["texts"], row["of"]) for row in figure.rows} == {(2, 3)}


def test_texts_may_hold_any_character_that_ends_a_line_somewhere(tmp_path):
    folder = make_tuned(tmp_path / "tuned")
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().split("\n")]
    lines[6]["text"] = "one\u2028two\u0085three\u2029four"
    told = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (folder / "predictions.jsonl").write_text(told, encoding="utf-8")
    assert "three" in words_of(folder)


def test_of_very_many_values_to_predict_a_part_is_drawn(tmp_path):
    folder = make_tuned(tmp_path / "tuned", kind="regression")
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().split("\n")]
    many = [{**lines[row % 8], "row": row} for row in range(5000)]
    (folder / "predictions.jsonl").write_text("\n".join(map(json.dumps, many)))
    (figure,) = [figure for figure in page_of(open_folder(folder)).figures if figure.name == "residuals"]
    assert len(figure.rows) == 1667
    assert figure.notes == ("one in 3 of 5,000 rows is drawn",)


def test_a_regression_shows_predictions_against_labels_and_the_largest_errors(tmp_path):
    page = page_of(open_folder(make_tuned(tmp_path / "tuned", kind="regression")))
    figures = {figure.name: figure for figure in page.figures}
    assert figures["residuals"].title == "Predictions are 0.59 away from the label on average"
    (worst,) = (table for section in page.sections for table in section.tables if table.name == "hardest")
    assert worst.records()[0]["row"] == 5


# Studies -------------------------------------------------------------------------------------------------------------


def test_the_comparison_with_full_fine_tuning_is_found_by_its_plan_and_not_by_its_name(tmp_path):
    folder = make_run(tmp_path / "run")
    run = json.loads((folder / "run.json").read_text())
    run["tests"][1]["name"] = "everything"
    run["tests"].append({**run["tests"][1], "name": "full fine-tuning", "trial": "trial-2",
                         "choice_minus_it": {"value": 9.0, "low": 8.0, "high": 10.0}})  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    (figure,) = (one for one in page_of(open_folder(folder)).figures if one.name == "tests")
    assert figure.title.endswith(", -0.5 (-1.5 to +0.5) against full fine-tuning")


@pytest.mark.parametrize("name", STUDIES.names())
def test_a_study_has_its_question_figures_tables_and_command(name, tmp_path):
    folder = make_study(tmp_path / name, name)
    page = page_of(open_folder(folder))
    assert page.title == STUDIES[name].question
    assert page.figures
    assert {table.name for section in page.sections for table in section.tables} >= {
        table["name"] for table in json.loads((folder / "tables.json").read_text())
    }
    assert page.command == f"frostline study {name}"


def test_the_page_of_a_study_is_written_with_all_that(tmp_path):
    words = words_of(make_study(tmp_path / "freeze", "freeze"))
    for said in (STUDIES["freeze"].question, "frostline study freeze", "Corresponds to Lee et al. 2019, figure 1"):
        assert said in words


def test_a_large_table_is_shown_in_part_and_says_where_the_rest_is(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze")
    tables = json.loads((folder / "tables.json").read_text())
    (quality,) = [table for table in tables if table["name"] == "quality"]
    quality["rows"] *= 100
    (folder / "tables.json").write_text(json.dumps(tables))
    assert f"{len(quality['rows']) - 400} more rows are in tables/quality.csv." in words_of(folder)


def test_variants_of_a_study_are_called_by_their_own_figures_and_show_their_options(tmp_path):
    for options, number in (({}, 2), ({"new_layer_rate": 5.0}, 7), ({"keep_norms": True}, 8)):
        folder = make_study(tmp_path / str(number), "reinitialise")
        asked = json.loads((folder / "study.json").read_text())
        (folder / "study.json").write_text(json.dumps({**asked, "options": options}))
        page = page_of(open_folder(folder))
        (kept,) = [figure for figure in page.figures if figure.name == "kept"]
        assert kept.paper == f"Tamkin et al. 2020, figure {number}"
        assert {name for name, _ in page.made if name.startswith("option")} == {f"option {name}" for name in options}


def test_nothing_is_claimed_of_tasks_that_were_not_learned(tmp_path):
    for name in ("freeze", "strategies", "surgical"):
        folder = make_study(tmp_path / name, name)
        tables = json.loads((folder / "tables.json").read_text())
        for table in tables:
            if "informative" in table["columns"]:
                place = table["columns"].index("informative")
                table["rows"] = [[*row[:place], False, *row[place + 1 :]] for row in table["rows"]]
        (folder / "tables.json").write_text(json.dumps(tables))
        for figure in page_of(open_folder(folder)).figures:
            assert "0 of 0" not in figure.title
            assert "keeps" not in figure.title
            if figure.name in ("share", "plans", "relative"):
                assert any("not shown to beat a constant answer" in note for note in figure.notes)


def test_trials_that_failed_are_listed_with_their_reasons(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze")
    with Store(folder / "store.sqlite") as store:
        for number, reason in enumerate(("the loss is nan", "the loss is nan", "out of memory")):
            store.put(numbered(number), failed(reason))
    words = words_of(folder)
    assert "Failed trials" in words
    assert words.count("the loss is nan") == 2
    assert "out of memory" in words
    assert "3 trials" in words
    rows = next(one for one in page_of(open_folder(folder)).sections if one.name == "Failed trials").tables[0]
    assert [(row["seed"], row["reason"]) for row in rows.records()] == [
        (numbered(number).recipe.seed, reason)
        for number, reason in enumerate(("the loss is nan", "the loss is nan", "out of memory"))
    ]


def test_a_study_that_runs_says_how_far_it_is(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze", is_over=False)
    assert "trials done" not in words_of(folder)
    (folder / "progress.json").write_text(json.dumps({"done": 3, "total": 12, "seconds_left": 300}))
    assert "3 of 12 trials done, about 5 min left" in words_of(folder)


def test_a_study_whose_process_is_gone_is_not_said_to_run(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze", is_over=False)
    told = {"done": 3, "total": 12, "seconds_left": 300, "host": socket.gethostname()}
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    for process, said in ((gone.pid, "stopped after 3 of 12 trials"), (os.getpid(), "about 5 min left")):
        (folder / "progress.json").write_text(json.dumps({**told, "process": process}))
        assert said in words_of(folder)
    (folder / "progress.json").write_text(json.dumps({**told, "process": gone.pid, "host": "another machine"}))
    assert "about 5 min left" in words_of(folder)


# Folders -------------------------------------------------------------------------------------------------------------


def test_a_folder_of_something_else_is_one_line(tmp_path):
    with pytest.raises(OptionError, match="no such folder"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="contains no result"):
        write_report(tmp_path)
    (tmp_path / "frostline.json").write_text(json.dumps({"kind": "cake"}))
    with pytest.raises(
        UserError, match=r"frostline\.json: kind: must be 'measurement', 'run', 'tuned' or 'study', not \"cake\""
    ):
        write_report(tmp_path)


REMEDY = "; run the command that wrote the folder again"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("run.json", "{", "is not JSON"),
        ("run.json", "{}", "encoder: is missing"),
        ("run.json", "[]", "must be an object, not []"),
        ("result.json", '{"kind": "cake"}', "kind: must be 'tuned', not \"cake\""),
        ("scores.json", '{"scores": 3}', "encoder: is missing"),
        ("metrics.jsonl", '{"epoch": 1}\n{"epoch": null}\n', "line 2: epoch: must be a valid integer, not null"),
        ("predictions.jsonl", '{"row": 1}', "line 1: text: is missing"),
        ("frostline.json", '{"kind": "run", "format": 2}', "format: must be 1, not 2"),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_one_line_with_the_file_and_the_field(tmp_path, name, content, problem):
    for make in (make_run, make_tuned):
        folder = make(tmp_path / make.__name__)
        if make is make_tuned and name in ("run.json", "scores.json"):
            continue
        if make is make_run and name in ("result.json", "metrics.jsonl"):
            continue  # its page is made from others
        (folder / name).write_text(content)
        with pytest.raises(UserError) as error:
            write_report(folder)
        assert str(error.value).startswith(f"{folder / name}: {problem}")
        assert str(error.value).endswith(REMEDY)
        assert "\n" not in str(error.value)


def test_one_wrong_value_deep_in_a_run_is_named_by_its_path(tmp_path):
    folder = make_run(tmp_path / "run")
    run = told(folder, "run.json")
    run["race"][0][1]["plan"]["layers"][0] = "one"
    (folder / "run.json").write_text(json.dumps(run))
    with pytest.raises(
        UserError, match=r'run\.json: race\[0\]\[1\]\.plan\.layers\[0\]: must be a valid integer, not "one"'
    ):
        write_report(folder)


def test_a_file_that_is_missing_is_one_line(tmp_path):
    folder = make_run(tmp_path / "run")
    with pytest.raises(OptionError, match="is a file; give the folder that contains it"):
        write_report(folder / "run.json")
    (folder / "run.json").unlink()
    with pytest.raises(UserError, match=r"run\.json: is missing; run the command"):
        write_report(folder)
    folder = make_measurement(tmp_path / "scores")
    (folder / "scores.json").unlink()
    with pytest.raises(UserError, match=r"contains no scores\.json"):
        write_report(folder)


def test_a_bug_in_a_page_is_a_bug_and_no_damaged_file(tmp_path, monkeypatch):
    monkeypatch.setattr(model_pages, "tests_table", lambda run: run["tests"])
    with pytest.raises(TypeError, match="not subscriptable"):
        write_report(make_run(tmp_path / "run"))


# The live view -------------------------------------------------------------------------------------------------------


def ask(address, *, host=None):
    request = urllib.request.Request(address, headers={} if host is None else {"Host": host})
    with urllib.request.urlopen(request) as answer:  # loopback alone
        return answer.read().decode()


def test_the_live_view_is_on_loopback_and_made_anew(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze", is_over=False)
    (folder / "progress.json").write_text(json.dumps({"done": 1, "total": 4, "seconds_left": None}))
    with serving(folder) as address:
        assert address.startswith("http://127.0.0.1:")
        page, state = ask(address), ask(f"{address}progress.json")
        assert "1 of 4 trials done" in page
        assert "connect-src &#39;self&#39;" in page
        (folder / "progress.json").write_text(json.dumps({"done": 2, "total": 4, "seconds_left": None}))
        assert "2 of 4 trials done" in ask(address)
        assert ask(f"{address}progress.json") != state
        assert ask(f"{address}progress.json") == ask(f"{address}progress.json")


def test_the_live_view_looks_again_while_a_folder_cannot_be_read(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze")
    with serving(folder) as address:
        (folder / "tables.json").write_text("{<b>")
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(address)
        said = error.value.read().decode()
        assert error.value.code == 503
        assert '<meta http-equiv="refresh"' in said and "<b>" not in said


def test_a_finished_study_that_is_run_again_says_how_far_it_is(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze")
    (folder / "progress.json").write_text(json.dumps({"done": 3, "total": 9, "seconds_left": 20}))
    assert page_of(open_folder(folder)).progress["message"] == "3 of 9 trials done, less than a minute left"


def test_the_live_view_gives_nothing_else_and_answers_to_no_other_name(tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze", is_over=False)
    with serving(folder) as address:
        for path in ("store.sqlite", "../frostline.json", "%2e%2e/study.json"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                ask(address + path)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask(address, host="evil.example")
