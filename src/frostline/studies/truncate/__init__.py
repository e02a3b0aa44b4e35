"""Reading a tuned model at every layer, paper 4."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.head_stack import HeadStack
from frostline.kernels.batch_layout import Ints, Reads
from frostline.progress import Progress, silent
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.records.difference import Difference
from frostline.records.table import Cell, Table, table_of
from frostline.states.all_layers import states_of_layers
from frostline.stats.intervals import compare_means, differences, paired_p, summarise
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import correct, interval_columns, non_inferior_note
from frostline.studies._limits import above_zero, at_least
from frostline.studies._phang import PHANG_RECIPE, PHANG_TASKS
from frostline.studies._tables import (
    DRAWS,
    constant_quality,
    group_points,
    is_informative,
    judged_split,
    metric_in_points,
    quality_columns,
    quality_in_points,
    summary_columns,
)
from frostline.studies.skip import outputs_without
from frostline.studies.truncate.figures import figures
from frostline.tasks import Task
from frostline.training.dataset import Examples
from frostline.training.loop import judge
from frostline.training.many_heads import stacked, train_heads
from frostline.training.model import Tunable, as_tuned, choose_head, set_dropout
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs, result_of
from frostline.trials.run_trial import tune_for

_ARMS = ("UNTUNED", "TUNED", "TUNEDORIG")

Reading = dict[str, Any]  # metrics and predictions of one arm at one layer


def _truncate(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune, then read the model at every layer: by its own head, and by fresh ones on it and on the pretrained one."""
    tuned = tune_for(context, spec)
    shared = context.shared(spec)
    how = {"learning_rate": spec.options["head_rate"], "epochs": spec.options["head_epochs"], "steps": None}
    recipe = replace(tuned.recipe, **how)
    split, _ = judged_split(tuned.task)
    outputs = {
        "UNTUNED": [*_own_head(tuned.tunable, shared.examples(tuned.tunable, split)), tuned.outputs[split]],
        "TUNED": _fresh_heads(shared, as_tuned(tuned.tunable), recipe, context.progress, train_rows=spec.train_rows),
        "TUNEDORIG": _fresh_heads(shared, shared.encoder, recipe, context.progress, train_rows=spec.train_rows),
    }
    labels = torch.tensor(tuned.task.splits[split].labels)
    read = {arm: [_reading(found, labels, tuned.task) for found in layers] for arm, layers in outputs.items()}
    found = result_of(tuned)
    return replace(found, predictions={split: found.predictions[split]}, values=read)


def _reading(outputs: Tensor, labels: Tensor, task: Task) -> Reading:
    return {
        "metrics": judge(outputs, labels, task.metrics, task.kind),
        "predictions": list(decode_outputs(outputs, task.kind)),
    }


def _own_head(tunable: Tunable, rows: Examples) -> list[Tensor]:
    """What the tuned head and pooler say when they read at each of layers 1..L-1: nothing is trained."""
    depth = tunable.plan.head
    spans = [(layer + 1, depth) for layer in range(1, depth)]
    found = outputs_without(tunable, rows, spans) if spans else {}
    return [found[span] for span in spans]


def _fresh_heads(
    shared: SharedInputs, encoder: Encoder, recipe: Recipe, progress: Progress = silent, *, train_rows: int | None
) -> list[Tensor]:
    """What heads that start fresh at each of layers 1..L say of the judged rows, trained on the encoder's own states.

    All heads train together, each as it would alone.

    Args:
        shared: the inputs of the task; its encoder tokenizes the texts.
        encoder: tuned or not, left as it is.
        recipe: of every head.
        progress: progress callback.
        train_rows: how many to learn from; None for all.
    """
    task = shared.task
    heads = _make_heads(encoder, task, recipe)
    chosen = None if train_rows is None else shared.some_rows(train_rows, seed=recipe.seed)
    splits = {
        name: _rows_at_all_layers(shared, name, chosen if name == "train" else None, encoder, recipe, heads.reads)
        for name in task.splits
    }
    tunable = stacked(encoder, heads)
    train_heads(
        tunable,
        splits["train"],
        splits.get("validation"),
        recipe,
        metrics=task.metrics,
        learning_rate=recipe.learning_rate or 0.0,
        progress=progress,
    )
    judged, _ = judged_split(task)
    return list(splits[judged].outputs(tunable).unbind(-1))


