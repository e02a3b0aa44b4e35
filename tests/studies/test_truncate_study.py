from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy import stats
from tests.studies.made_up import MadeUp
from tests.studies.study_tools import run_quickly, save_tiny
from tests.studies.test_figures import GOLDEN, read_table
from tests.tiny import padded_inputs

from frostline.charts import Results
from frostline.encoders.loading import load_encoder
from frostline.encoders.surgery import truncate as truncated
from frostline.records import Plan, Recipe
from frostline.states.frozen import FrozenStates
from frostline.studies import STUDIES, Ask
from frostline.studies._tables import notes_on_all
from frostline.studies.truncate import _own_head
from frostline.studies.truncate.heads import fresh_heads, further_heads, head_recipe, read_by, rows_at_all_layers
from frostline.tasks import load_task
from frostline.training.execution import Settings, execute
from frostline.training.loop import train
from frostline.training.model import Tunable, as_tuned
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, Materials
from frostline.trials.results import decode_outputs
from frostline.trials.run_trial import run_trial, tune_for

LAYERS = 3
HEADS = Recipe(learning_rate=1e-2, epochs=2, batch=8, threads=1, seed=3)
EXACT = replace(HEADS, cache_dtype="float32", warmup=0.2, select="last")


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    return run_quickly("truncate", tmp_path_factory.mktemp("truncate"), layers=LAYERS, options={"fresh": True})


@pytest.fixture(scope="module")
def task(studied):
    return load_task(studied.folder.parent / "letters.csv")


@pytest.fixture(scope="module")
def bench(studied, task):
    """A bench on which nothing of the study has run."""
    revision = studied.points[0].spec.encoder.revision
    folder = str(studied.folder.parent / "tiny")
    return Context(
        materials=Materials(
            encoders={revision: folder}, tasks={task.fingerprint: task}, kinds=studied.study.kinds, cache=False
        )
    )


@pytest.fixture(scope="module")
def tuned(studied, bench):
    return tune_for(bench, studied.points[0].spec)


@pytest.fixture(scope="module")
def inputs(studied, bench):
    return bench.shared(studied.points[0].spec)


def test_untuned_is_the_tuned_head_on_hugging_faces_hidden_states(studied, tuned, inputs):
    tokens, _ = inputs.tokens("test")
    encoder, stock = tuned.tunable.encoder, tuned.tunable.head.stock
    with torch.no_grad():
        states = encoder.model(**padded_inputs(encoder, tokens), output_hidden_states=True).hidden_states
        for layer, read in enumerate(studied.points[0].result.values["UNTUNED"], start=1):
            logits = stock.classifier(stock.bert.pooler(states[layer]))
            assert read["predictions"] == logits.argmax(-1).tolist()
            labels = torch.tensor(tuned.task.test.labels)
            assert read["metrics"]["accuracy"] == pytest.approx(float((logits.argmax(-1) == labels).float().mean()))


def test_the_whole_model_is_the_last_layer_of_untuned(studied):
    for point in studied.points:
        last = point.result.values["UNTUNED"][LAYERS - 1]
        assert last["metrics"] == point.result.metrics["test"]
        assert tuple(last["predictions"]) == point.result.predictions["test"]


def read_at_all_layers(inputs, encoder, heads, recipe, *, train_rows=None):
    splits = rows_at_all_layers(inputs, encoder, recipe, train_rows=train_rows, reads=heads.reads)
    return read_by(heads, encoder, splits, inputs.task, recipe)


def read_by_fresh(inputs, encoder, *, train_rows=None):
    heads = fresh_heads(encoder, inputs.task, HEADS)
    return read_at_all_layers(inputs, encoder, heads, HEADS, train_rows=train_rows)


@pytest.mark.parametrize("arm", ["FRESH", "TUNEDORIG"])
def test_fresh_heads_are_those_of_a_plan_that_trains_the_head_alone(arm, studied, task, tuned, inputs):
    point = studied.points[0]
    encoder = tuned.tunable.encoder if arm == "FRESH" else inputs.encoder
    recipe = head_recipe(point.spec.recipe, point.spec.options)
    for layer in range(1, LAYERS):  # at the last layer a plan would start from the pretrained pooler
        alone = execute(
            SharedInputs(encoder, task, keep=False), Plan(layers=(), head=layer), recipe, settings=Settings()
        )  # fmt: skip
        read = point.result.values[arm][layer - 1]
        assert tuple(read["predictions"]) == decode_outputs(alone.outputs["test"], task.kind)
        assert read["metrics"] == pytest.approx(alone.metrics["test"])


