"""Reading a tuned model at every layer, as in Phang et al. 2021."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.head_stack import HeadStack
from frostline.errors import OptionError
from frostline.kernels.batch_layout import Ints, Reads
from frostline.progress import Progress, silent
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.records.table import Cell, Table, table_of
from frostline.states.frozen import states_of_layers
from frostline.stats.intervals import differences, paired_p, summarise
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import add_holm, interval_columns, non_inferior_note
from frostline.studies._options import check_at_least
from frostline.studies._phang import PHANG_RECIPE, PHANG_TASKS
from frostline.studies._results import judged_result
from frostline.studies._tables import (
    compare_over_rows,
    constant_quality,
    group_done,
    is_informative,
    judged_split,
    metric_in_points,
    quality_columns,
    quality_in_points,
    summary_columns,
)
from frostline.studies.skip import outputs_without
from frostline.studies.truncate.figures import figures
from frostline.studies.truncate.reproduces import COUNTERPARTS
from frostline.tasks import Task
from frostline.training.dataset import Examples
from frostline.training.loop import judge
from frostline.training.many_heads import stacked, train_heads
from frostline.training.model import Tunable, as_tuned, choose_head, set_dropout
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs
from frostline.trials.run_trial import tune_for

_ARMS = ("UNTUNED", "TUNED", "TUNEDORIG")


def _truncate(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune a model, then read it at every layer: by its own head, and by fresh heads on tuned and pretrained states."""
    tuned = tune_for(context, spec)
    shared = context.shared(spec)
    options = spec.options
    recipe = replace(tuned.recipe, learning_rate=options["head_rate"], epochs=options["head_epochs"], steps=None)
    split, _ = judged_split(tuned.task)
    outputs = {
        "UNTUNED": [*_own_head(tuned.tunable, shared.examples(tuned.tunable, split)), tuned.outputs[split]],
        "TUNED": _fresh_heads(shared, as_tuned(tuned.tunable), recipe, context.progress, train_rows=spec.train_rows),
        "TUNEDORIG": _fresh_heads(shared, shared.encoder, recipe, context.progress, train_rows=spec.train_rows),
    }
    labels = torch.tensor(tuned.task.splits[split].labels)
    metrics, kind = tuned.task.metrics, tuned.task.kind
    readings = {
        arm: [
            {"metrics": judge(logits, labels, metrics, kind), "predictions": list(decode_outputs(logits, kind))}
            for logits in layers
        ]
        for arm, layers in outputs.items()
    }
    return judged_result(tuned, readings)


def _own_head(tunable: Tunable, rows: Examples) -> list[Tensor]:
    """Return the outputs of the tuned head and pooler at each of layers 1..L-1, without training."""
    depth = tunable.plan.head
    spans = [(layer + 1, depth) for layer in range(1, depth)]
    return list(outputs_without(tunable, rows, spans).values()) if spans else []