def _make_heads(encoder: Encoder, task: Task, recipe: Recipe) -> HeadStack:
    """Fresh heads for layers 1..L, at the top, too: layers shall be comparable."""
    bare = copy.copy(encoder)
    bare.has_pretrained_pooler, bare.folder = False, None
    outputs = len(task.label_names) if task.kind == "classification" else 1
    heads = []
    for layer in range(1, encoder.depth + 1):
        head = choose_head(bare, recipe.head, outputs=outputs, kind=task.kind, layer=layer, seed=recipe.seed)
        if recipe.dropout is not None:
            set_dropout(head, recipe.dropout, family=encoder.family)
        heads.append(head)
    return HeadStack(heads)


def _rows_at_all_layers(
    shared: SharedInputs, split: str, some: Ints | None, encoder: Encoder, recipe: Recipe, reads: Reads
) -> Examples:
    """The rows of a split, or some of them, with their states at layers 1..L."""
    tokens, offsets = shared.tokens(split)
    labels = torch.tensor(shared.task.splits[split].labels)
    rows = Examples(tokens=tokens, states=None, labels=labels, offsets=offsets)
    rows = rows if some is None else rows.take(some)
    return replace(rows, states=states_of_layers(encoder, rows.tokens, dtype=recipe.cache_dtype, reads=reads))


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    tasks = {task.name: task for task in ask.tasks}
    layers: list[dict[str, Cell]] = []
    summary: list[dict[str, Cell]] = []
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        done = [point for point in group if point.is_done]
        if not done:
            continue
        task, said = tasks[name], {"encoder": encoder, "task": name}
        records = [record for arm in _ARMS for record in _layer_records(task, done, arm, margin=ask.margin)]
        correct(records, ("arm",))
        layers += [{**said, **record} for record in [*records, _majority_record(task)]]
        summary.append({**said, **_summary(task, done, records)})
    return [
        table_of("layers", "Quality when a tuned model is read at a layer", layers, notes=[
            "UNTUNED: the tuned head reads at the layer, nothing is trained; TUNED: a fresh head on the tuned model's "
            "states; TUNEDORIG: a fresh head on the pretrained model's; UNTUNED at the last layer is the whole model, "
            "which the others are compared with",
            non_inferior_note(ask.margin),
            "p: paired over seeds; p_holm: corrected for the layers of one arm",
        ]),
        table_of("summary", "How many of the top layers can go, and what tuned states are worth", summary, notes=[
            "can_go: going down from the top, every one of these cuts is non_inferior",
            "tuned_minus_orig: a fresh head on tuned states minus one on pretrained states, mean over the upper half "
            "of the layers",
        ]),
    ]  # fmt: skip


def _layer_records(task: Task, done: Sequence[Measured], arm: str, *, margin: float) -> Iterator[dict[str, Cell]]:
    """One arm at every layer, compared with the whole tuned model of the same seed."""
    wholes = [quality_in_points(point, task) for point in done]
    for layer in range(1, done[0].spec.plan.head + 1):
        reads = [point.result.values[arm][layer - 1] for point in done]
        found = [metric_in_points(task, one["metrics"]) for one in reads]
        seen: dict[str, Cell] = {"arm": arm, "layer": layer, "metric": task.metrics[0], "seeds": len(done)}
        seen |= quality_columns(found, task)
        if arm == "UNTUNED" and layer == done[0].spec.plan.head:  # the whole model itself: no comparison to count
            yield seen
            continue
        gaps = summarise(differences(found, wholes))
        yield seen | {
            "minus_full": gaps.mean, **interval_columns(gaps, _over_rows(task, done, reads), margin=margin),
            "p": paired_p(found, wholes),
        }  # fmt: skip


