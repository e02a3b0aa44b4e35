"""What holds for every study, those that are added later included."""

from __future__ import annotations

import csv
import inspect
import json
import sys

import pytest
from tests.search.race_tools import write_rows
from tests.studies.study_tools import Nothing, run_quickly, save_tiny, study_with

from frostline.errors import OptionError, UserError
from frostline.studies import STUDIES
from frostline.tasks import PRESETS


@pytest.fixture(scope="module", params=STUDIES.names())
def studied(request, tmp_path_factory):
    """A quick run of the study on a tiny encoder and small data."""
    return run_quickly(request.param, tmp_path_factory.mktemp(request.param))


def test_it_runs_through_and_no_trial_fails(studied):
    assert studied.points
    assert studied.failed == ()


def test_a_quick_run_has_12_trials_at_most(studied):
    assert len({point.spec.id for point in studied.points}) <= 12


def test_every_trial_says_what_it_stands_for(studied):
    for point in studied.points:
        assert {"encoder", "task", "arm", "seed"} <= point.labels.keys()
        json.dumps(dict(point.labels))


def test_every_trial_says_how_long_it_took(studied):
    for point in studied.points:
        assert sum(point.result.seconds.values()) > 0


def test_its_tables_have_rows_and_lie_in_the_folder(studied):
    assert studied.tables
    for table in studied.tables:
        assert table.rows, table.name
        written = (studied.folder / "tables" / f"{table.name}.csv").read_text().splitlines()
        assert next(csv.reader(written)) == list(table.columns)


def test_running_it_again_runs_nothing_and_gives_the_same_tables(studied):
    ran = []
    again = run_quickly(studied.name, studied.folder.parent, progress=ran.append)
    assert ran == []
    assert again.tables == studied.tables


@pytest.mark.parametrize("name", STUDIES.names())
def test_it_says_what_it_asks_in_one_line_that_ends_with_a_question_mark(name):
    found = STUDIES[name]
    assert found.question.endswith("?")
    assert "\n" not in found.question
    assert found.about
    assert found.paper
    for option in found.defaults:
        assert f"`{option}`" in found.about, f"{name}: the option {option} is not described"


@pytest.mark.parametrize("name", STUDIES.names())
def test_its_tasks_are_presets(name):
    for task in (*STUDIES[name].tasks, *STUDIES[name].quick_tasks):
        assert task in PRESETS


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("surgical", "most", 0),
        ("freeze", "step", 0),
        ("freeze", "rates", 0),
        ("freeze", "rates", 6),
        ("strategies", "arms", "ful+top-1"),
        ("strategies", "methods", "full+adapter"),
        ("permute", "orders", 0),
        ("permute", "size", -1),
        ("truncate", "head_epochs", 0),
        ("probing", "probe_rate", -1),
        ("probing", "scores", "variability,rnak"),
        ("probing", "examples", 1),
        ("probing", "states", "middle"),
        ("strategies", "states", "middle"),
        ("strategies", "rates", -1),
        ("strategies", "bottleneck", -3),
        ("similarity", "texts", 3),
        ("similarity", "permutations", 0),
        ("reinitialise", "step", -1),
        ("reinitialise", "sizes", "many"),
    ],
)
def test_values_that_make_no_sense_are_refused_before_anything_runs(name, option, value, tmp_path):
    ran = []
    with pytest.raises(UserError, match=str(value).split("+")[-1].split(",")[-1].replace("top-1", "ful")) as error:
        run_quickly(name, tmp_path, options={option: value}, progress=ran.append)
    assert "\n" not in str(error.value)
    assert ran == []


def test_no_trial_trains_on_more_rows_than_are_asked_for(tmp_path):
    encoder, data = save_tiny(tmp_path / "tiny", layers=2), write_rows(tmp_path / "letters.csv", 120)
    given = {"encoders": [str(encoder)], "tasks": [str(data)], "quick": True, "rows": 40, "seeds": 1}
    for name in STUDIES.names():
        if name != "robustness":  # it draws its own
            found = study_with(name, output=tmp_path / name, executor=Nothing, estimate=False, **given)
            assert {point.spec.train_rows for point in found.points} == {40}, name
            assert len(found.failed) == len({point.spec.id for point in found.points})


@pytest.mark.parametrize("name", STUDIES.names())
def test_its_options_are_checked(name):
    with pytest.raises(OptionError, match="unknown option 'nonsense'"):
        STUDIES[name].options({"nonsense": 1})
    parameters = inspect.signature(STUDIES[name].trials).parameters
    assert set(STUDIES[name].defaults) == {key for key, one in parameters.items() if one.kind is one.KEYWORD_ONLY}


@pytest.mark.parametrize("name", STUDIES.names())
def test_it_says_what_its_paper_varies_unless_it_is_given(name):
    """What depends on it is part of the specification."""
    study = STUDIES[name]
    source = inspect.getsource(sys.modules[study.trials.__module__])
    found = {what for what, sign in (("epochs", "ask.epochs("), ("seeds", "in ask.given")) if sign in source}
    assert study.varies == found
