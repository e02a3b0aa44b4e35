from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.studies.study_tools import run_quickly, save_tiny
from tests.tiny import padded_inputs
from tests.training.tuning_tools import tiny_tunable

from frostline.records import Plan, Recipe
from frostline.states.cka import cka_matrix
from frostline.studies import STUDIES, Ask
from frostline.studies.similarity import (
    _centred_grams,
    block_contrast,
    held_out,
    order_of_matches,
    orders_by_chance,
)
from frostline.tasks import load_task
from frostline.training.model import as_tuned
from frostline.trials.context import Context, Materials
from frostline.trials.run_trial import run_trial, tune_for

LAYERS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("similarity")
    save_tiny(made / "second", layers=2, seed=1)
    return made


@pytest.fixture(scope="module")
def studied(folder):
    """Two encoders: 2 seeds of each and 2 of both together."""
    encoders = [str(save_tiny(folder / "tiny", layers=LAYERS)), str(folder / "second")]
    return run_quickly("similarity", folder, encoders=encoders)


@pytest.fixture(scope="module")
def task(studied):
    return load_task(studied.folder.parent / "letters.csv")


@pytest.fixture(scope="module")
def bench(studied, task):
    """A bench on which nothing of the study has run."""
    encoders = {point.spec.encoder.revision: point["encoder"] for point in studied.points}  # named by their folders
    return Context(
        materials=Materials(encoders=encoders, tasks={task.fingerprint: task}, kinds=studied.study.kinds, cache=False)
    )


def hugging_face_states(encoder, task) -> np.ndarray:
    """First tokens at layers 1..L, straight from the stock model."""
    tokens = encoder.tokenize(task.test.texts)
    with torch.no_grad():
        states = encoder.model(**padded_inputs(encoder, tokens), output_hidden_states=True).hidden_states
    return torch.stack(states[1:])[:, :, 0].double().numpy()


def numpy_cka(one: np.ndarray, two: np.ndarray, *, unbiased: bool) -> float:
    """Song's estimator of HSIC as it is printed, with the texts-by-texts matrices; or the paper's."""

    def hsic(first: np.ndarray, second: np.ndarray) -> float:
        k, l = first @ first.T, second @ second.T  # noqa: E741
        n = len(k)
        if not unbiased:
            h = np.eye(n) - 1 / n
            return float(np.trace(k @ h @ l @ h)) / (n - 1) ** 2
        np.fill_diagonal(k, 0)
        np.fill_diagonal(l, 0)
        ones = np.ones(n)
        apart = (ones @ k @ ones) * (ones @ l @ ones) / ((n - 1) * (n - 2))
        return float(np.trace(k @ l) + apart - 2 / (n - 2) * ones @ k @ l @ ones) / (n * (n - 3))

    return hsic(one, two) / float(np.sqrt(hsic(one, one) * hsic(two, two)))


def numpy_matrix(one: np.ndarray, two: np.ndarray, *, unbiased: bool = True) -> np.ndarray:
    return np.array([[numpy_cka(a, b, unbiased=unbiased) for b in two] for a in one])


def test_matrices_are_those_of_hugging_faces_hidden_states(studied, task, bench):
    point = studied.points[0]
    original = hugging_face_states(bench.encoder(point.spec.encoder.revision), task)
    again = replace(point.spec, recipe=replace(point.spec.recipe, seed=point.spec.recipe.seed + 1000))
    first, second = (hugging_face_states(tune_for(bench, spec).tunable.encoder, task) for spec in (point.spec, again))
    expected = {
        "ORIG-ORIG": (original, original),
        "FT-ORIG": (first, original),
        "FT-FT": (first, first),
        "FT[1]-FT[2]": (first, second),
    }
    assert list(point.result.values) == list(expected)
    for name, sides in expected.items():
        np.testing.assert_allclose(np.array(point.result.values[name]), numpy_matrix(*sides), atol=1e-4)
    assert not np.allclose(point.result.values["FT-FT"], point.result.values["ORIG-ORIG"], atol=1e-3)