@pytest.mark.parametrize("arm", ["TUNED", "TUNEDORIG"])
def test_a_head_that_is_trained_further_is_the_tuned_head_trained_alone(arm, tuned, inputs):
    """Each layer's head by the plain loop, from a copy of the tuned head, on the states of that layer alone."""
    encoder = tuned.tunable.encoder if arm == "TUNED" else inputs.encoder
    together = read_at_all_layers(inputs, encoder, further_heads(tuned.tunable.head, LAYERS), EXACT)
    reads = tuned.tunable.head.reads
    splits = rows_at_all_layers(inputs, encoder, EXACT, train_rows=None, reads=reads)
    for layer in range(1, LAYERS + 1):
        body = truncated(encoder, layer) if layer < LAYERS else encoder.copy()
        alone = Tunable(body, copy.deepcopy(tuned.tunable.head), Plan(layers=(), head=layer)).eval()
        rows = {name: at_layer(part, layer) for name, part in splits.items()}
        train(alone, rows["train"], rows["validation"], EXACT, metrics=("accuracy",), learning_rate=1e-2)
        torch.testing.assert_close(together[layer - 1], rows["test"].outputs(alone), atol=2e-4, rtol=2e-4)


def at_layer(rows, layer):
    states = rows.states
    one = FrozenStates(states.encoder, states.tokens, layer, dtype="float32", reads=states.reads)
    one.kept = states.kept[:, layer - 1]
    return replace(rows, states=one)


def test_heads_that_hardly_train_read_as_the_tuned_head_does(tuned, inputs):
    """One step of almost nothing: TUNED is then UNTUNED, and the whole model at the last layer."""
    encoder = as_tuned(tuned.tunable)
    still = replace(EXACT, learning_rate=1e-7, steps=1)
    read = read_at_all_layers(inputs, encoder, further_heads(tuned.tunable.head, LAYERS), still)
    untuned = _own_head(tuned.tunable, inputs.examples(tuned.tunable, "test"))
    for ours, theirs in zip(read, [*untuned, tuned.outputs["test"]], strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-5)
    further = read_at_all_layers(inputs, encoder, further_heads(tuned.tunable.head, LAYERS), EXACT)
    assert not torch.allclose(further[0], untuned[0], atol=1e-3)


@pytest.mark.parametrize("name", ["modernbert", "albert"])
def test_the_last_layer_starts_from_the_whole_model_also_with_a_final_norm_or_shared_layers(name, task, tmp_path):
    encoder = load_encoder(str(save_tiny(tmp_path / name, family=name)))
    shared = SharedInputs(encoder, task, keep=False)
    plan = Plan.full(encoder.depth)
    tuned = execute(shared, plan, replace(EXACT, epochs=1, learning_rate=1e-3), settings=Settings())
    heads = further_heads(tuned.tunable.head, encoder.depth)
    still = replace(EXACT, learning_rate=1e-7, steps=1)
    read = read_at_all_layers(shared, as_tuned(tuned.tunable), heads, still)
    torch.testing.assert_close(read[-1], tuned.outputs["test"], atol=5e-5, rtol=1e-4)


def test_heads_train_by_the_recipe_of_the_model_unless_the_options_set_another():
    recipe = Recipe(learning_rate=1e-5, steps=10_000, warmup=0.1, batch=4)
    assert head_recipe(recipe, {"head_rate": 0.0, "head_epochs": 0}) == recipe
    assert head_recipe(recipe, {"head_rate": 1e-3, "head_epochs": 0}) == replace(recipe, learning_rate=1e-3)
    assert head_recipe(recipe, {"head_rate": 0.0, "head_epochs": 2}) == replace(recipe, steps=None, epochs=2)


def test_no_trial_has_the_id_of_one_whose_tuned_heads_were_fresh(tmp_path):
    """Trials before the option `orig_start` had two options; a new one with the same values must not find them."""
    given = {"head_rate": 1e-3, "head_epochs": 5}
    new = run_quickly("truncate", tmp_path, layers=2, executor=MadeUp, seeds=1, options=given).points[0].spec
    assert replace(new, options=given).id != new.id


