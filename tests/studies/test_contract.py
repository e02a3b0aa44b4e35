"""What holds for every study, those that are added later included."""

from __future__ import annotations

import csv
import inspect
import json
from dataclasses import fields, replace

import pytest
from tests.records.made_up import measured_encoder, measured_task
from tests.search.race_tools import write_rows
from tests.studies.study_tools import Nothing, run_quickly, save_tiny, study_with

from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError, UserError
from frostline.records import LayerScore, LayerScores, Recipe, TrialResult
from frostline.studies import STUDIES, Ask
from frostline.tasks import PRESETS, load_task


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
    steps = []
    again = run_quickly(studied.study.name, studied.folder.parent, progress=steps.append)
    assert {step.stage for step in steps} == {"making the tables"}
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
def test_it_says_in_one_sentence_how_the_epoch_is_chosen(name):
    said = STUDIES[name].selection
    assert said.endswith(".") and said.count(". ") == said.count("al. ")
    recipe = Recipe(**STUDIES[name].recipe)
    if name != "robustness":  # it trains no encoder
        assert {"best": "best epoch is kept", "last": "Both protocols keep the "}[recipe.select] in said
    if "protocol='paper'" in said:
        assert "protocol='held-out'" in said


@pytest.mark.parametrize("name", STUDIES.names())
def test_what_its_paper_leaves_unstated_are_fields_of_the_recipe(name):
    known = {field.name for field in fields(Recipe)}
    assert set(STUDIES[name].unstated) <= known
    assert all(reason.strip() for reason in STUDIES[name].unstated.values())


@pytest.mark.parametrize(
    ("paper", "select", "warmup"),
    [
        ("Xie et al. 2022", "best", 0.06),
        ("Lodha et al. 2023", "last", 0.0),
        ("Tamkin et al. 2020", "last", 0.0),
        ("Phang et al. 2021", "last", 0.1),
        ("Lee et al. 2019", "last", 0.06),
    ],
)
def test_studies_of_a_paper_choose_the_epoch_and_warm_up_as_it_does(paper, select, warmup):
    recipes = {name: Recipe(**one.recipe) for name, one in STUDIES.items() if one.paper.startswith(paper)}
    assert recipes
    assert {name: (one.select, one.warmup) for name, one in recipes.items()} == dict.fromkeys(recipes, (select, warmup))


@pytest.mark.parametrize("name", STUDIES.names())
def test_values_from_before_an_option_existed_are_values_of_options(name):
    study = STUDIES[name]
    assert study.options(study.before) != study.options({}) or not study.before


@pytest.mark.parametrize("name", STUDIES.names())
def test_its_tasks_are_presets(name):
    for task in (*STUDIES[name].tasks, *STUDIES[name].quick_tasks):
        assert task in PRESETS


@pytest.mark.parametrize(
    ("name", "option", "value", "mistake"),
    [
        ("surgical", "most", 0, "most 0 must be 1 or more"),
        ("surgical", "fisher_rows", "test", "fisher_rows 'test' must be one of train, validation"),
        ("ranking", "fisher_rows", "dev", "fisher_rows 'dev' must be one of train, validation"),
        ("strategies", "activation", "tanh", "activation 'tanh' must be one of gelu, relu"),
        ("strategies", "initialisation", "zero", "initialisation 'zero' must be one of truncated, normal"),
        ("freeze", "step", 0, "step 0 must be 1 or more"),
        ("freeze", "rates", 0, "rates 0 must be 1 or more"),
        ("freeze", "rates", 6, r"rates 6 must be 1\.\.5"),
        ("strategies", "arms", "ful+top-1", "arms: unknown 'ful'"),
        ("strategies", "methods", "full+adapter", "unknown method 'adapter'"),
        ("permute", "orders", 0, "orders 0 must be 1 or more"),
        ("permute", "size", -1, "size -1 must be 0 or more"),
        ("truncate", "head_epochs", -1, "head_epochs -1 must be 0 or more"),
        ("truncate", "orig_start", "new", "orig_start 'new' must be one of fresh, tuned"),
        ("probing", "probe_rate", -1, "probe_rate -1 must be 0 or more"),
        ("probing", "scores", "variability,rnak", "unknown layer score 'rnak'"),
        ("probing", "examples", 1, "examples 1 must be 2 or more"),
        ("probing", "states", "middle", "states 'middle' must be one of mean, first"),
        ("strategies", "states", "middle", "states 'middle' must be one of mean, first"),
        ("strategies", "rates", -1, "rates -1 must be 0 or more"),
        ("strategies", "bottleneck", -3, "bottleneck -3 must be 0 or more"),
        ("similarity", "texts", 3, "texts 3 must be 4 or more"),
        ("similarity", "permutations", 0, "permutations 0 must be 1 or more"),
        ("reinitialise", "step", -1, "step -1 must be 0 or more"),
        ("reinitialise", "sizes", "many", "sizes 'many' must be 'paper' or whole numbers from 1, joined by"),
    ],
)
def test_values_that_make_no_sense_are_refused_before_anything_runs(name, option, value, mistake, tmp_path):
    ran = []
    with pytest.raises(UserError, match=mistake) as error:
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


@pytest.fixture(scope="module")
def make_ask(tmp_path_factory):
    """What asks a study for its trials on two families and on tasks of these names, all trials having failed."""
    folder = tmp_path_factory.mktemp("varies")
    letters = load_task(write_rows(folder / "letters.csv", 120))
    encoders = [load_encoder(save_tiny(folder / family, family=family)) for family in ("bert", "roberta")]

    def make(names, *given):
        return Ask(
            encoders=tuple(encoders),
            tasks=tuple(replace(letters, name=name, preset=name) for name in names),
            seeds=2,
            rows=None,
            recipe=Recipe(epochs=7),
            known=lambda spec: TrialResult(status="failed", reason="on purpose"),
            scores=made_up_scores,
            given=frozenset(given),
        )

    return make


def made_up_scores(encoder, task, names, *, pooling="mean", rows="train", examples=5_000):
    """Layer scores of which the last layer's are the best."""
    values = tuple(float(layer) for layer in range(encoder.depth + 1))
    return LayerScores(
        encoder=measured_encoder(encoder.depth), task=measured_task(task.name), pooling=pooling,
        rows=rows, examples=96, max_length=512, truncated=0, seed=0,
        scores={name: LayerScore(name=name, better="high", values=values, summary="made up") for name in names},
    )  # fmt: skip


@pytest.mark.parametrize("what", ["epochs", "seeds"])
@pytest.mark.parametrize("name", STUDIES.names())
def test_it_says_what_its_paper_varies_unless_it_is_given(name, what, make_ask):
    """What depends on it is part of the specification: giving the number that is set anyway changes the trials."""
    study = STUDIES[name]

    def trials(*given):
        return [point.spec.id for point in study.trials(make_ask(study.tasks, *given), **study.options({}))]

    assert trials()
    assert (trials() != trials(what)) == (what in study.varies)
