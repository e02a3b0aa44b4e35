"""A whole run on few rows, whose plans are judged by cross-validation and whose model is trained on all of them."""

from __future__ import annotations

import json

import pytest
from tests.search.race_tools import save_shallow, write_rows

import frostline
from frostline.records import Recipe
from frostline.search.judging import FOLDS, divided_for_search
from frostline.tasks import load_task
from frostline.trials.store import Store

RECIPE = Recipe(epochs=2, batch=16, threads=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(folder / "cache"))
        encoder, rows = save_shallow(folder / "encoder"), write_rows(folder / "rows.csv")
        yield frostline.run(encoder, rows, output=folder / "run", recipe=RECIPE), load_task(rows), encoder


def recorded(run):
    with Store(run.folder / "store.sqlite", for_reading=True) as store:
        return list(store)


def test_every_plan_is_judged_on_every_labelled_row(finished):
    run, task, _ = finished
    labelled = len(task.train) + len(task.validation)
    assert (run.record.folds, run.record.validation_rows) == (FOLDS, labelled)
    trials = recorded(run)
    assert {spec.kind for spec, _ in trials} == {"folds"}
    assert {len(result.predictions["validation"]) for _, result in trials} == {labelled}


def test_the_score_of_the_choice_is_that_of_its_predictions_for_rows_that_its_models_had_not_seen(finished):
    run, task, _ = finished
    labels = divided_for_search(task, refit=True, goal="cheapest")[0].labelled.labels
    chosen = next(result for spec, result in recorded(run) if spec.id == run.decision.chosen)
    right = [guess == label for guess, label in zip(chosen.predictions["validation"], labels, strict=True)]
    assert run.chosen.result.metrics["validation"]["accuracy"] == pytest.approx(sum(right) / len(right))


def test_plans_train_for_a_fixed_number_of_steps_at_one_rate(finished):
    run, _, _ = finished
    tuned = [spec for spec, _ in recorded(run) if spec.plan.layers]
    assert len({spec.recipe.steps for spec in tuned}) == 1
    assert len({str(spec.plan.identity()) for spec in tuned}) == len(tuned)


def test_the_saved_model_is_that_of_its_plan_and_recipe_on_all_labelled_rows(finished, tmp_path):
    run, task, encoder = finished
    assert run.tuned.recipe.rows == "all"
    again = frostline.tune(
        encoder, task, plan=str(run.folder / "plan.json"), output=tmp_path / "again", recipe=run.folder / "recipe.json"
    )
    model = "model/model.safetensors"
    assert (run.folder / model).read_bytes() == (tmp_path / "again" / model).read_bytes()
    assert again.metrics["test"] == run.tuned.metrics["test"]


def test_the_output_says_how_plans_were_judged(finished):
    run, _, _ = finished
    labelled = run.record.validation_rows
    how = f"{labelled} labelled rows are few, so plans are judged by 4-fold"
    assert any(note.startswith(how) for note in run.record.notes)
    assert f"on {labelled} labelled rows in 4 folds" in " ".join(run.decision.why) or run.decision.proof is None
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert f"after the plan was chosen on {labelled} labelled rows in 4 folds" in page
    assert json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["folds"] == FOLDS


def test_a_single_run_has_no_refit_of_its_own(finished):
    run, _, _ = finished
    assert "refit" not in run.record.seconds
    assert not any(test.name == "the choice before its refit" for test in run.tests)