def test_where_the_heads_on_pretrained_states_start_is_an_option(studied, tmp_path):
    found = run_quickly("truncate", tmp_path, layers=LAYERS, seeds=1, options={"orig_start": "tuned"})
    ours, theirs = (point.result.values for point in (found.points[0], studied.points[0]))
    assert ours["UNTUNED"] == theirs["UNTUNED"]
    assert ours["TUNED"] == theirs["TUNED"]
    assert [one["predictions"] for one in ours["TUNEDORIG"]] != [one["predictions"] for one in theirs["TUNEDORIG"]]
    assert "FRESH" not in ours


def test_the_arms_differ_in_the_states_they_read(tuned, inputs):
    of_tuned = read_by_fresh(inputs, tuned.tunable.encoder)
    of_pretrained = read_by_fresh(inputs, inputs.encoder)
    assert not torch.allclose(of_tuned[0], of_pretrained[0], atol=1e-3)


def test_a_head_at_the_top_starts_fresh_whatever_the_pretrained_pooler(inputs):
    before = read_by_fresh(inputs, inputs.encoder, train_rows=20)
    other = inputs.encoder.copy()
    torch.nn.init.constant_(other.model.pooler.dense.weight, 0.1)
    after = read_by_fresh(inputs, other, train_rows=20)
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))


def test_fewer_training_rows_give_other_heads(inputs):
    few, many = (read_by_fresh(inputs, inputs.encoder, train_rows=rows) for rows in (20, None))
    assert not torch.allclose(few[-1], many[-1], atol=1e-3)


def test_a_result_depends_on_the_specification_alone(studied, bench):
    point = studied.points[1]  # in the study, it came after the first
    again = run_trial(bench, point.spec)
    assert again.to_json()["values"] == point.result.to_json()["values"]


def made_up(point, task, *, right: dict[str, list[float]], whole: float):
    """A point whose arms answer these shares of the test rows rightly, layer by layer, the first rows first."""
    labels = task.test.labels

    def read(share: float) -> dict[str, Any]:
        count = round(share * len(labels))
        said = [label if place < count else 1 - label for place, label in enumerate(labels)]
        return {"metrics": {"accuracy": count / len(labels)}, "predictions": said}

    values = {arm: [read(share) for share in shares] for arm, shares in right.items()}
    full = read(whole)
    result = replace(
        point.result, values=values, metrics={"test": full["metrics"]}, predictions={"test": tuple(full["predictions"])}
    )
    return replace(point, result=result)


def test_tables_hold_what_made_up_readings_give(studied, task):
    one, other = studied.points
    right = {"UNTUNED": [0.5, 1.0, 1.0], "TUNED": [1.0, 1.0, 1.0], "TUNEDORIG": [0.5, 0.5, 0.75]}
    made = [made_up(one, task, right=right, whole=1.0), made_up(other, task, right=right, whole=1.0)]
    ask = Ask(encoders=(), tasks=(task,), seeds=2, rows=None, recipe=HEADS, known=None, scores=None)
    layers, summary = (table.records() for table in STUDIES["truncate"].tables(ask, made))
    by_place = {(row["arm"], row["layer"]): row for row in layers}

    lowest = by_place["UNTUNED", 1]
    half = 100 * round(0.5 * len(task.test.labels)) / len(task.test.labels)
    assert (lowest["mean"], lowest["minus_full"]) == (pytest.approx(half), pytest.approx(half - 100))
    assert lowest["rows_low"] < half - 100 < lowest["rows_high"] < 0
    assert (lowest["non_inferior"], by_place["UNTUNED", 2]["non_inferior"]) == (False, True)
    assert by_place["majority", None]["mean"] == pytest.approx(
        100 * max(task.test.labels.count(label) for label in (0, 1)) / len(task.test.labels), abs=15
    )
    assert (summary[0]["can_go_untuned"], summary[0]["can_go_tuned"]) == (1, 2)
    # The upper half of three layers is 2 and 3.
    orig = [by_place["TUNEDORIG", layer]["mean"] for layer in (2, 3)]
    assert summary[0]["tuned_minus_orig"] == pytest.approx(100 - sum(orig) / 2, rel=1e-4)


