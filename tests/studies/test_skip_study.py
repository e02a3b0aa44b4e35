from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.studies.study_tools import run_quickly
from tests.tiny import ALL_CONFIGS, DEPTH, tiny_encoder
from tests.training.tuning_tools import CLASSES, many_labels, many_tokens, tiny_tunable

from frostline.encoders.surgery import skip
from frostline.kernels import packed_layer as packed
from frostline.records import Plan
from frostline.studies import STUDIES, Ask
from frostline.studies.skip import all_spans, outputs_without
from frostline.tasks import load_task
from frostline.training.dataset import Examples
from frostline.training.model import Tunable, make_tunable
from frostline.trials.context import Context, Materials
from frostline.trials.run_trial import run_trial, tune_for


def rows_of(*, choices: int | None = None) -> Examples:
    tokens = many_tokens()
    if choices is None:
        return Examples(tokens=tokens, states=None, labels=many_labels(), offsets=None)
    offsets = np.array([0, 3, *range(5, len(tokens), choices), len(tokens)])  # questions of 3, 2, 5, ... choices
    return Examples(tokens=tokens, states=None, labels=torch.zeros(len(offsets) - 1, dtype=torch.long), offsets=offsets)


def shortened(tunable: Tunable, first: int, last: int) -> Tunable:
    """The model after surgery, with the head of the whole one."""
    encoder = skip(tunable.encoder, first, last)
    return Tunable(encoder, copy.deepcopy(tunable.head), Plan.full(encoder.depth)).eval()


PARTS = [span for span in all_spans(DEPTH) if span != (1, DEPTH)]  # what is left of these has layers


def test_there_are_as_many_spans_as_pairs_of_layers():
    assert all_spans(3) == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)]
    assert (len(all_spans(6)), len(all_spans(12))) == (21, 78)