def _fresh_heads(
    shared: SharedInputs, encoder: Encoder, recipe: Recipe, progress: Progress = silent, *, train_rows: int | None
) -> list[Tensor]:
    """Return the outputs of fresh heads at each of layers 1..L, trained on the encoder's states, for the judged rows.

    All heads train together, each as it would alone.

    Args:
        shared: the inputs of the task; its encoder tokenizes the texts.
        encoder: tuned or pretrained, left unchanged.
        recipe: recipe of every head.
        progress: progress callback.
        train_rows: number of training rows; None for all.
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
    """Return fresh heads for layers 1..L, the top included, so that layers are comparable."""
    bare = copy.copy(encoder)
    bare.has_pretrained_pooler, bare.folder = False, None
    heads = []
    for layer in range(1, encoder.depth + 1):
        head = choose_head(bare, recipe.head, outputs=task.outputs, kind=task.kind, layer=layer, seed=recipe.seed)
        if recipe.dropout is not None:
            set_dropout(head, recipe.dropout, family=encoder.family)
        heads.append(head)
    return HeadStack(heads)


def _rows_at_all_layers(
    shared: SharedInputs, split: str, chosen: Ints | None, encoder: Encoder, recipe: Recipe, reads: Reads
) -> Examples:
    """Return the rows of a split, or the chosen ones, with their states at layers 1..L."""
    tokens, offsets = shared.tokens(split)
    labels = torch.tensor(shared.task.splits[split].labels)
    rows = Examples(tokens=tokens, states=None, labels=labels, offsets=offsets)
    rows = rows if chosen is None else rows.take(chosen)
    return replace(rows, states=states_of_layers(encoder, rows.tokens, dtype=recipe.cache_dtype, reads=reads))


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    layers: list[dict[str, Cell]] = []
    summary: list[dict[str, Cell]] = []
    for (encoder, name), done in group_done(points, ("encoder", "task")).items():
        task, labels = ask.task(name), {"encoder": encoder, "task": name}
        records = add_holm(
            [record for arm in _ARMS for record in _layer_records(task, done, arm, margin=ask.margin)],
            ("arm",),
            counts_undefined=True,
        )
        majority = {"arm": "majority", "layer": None, "metric": task.metrics[0], "mean": constant_quality(task)}
        layers += [{**labels, **record} for record in (*records, majority)]
        summary.append({**labels, **_summary(task, done, records)})
    return [
        table_of("layers", "Quality of a tuned model that is read at a layer", layers, notes=[
            "UNTUNED: the tuned head at the layer, without training; TUNED: a fresh head on the tuned model's states; "
            "TUNEDORIG: a fresh head on the pretrained model's states; UNTUNED at the last layer is the whole model, "
            "with which the others are compared",
            non_inferior_note(ask.margin),
            "p: paired over seeds; p_holm: corrected for the layers of one arm",
        ]),
        table_of("summary", "Dispensable top layers, and the gain from tuned states", summary, notes=[
            "can_go: number of top layers such that each of these cuts, from the top down, is non_inferior",
            "tuned_minus_orig: a fresh head on tuned states minus one on pretrained states, mean over the upper half "
            "of the layers",
        ]),
    ]  # fmt: skip


def _layer_records(task: Task, done: Sequence[Measured], arm: str, *, margin: float) -> Iterator[dict[str, Cell]]:
    """Yield one arm at every layer, compared with the whole tuned model of the same seed."""
    split, _ = judged_split(task)
    whole = [quality_in_points(point, task) for point in done]
    predictions = [point.result.predictions[split] for point in done]
    for layer in range(1, done[0].spec.plan.head + 1):
        readings = [point.result.values[arm][layer - 1] for point in done]
        values = [metric_in_points(task, reading["metrics"]) for reading in readings]
        record: dict[str, Cell] = {"arm": arm, "layer": layer, "metric": task.metrics[0], "seeds": len(done),
                                   **quality_columns(values, task)}  # fmt: skip
        if arm != "UNTUNED" or layer < done[0].spec.plan.head:  # the whole model is not compared with itself
            gaps = summarise(differences(values, whole))
            over_rows = compare_over_rows(task, [reading["predictions"] for reading in readings], predictions)
            record |= {"minus_full": gaps.mean, **interval_columns(gaps, over_rows, margin=margin),
                       "p": paired_p(values, whole)}  # fmt: skip
        yield record


def _summary(task: Task, done: Sequence[Measured], records: Sequence[Mapping[str, Cell]]) -> dict[str, Cell]:
    depth = done[0].spec.plan.head
    return {
        "layers": depth,
        "seeds": len(done),
        "full": summarise([quality_in_points(point, task) for point in done]).mean,
        "can_go_untuned": _can_go(records, "UNTUNED", depth),
        "can_go_tuned": _can_go(records, "TUNED", depth),
        **summary_columns([_tuned_minus_orig(task, point, depth) for point in done], name="tuned_minus_orig"),
        "informative": is_informative(task, done),
    }


def _can_go(records: Sequence[Mapping[str, Cell]], arm: str, depth: int) -> int | None:
    """Return how many top layers are dispensable: tested from the top to the first failure, which needs no correction.

    None if it cannot be tested, with one seed.
    """
    shown = {record["layer"]: record["non_inferior"] for record in records
             if record["arm"] == arm and record["layer"] != depth}  # fmt: skip
    if None in shown.values():
        return None
    return sum(1 for _ in takewhile(lambda layer: shown[layer], range(depth - 1, 0, -1)))


def _tuned_minus_orig(task: Task, point: Measured, depth: int) -> float:
    """Return the mean difference in points over the upper half of the layers."""
    tuned, orig = (
        [metric_in_points(task, reading["metrics"]) for reading in point.result.values[arm][depth // 2 :]]
        for arm in ("TUNED", "TUNEDORIG")
    )
    return (sum(tuned) - sum(orig)) / len(tuned)


@study(
    kinds=[TrialKind(name="truncate", run=_truncate, tunings=1.5)],
    paper="Phang et al. 2021",
    reproduces=COUNTERPARTS,
    tables=_tables,
    figures=figures,
    tasks=PHANG_TASKS,
    seeds=3,
    recipe=PHANG_RECIPE,
    quick_recipe={"batch": 16, "epochs": 3},
    quick={"rate": 5e-5, "head_epochs": 5},
)
def truncate(ask: Ask, *, rate: float = 1e-5, head_rate: float = 1e-3, head_epochs: int = 10) -> Iterator[Point]:
    """How many top layers of a tuned model are dispensable, with its own head or with a fresh one?

    A fully tuned model is read at every layer: by its own head without training, and by a fresh head that is trained on
    its frozen states. The same fresh heads on the pretrained model's states show how much tuned states gain.

    Options: `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders get a
    proportionally higher rate; a rate in the recipe takes precedence); `head_rate` and `head_epochs`, learning rate and
    epochs of fresh heads.
    """
    check_at_least(1, "truncate", head_epochs=head_epochs)
    if not head_rate > 0:
        raise OptionError(f"study truncate: option head_rate {head_rate:g} must be above 0")
    for encoder, task, seed in ask.cases():
        yield ask.point(encoder, task, Plan.full(encoder.depth), arm="all layers", seed=seed, kind="truncate",
                        options={"head_rate": head_rate, "head_epochs": head_epochs},
                        learning_rate=ask.rate_for(encoder, rate))  # fmt: skip