def test_counting_stops_at_the_first_cut_that_is_not_shown_to_be_harmless(studied, task):
    right = {"UNTUNED": [1.0, 0.5, 1.0], "TUNED": [0.5, 0.5, 1.0], "TUNEDORIG": [0.5, 0.5, 0.5]}
    made = [made_up(point, task, right=right, whole=1.0) for point in studied.points]
    ask = Ask(encoders=(), tasks=(task,), seeds=2, rows=None, recipe=HEADS, known=None, scores=None)
    (summary,) = STUDIES["truncate"].tables(ask, made)[1].records()
    assert (summary["can_go_untuned"], summary["can_go_tuned"]) == (0, 0)


def test_p_values_are_those_of_paired_t_tests_corrected_for_the_layers_of_an_arm(studied, task):
    shares = [(0.5, 0.7, 0.9), (0.6, 0.75, 1.0), (0.4, 0.8, 1.0)]
    points = [*studied.points, replace(studied.points[0], labels={**studied.points[0].labels, "seed": 2})]
    made = [
        made_up(point, task, right={arm: list(share) for arm in ("UNTUNED", "TUNED", "TUNEDORIG")}, whole=1.0)
        for point, share in zip(points, shares, strict=True)
    ]
    ask = Ask(encoders=(), tasks=(task,), seeds=3, rows=None, recipe=HEADS, known=None, scores=None)
    records = STUDIES["truncate"].tables(ask, made)[0].records()
    rows = [row for row in records if row["arm"] == "TUNED"]
    count = len(task.test.labels)
    found = [[round(share[layer] * count) / count for share in shares] for layer in range(LAYERS)]
    expected = [float(stats.ttest_rel(one, [1.0] * 3).pvalue) for one in found]
    assert [row["p"] for row in rows] == pytest.approx(expected, rel=1e-4)
    lowest, middle, highest = sorted(expected)
    by_p = sorted(rows, key=lambda row: row["p"])
    assert [row["p_holm"] for row in by_p] == pytest.approx(
        [min(1, 3 * lowest), max(3 * lowest, 2 * middle), max(3 * lowest, 2 * middle, highest)], rel=1e-4
    )
    # The last layer read by the model's own head is the model itself, which is compared with nothing.
    first, second, last = (row for row in records if row["arm"] == "UNTUNED")
    assert [last[name] for name in ("minus_full", "seeds_low", "rows_low", "non_inferior", "p", "p_holm")] == [None] * 6
    lower, higher = sorted([expected[0], expected[1]])
    assert sorted([first["p_holm"], second["p_holm"]]) == pytest.approx([2 * lower, max(2 * lower, higher)], rel=1e-4)


def test_a_task_that_full_tuning_does_not_solve_is_said_to_tell_nothing(studied, task):
    right = {arm: [0.5, 0.5, 0.5] for arm in ("UNTUNED", "TUNED", "TUNEDORIG")}
    ask = Ask(encoders=(), tasks=(task,), seeds=2, rows=None, recipe=HEADS, known=None, scores=None)
    for whole, is_said in ((0.5, True), (1.0, False)):
        made = [made_up(point, task, right=right, whole=whole) for point in studied.points]
        assert any("uninformative" in note for note in notes_on_all(ask, made)) == is_said


def names_in_figure(options):
    tables = {path.stem: read_table(path) for path in (GOLDEN / "truncate-fresh").glob("*.csv")}
    layers, _ = STUDIES["truncate"].draw(Results(tables=tables, options=options))
    return {row["arm"]: row["read_by"] for row in layers.rows}


def test_the_figure_shows_every_arm():
    names = names_in_figure({"orig_start": "fresh"})
    assert set(names) == {"UNTUNED", "TUNED", "TUNEDORIG", "FRESH"}
    assert len(set(names.values())) == 4
    assert "further" in names["TUNED"]


def test_a_study_of_an_earlier_version_is_drawn_under_its_own_names():
    """Its options had no `orig_start`, and its TUNED was a fresh head."""
    assert "fresh" in names_in_figure({"rate": 1e-5, "head_rate": 1e-3, "head_epochs": 10})["TUNED"]