def test_without_any_layer_the_head_reads_the_embeddings():
    tunable, rows = tiny_tunable("bert", Plan.full(DEPTH)), rows_of()
    outputs = outputs_without(tunable, rows, [(1, DEPTH)])[1, DEPTH]
    for text in range(len(rows)):
        ids = torch.as_tensor(rows.tokens.take([text]).ids)[None]
        first = tunable.encoder.model.embeddings(input_ids=ids)
        expected = tunable.head(first)
        torch.testing.assert_close(outputs[text], expected[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_outputs_are_those_of_the_model_after_surgery(name):
    tunable, rows = tiny_tunable(name, Plan.full(DEPTH)), rows_of()
    found = outputs_without(tunable, rows, PARTS)
    assert list(found) == PARTS
    whole = rows.outputs(tunable)
    for span, outputs in found.items():
        assert outputs.shape == (40, CLASSES)
        torch.testing.assert_close(outputs, rows.outputs(shortened(tunable, *span)), atol=1e-6, rtol=1e-5)
        assert not torch.allclose(outputs, whole, atol=1e-3)


def test_outputs_are_the_same_to_the_bit_where_the_top_layer_stays():
    tunable, rows = tiny_tunable("bert", Plan.full(DEPTH)), rows_of()
    spans = [span for span in PARTS if span[1] < DEPTH]  # a new top layer is run for first tokens alone
    for span, outputs in outputs_without(tunable, rows, spans).items():
        assert torch.equal(outputs, rows.outputs(shortened(tunable, *span)))


def test_a_question_gets_an_output_for_each_of_its_choices():
    tunable = make_tunable(tiny_encoder("bert"), Plan.full(DEPTH), outputs=1, kind="multiple choice")
    rows = rows_of(choices=5)
    for span, outputs in outputs_without(tunable, rows, [(1, 1), (2, 4)]).items():
        torch.testing.assert_close(outputs, rows.outputs(shortened(tunable, *span)))


def test_a_mean_pooled_head_reads_all_tokens():
    tunable = make_tunable(tiny_encoder("bert"), Plan.full(DEPTH), outputs=CLASSES, head="mean")
    for span, outputs in outputs_without(tunable, rows_of(), PARTS).items():
        torch.testing.assert_close(outputs, rows_of().outputs(shortened(tunable, *span)))


@pytest.mark.parametrize(("name", "layers"), [("bert", 3 + 10), ("albert", 3 + 2 + 1)])
def test_only_layers_above_a_span_run_and_of_shared_layers_only_the_number_counts(name, layers, monkeypatch):
    ran, run_layer = [], packed.run_layer
    monkeypatch.setattr(packed, "run_layer", lambda *given, **more: ran.append(1) or run_layer(*given, **more))
    outputs_without(tiny_tunable(name, Plan.full(DEPTH)), rows_of(), all_spans(DEPTH))
    assert len(ran) == layers


def test_the_model_is_left_as_it_was():
    tunable = tiny_tunable("bert", Plan.full(DEPTH))
    before = {name: value.clone() for name, value in tunable.state_dict().items()}
    trains = set(tunable.trainable())
    outputs_without(tunable, rows_of(), all_spans(DEPTH))
    assert tunable.plan == Plan.full(DEPTH)
    assert set(tunable.trainable()) == trains
    assert all(torch.equal(value, before[name]) for name, value in tunable.state_dict().items())


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    return run_quickly("skip", tmp_path_factory.mktemp("skip"))


@pytest.fixture(scope="module")
def task(studied):
    return load_task(studied.folder.parent / "letters.csv")


def bench_of(studied, task) -> Context:
    """A bench of its own, on which nothing has run."""
    revision = studied.points[0].spec.encoder.revision
    folder = str(studied.folder.parent / "tiny")
    return Context(
        materials=Materials(
            encoders={revision: folder}, tasks={task.fingerprint: task}, kinds=studied.study.kinds, cache=False
        )
    )


def test_a_trial_judges_the_tuned_model_after_surgery(studied, task):
    spec = studied.points[1].spec
    bench = bench_of(studied, task)
    tuned = tune_for(bench, spec)
    rows = bench.shared(spec).examples(tuned.tunable, "test")
    values = studied.points[1].result.values
    judged = {(first, last): metrics for first, last, metrics in values["spans"]}
    assert list(judged) == all_spans(DEPTH)
    for span in PARTS:
        guessed = rows.outputs(shortened(tuned.tunable, *span)).argmax(-1)
        assert judged[span]["accuracy"] == pytest.approx(float((guessed == rows.labels).float().mean()))
        if span[0] == span[1]:
            assert list(values["predictions"][str(span[0])]) == guessed.tolist()


def test_a_result_depends_on_the_specification_alone(studied, task):
    bench = bench_of(studied, task)
    for point in reversed(studied.points):  # in the study, the second came after the first
        again = run_trial(bench, point.spec)
        assert again.values == point.result.to_json()["values"]
        assert again.metrics == point.result.metrics


def test_tables_hold_what_made_up_spans_give(studied, task):
    drops = [{(1, 1): 0.5, (2, 2): 0.1, (3, 3): 0.0, (4, 4): 0.2, (1, 2): 0.4, (3, 4): 0.1}, {(1, 1): 0.3}]
    made = []
    for point, lost, whole in zip(studied.points, drops, (0.9, 0.7), strict=True):
        spans = [[*span, {"accuracy": whole - lost.get(span, 0.0)}] for span in all_spans(DEPTH)]
        told = {"test": tuple(task.test.labels)}  # the whole model knows all; without the first layer none is known
        singles = {"1": [1 - label for label in task.test.labels], **{key: list(task.test.labels) for key in "234"}}
        values = {"spans": spans, "predictions": singles}
        result = replace(point.result, values=values, predictions=told, metrics={"test": {"accuracy": whole}})
        made.append(replace(point, result=result))
    ask = Ask(encoders=(), tasks=(task,), seeds=2, rows=None, recipe=made[0].spec.recipe, known=None, scores=None)
    spans, layers, halves = (table.records() for table in STUDIES["skip"].tables(ask, made))

    first = next(row for row in spans if (row["first"], row["last"]) == (1, 1))
    assert first["mean"] == pytest.approx(40)  # of 40 and 40
    assert first["minus_full"] == pytest.approx(-40)  # of -50 and -30
    fourth = next(row for row in spans if (row["first"], row["last"]) == (4, 4))
    assert (fourth["mean"], fourth["minus_full"]) == (pytest.approx(70), pytest.approx(-10))
    assert len(spans) == 10

    assert [row["drop"] for row in layers] == pytest.approx([40, 5, 0, 10], abs=1e-4)
    assert [row["more_than_others"] for row in layers] == pytest.approx([30, -35, -40, -30], abs=1e-4)
    # Student's t with one degree of freedom is 12.706 at 97.5%, and half the distance of two values their error.
    assert layers[0]["high"] - layers[0]["drop"] == pytest.approx(12.7062 * 10, rel=1e-4)
    assert [(row["rows_low"], row["rows_high"]) for row in layers] == [(100, 100), (0, 0), (0, 0), (0, 0)]

    assert [row["length"] for row in halves] == [1, 2]
    assert halves[0]["lower_drop"] == pytest.approx((30 + 15) / 2)
    assert halves[0]["upper_drop"] == pytest.approx((10 + 0) / 2)
    assert halves[0]["upper_minus_lower"] == pytest.approx(5 - 22.5)
    assert (halves[1]["lower_drop"], halves[1]["upper_drop"]) == (pytest.approx(20), pytest.approx(5))


def test_narrow_encoders_get_a_higher_rate_unless_the_recipe_says_one(studied, tmp_path):
    width = 32
    assert studied.points[0].spec.recipe.learning_rate == pytest.approx(5e-5 * 768 / width)
    more = {"epochs": 1, "batch": 16, "learning_rate": 1e-4}
    told = run_quickly("skip", tmp_path, rows=60, layers=2, seeds=1, recipe=more)
    assert told.points[0].spec.recipe.learning_rate == 1e-4
    assert [record["first"] for record in told.tables[0].records()] == [1, 1, 2]
    assert all(record["rows_low"] is None for record in told.tables[1].records() if "rows_low" in record)  # one seed