def test_the_papers_form_is_an_option(studied, task, bench):
    spec = replace(studied.points[0].spec, options={**studied.points[0].spec.options, "biased": True})
    found = run_trial(bench, spec).values["ORIG-ORIG"]
    original = hugging_face_states(bench.encoder(spec.encoder.revision), task)
    np.testing.assert_allclose(np.array(found), numpy_matrix(original, original, unbiased=False), atol=1e-4)
    assert not np.allclose(found, studied.points[0].result.values["ORIG-ORIG"], atol=1e-3)


def test_two_encoders_are_tuned_each_at_its_own_rate_and_compared_on_the_same_rows(studied, task, bench):
    point = next(point for point in studied.points if point["other"])
    other = next(one for one in studied.points if one["encoder"] == point["other"] and one["seed"] == point["seed"])
    one, two = (hugging_face_states(tune_for(bench, spec).tunable.encoder, task) for spec in (point.spec, other.spec))
    np.testing.assert_allclose(np.array(point.result.values["FT-FT"]), numpy_matrix(one, two), atol=1e-4)
    assert np.array(point.result.values["FT-FT"]).shape == (LAYERS, 2)


def test_a_result_depends_on_the_specification_alone(studied, bench):
    point = studied.points[1]
    assert run_trial(bench, point.spec).values == point.result.to_json()["values"]


def test_rows_are_held_out_ones_and_the_same_for_every_seed(task):
    few = held_out(task, 8)
    assert len(few) == 8
    assert few == held_out(task, 8)
    assert set(few.texts) < set(task.test.texts)
    assert held_out(task, 10_000) == task.test


def test_a_question_is_as_many_texts_as_it_has_choices(shared):
    questions = load_task("super_glue/copa", data_dir=shared / "glue")
    assert len(held_out(questions, 8)) == 4
    assert len(held_out(questions, 1)) == 1


def test_block_contrast_finds_two_blocks():
    matrix = [[1.0, 0.9, 0.2, 0.1], [0.9, 1.0, 0.3, 0.2], [0.2, 0.3, 1.0, 0.7], [0.1, 0.2, 0.7, 1.0]]
    contrast, top = block_contrast(matrix)
    assert top == 2
    assert contrast == pytest.approx((0.9 + 0.7) / 2 - (0.2 + 0.1 + 0.3 + 0.2) / 4)


def test_block_contrast_leaves_undefined_pairs_out_and_needs_a_pair_on_both_sides():
    matrix = [[None, None, None], [None, 1.0, 0.5], [None, 0.5, 1.0]]
    assert block_contrast(matrix) is None
    assert block_contrast([[1.0, 0.5], [0.5, 1.0]]) is None
    assert block_contrast([[1.0, 0.9, 0.1], [0.9, 1.0, None], [0.1, None, 1.0]]) == (pytest.approx(0.8), 2)


@pytest.mark.parametrize("unbiased", [True, False])
def test_centred_products_give_cka(unbiased):
    torch.manual_seed(0)
    one, two = torch.randn(3, 30, 5).double(), torch.randn(2, 30, 7).double() + 3
    grams, others = (_centred_grams(side, unbiased=unbiased).flatten(1) for side in (one, two))
    found = grams @ others.T / (grams.norm(dim=1)[:, None] * others.norm(dim=1))
    torch.testing.assert_close(found, cka_matrix(one, two, unbiased=unbiased))