def _over_rows(task: Task, done: Sequence[Measured], reads: Sequence[Mapping[str, Any]]) -> Difference:
    """The difference to the whole model by a paired bootstrap over rows."""
    split, rows = judged_split(task)
    ones = [one["predictions"] for one in reads]
    others = [point.result.predictions[split] for point in done]
    return compare_means(rows.labels, ones, others, task.metrics[0], groups=rows.groups, draws=DRAWS)


def _majority_record(task: Task) -> dict[str, Cell]:
    return {"arm": "majority", "layer": None, "metric": task.metrics[0], "mean": constant_quality(task)}


def _summary(task: Task, done: Sequence[Measured], records: Sequence[Mapping[str, Cell]]) -> dict[str, Cell]:
    depth = done[0].spec.plan.head
    worth = [_tuned_minus_orig(task, point, depth) for point in done]
    return {
        "layers": depth,
        "seeds": len(done),
        "full": summarise([quality_in_points(point, task) for point in done]).mean,
        "can_go_untuned": _can_go(records, "UNTUNED", depth),
        "can_go_tuned": _can_go(records, "TUNED", depth),
        **summary_columns(worth, name="tuned_minus_orig"),
        "informative": is_informative(task, done),
    }


def _can_go(records: Sequence[Mapping[str, Cell]], arm: str, depth: int) -> int | None:
    """How many top layers can go: tested in order from the top until the first failure, which needs no correction.

    None where it cannot be tested, with one seed.
    """
    shown = {record["layer"]: record["non_inferior"] for record in records
             if record["arm"] == arm and record["layer"] != depth}  # fmt: skip
    if None in shown.values():
        return None
    count = 0
    while count < depth - 1 and shown[depth - 1 - count]:
        count += 1
    return count


def _tuned_minus_orig(task: Task, point: Measured, depth: int) -> float:
    """The mean difference in points over the upper half of the layers."""
    tuned, orig = (
        [metric_in_points(task, one["metrics"]) for one in point.result.values[arm][depth // 2 :]]
        for arm in ("TUNED", "TUNEDORIG")
    )
    return (sum(tuned) - sum(orig)) / len(tuned)


@study(
    kinds=[TrialKind(name="truncate", run=_truncate, tunings=1.5)],
    paper="4",
    tables=_tables,
    figures=figures,
    tasks=PHANG_TASKS,
    seeds=3,
    recipe=PHANG_RECIPE,
    quick_recipe={"batch": 16, "epochs": 3},
    quick={"rate": 5e-5, "head_epochs": 5},
)
def truncate(ask: Ask, *, rate: float = 1e-5, head_rate: float = 1e-3, head_epochs: int = 10) -> Iterator[Point]:
    """How many of a tuned model's top layers can go, with its own head or with a fresh one?

    A fully tuned model is read at every layer: by its own head as it is, and by a fresh head that is trained on its
    frozen states. The same fresh heads on the pretrained model's states say what tuning the states was worth.

    Options: `rate`, the learning rate for encoders of width 768, the paper's unless set; narrower ones get a higher one
    in proportion, and a rate in the recipe goes before it; `head_rate` and `head_epochs`, how fresh heads train.
    """
    at_least(1, "truncate", head_epochs=head_epochs)
    above_zero("truncate", head_rate=head_rate)
    for encoder, task in ask.pairs():
        learning_rate = ask.rate_for(encoder, rate)
        for seed in range(ask.seeds):
            yield ask.point(encoder, task, Plan.full(encoder.depth), arm="all layers", seed=seed, kind="truncate",
                            options={"head_rate": head_rate, "head_epochs": head_epochs},
                            learning_rate=learning_rate)  # fmt: skip