def test_the_order_of_matches_is_one_where_layers_correspond_and_seldom_so_by_chance():
    torch.manual_seed(0)
    layers = torch.randn(6, 60, 8).cumsum(0)
    assert order_of_matches(cka_matrix(layers, layers)) == pytest.approx(1)
    assert order_of_matches(cka_matrix(layers, layers.flip(0))) == pytest.approx(-1)
    assert order_of_matches(torch.tensor([[0.1, 0.9], [0.2, 0.8]])) == 0
    chance = orders_by_chance(layers, layers, draws=50, unbiased=True, seed=0)
    assert len(set(chance)) > 5
    assert sum(drawn >= 1 for drawn in chance) <= 2
    assert abs(sum(chance) / 50) < 0.4
    assert chance == orders_by_chance(layers, layers, draws=50, unbiased=True, seed=0)


def test_a_tuned_final_norm_counts():
    tunable = tiny_tunable("modernbert", Plan.full(4))
    with torch.no_grad():
        tunable.head.stock.model.final_norm.weight.mul_(2)
    found = as_tuned(tunable)
    assert torch.equal(found.model.final_norm.weight, tunable.head.stock.model.final_norm.weight)
    assert not torch.equal(tunable.encoder.model.final_norm.weight, found.model.final_norm.weight)
    plain = tiny_tunable("bert", Plan.full(4))
    assert as_tuned(plain) is plain.encoder


def test_tables_hold_what_made_up_matrices_give(studied, task):
    def matrices(near: float, far: float, top: float) -> dict[str, Any]:
        blocks = [[1.0, near, far], [near, 1.0, far], [far, far, 1.0]]
        flat = [[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]]
        against = [[0.9, 0.9, 0.9], [0.9, 0.9, 0.9], [0.1, None, top]]
        return {"ORIG-ORIG": flat, "FT-ORIG": against, "FT-FT": blocks, "FT[1]-FT[2]": against}

    name = studied.points[0]["encoder"]
    own = [point for point in studied.points if point["encoder"] == name and not point["other"]]
    values = [matrices(0.9, 0.3, 0.4), matrices(0.7, 0.3, 0.2)]
    made = [replace(one, result=replace(one.result, values=more)) for one, more in zip(own, values, strict=True)]
    both = [point for point in studied.points if point["other"]]
    orders = [{"FT-FT": [[0.5]], "order": 0.2, "p": 0.3}, {"FT-FT": [[0.7]], "order": 0.6, "p": 0.1}]
    made += [replace(one, result=replace(one.result, values=more)) for one, more in zip(both, orders, strict=True)]
    ask = Ask(encoders=(), tasks=(task,), seeds=2, rows=None, recipe=Recipe(), known=None, scores=None)
    blocks, across, cells = STUDIES["similarity"].tables(ask, made)

    means = {row["measure"]: row["mean"] for row in blocks.records()}
    assert means["block contrast, pretrained"] == pytest.approx(0)
    assert means["block contrast, tuned"] == pytest.approx((0.6 + 0.4) / 2)
    assert means["block contrast, tuned minus pretrained"] == pytest.approx(0.5)
    assert means["top of the lower block, tuned"] == 2
    assert means["tuned top layer, most similar pretrained layer"] == pytest.approx((0.4 + 0.2) / 2)
    assert means["top layers of two restarts"] == pytest.approx(0.3)
    (row,) = across.records()
    assert (row["order_of_matches"], row["largest_p"]) == (pytest.approx(0.4), 0.3)
    by_place = {(one["matrix"], one["other"], one["row"], one["column"]): one["cka"] for one in cells.records()}
    assert by_place["FT-FT", name, 1, 2] == pytest.approx(0.8)
    assert by_place["FT-ORIG", name, 3, 2] is None
    assert by_place["FT-FT", both[0]["other"], 1, 1] == pytest.approx(0.6)
    assert len(by_place) == 4 * 9 + 1


def test_one_encoder_needs_no_table_of_two(tmp_path):
    alone = run_quickly("similarity", tmp_path, rows=60, layers=2, seeds=1)
    assert [table.name for table in alone.tables] == ["blocks", "matrices"]
    assert "similarity needs 400 or more" in alone.tables[0].notes[0]
