"""Leaving out spans of a tuned model's layers, as in Phang et al. 2021.

With L layers there are L(L+1)/2 spans; without all layers the head reads the embeddings. Run one by one, the shortened
models run L(L-1)(L+1)/3 layers: 572 for L = 12. The states below a span are those of the whole model, so only the
layers above it have to run: 297 for L = 12, 66 of them the top layer for first tokens only. This is the minimum: two
spans share only the states below the lower one, unless layers share their parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import TOKENS_PER_BATCH
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import differences, paired_p
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import add_holm
from frostline.studies._phang import PHANG_RECIPE, PHANG_SELECTION, PHANG_TASKS
from frostline.studies._results import judged_result
from frostline.studies._tables import (
    INFORMATIVE,
    compare_over_rows,
    constant_note,
    group_done,
    is_informative,
    judged_split,
    mean_columns,
    metric_in_points,
    quality_columns,
    quality_in_points,
    summary_columns,
)
from frostline.studies._unstated import PHANG_UNSTATED
from frostline.studies.skip.figures import figures
from frostline.studies.skip.reproduces import COUNTERPARTS
from frostline.tasks import Task
from frostline.training.dataset import Examples
from frostline.training.loop import judge
from frostline.training.model import Tunable
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs
from frostline.trials.run_trial import tune_for

Span = tuple[int, int]  # the lowest and the highest layer that is left out


def all_spans(depth: int) -> list[Span]:
    """Return every span of layers, including the span of all layers."""
    return [(first, last) for first in range(1, depth + 1) for last in range(first, depth + 1)]


def outputs_without(tunable: Tunable, rows: Examples, spans: Sequence[Span]) -> dict[Span, Tensor]:
    """Return a tuned model's outputs (rows, outputs) without each span of its layers; nothing is trained.

    Args:
        tunable: the model, left unchanged.
        rows: rows as tokens.
        spans: layers to leave out; without all layers only the embeddings remain.
    """
    tunable.eval()
    alike = _first_alike(tunable.encoder, spans)
    needed = list(dict.fromkeys(alike.values()))
    uppers = {last: _starting_at(tunable, last + 1) for _, last in needed}
    pieces: dict[Span, list[Tensor]] = {span: [] for span in needed}
    batches = rows.tokens.batches(TOKENS_PER_BATCH)
    with torch.no_grad():
        for texts in batches:
            batch = rows.tokens.take(texts)
            layout = tunable.encoder.layout(batch)
            start = tunable.encoder.embed(batch, layout)
            highest = max(first for first, _ in needed)
            below = [start, *tunable.encoder.run_each(start, layout, 1, highest - 1)]
            for first, last in needed:
                pieces[first, last].append(uppers[last].logits(below[first - 1], layout).float().cpu())
    back = torch.cat([torch.as_tensor(texts) for texts in batches]).argsort()
    outputs = {span: _by_row(torch.cat(parts)[back], rows) for span, parts in pieces.items()}
    return {span: outputs[first] for span, first in alike.items()}


def _starting_at(tunable: Tunable, layer: int) -> Tunable:
    """Return the same model, run from a layer upwards; above the last layer, only its head."""
    upper = copy.copy(tunable)
    upper.plan = Plan(layers=tuple(range(layer, tunable.plan.head + 1)), head=tunable.plan.head)
    return upper


def _first_alike(encoder: Encoder, spans: Sequence[Span]) -> dict[Span, Span]:
    """Return for each span the first one that leaves the same modules: of shared layers only the number matters."""
    modules = [id(module) for module in encoder.family.layers(encoder.model)]
    seen: dict[tuple[int, ...], Span] = {}
    return {
        (first, last): seen.setdefault((*modules[: first - 1], *modules[last:]), (first, last)) for first, last in spans
    }


def _by_row(outputs: Tensor, rows: Examples) -> Tensor:
    """Return (rows, outputs) from (texts, outputs): the choices of a question side by side, padded with the minimum."""
    if rows.offsets is None:
        return outputs
    choices = torch.split(outputs[:, 0], (rows.offsets[1:] - rows.offsets[:-1]).tolist())
    lowest = torch.finfo(outputs.dtype).min
    return torch.nn.utils.rnn.pad_sequence(list(choices), batch_first=True, padding_value=lowest)


def _skip(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune a model, then judge it without each span of its layers."""
    tuned = tune_for(context, spec)
    split, _ = judged_split(tuned.task)
    rows = context.shared(spec).examples(tuned.tunable, split)
    outputs = outputs_without(tuned.tunable, rows, all_spans(spec.plan.head))
    judged = [
        [first, last, judge(logits, rows.labels, tuned.task.metrics, tuned.task.kind)]
        for (first, last), logits in outputs.items()
    ]
    singles = {str(first): list(decode_outputs(logits, tuned.task.kind)) for (first, last), logits in outputs.items()
               if first == last}  # fmt: skip
    return judged_result(tuned, {"spans": judged, "predictions": singles})


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    spans: list[dict[str, Cell]] = []
    layers: list[dict[str, Cell]] = []
    halves: list[dict[str, Cell]] = []
    for (encoder, name), done in group_done(points, ("encoder", "task")).items():
        labels: dict[str, Cell] = {"encoder": encoder, "task": name}
        task, depth = ask.task(name), done[0].spec.plan.head
        drops, learned = [_drops(point, task) for point in done], {"informative": is_informative(task, done)}
        spans += [labels | record for record in _span_records(task, done, drops)]
        layers += [labels | record | learned for record in _layer_records(task, done, drops, depth)]
        halves += [labels | record | learned for record in _half_records(drops, depth)]
    return [
        table_of("spans", "Quality without layers first to last, without further training", spans, notes=[
            "mean, deviation and interval over seeds, by Student's t; minus_full: difference from the whole model",
            *(constant_note(task) for task in ask.tasks),
        ]),
        table_of("layers", "Points lost without a single layer", add_holm(layers, ("encoder", "task")), notes=[
            "low and high: over seeds, by Student's t; rows_low and rows_high: over test rows, by a paired bootstrap",
            "more_than_others: difference from the most important other layer of the same seed",
            INFORMATIVE,
            "p: test of no loss, paired over seeds; p_holm: corrected for the layers",
        ]),
        table_of("halves", "Points lost without upper and without lower spans of the same length",
                 add_holm(halves, ("encoder", "task")), notes=[
            "upper spans lie within the upper half of the layers, lower spans within the lower half",
            "p: test of no difference, paired over seeds; p_holm: corrected for the lengths",
            INFORMATIVE,
        ]),
    ]  # fmt: skip


def _drops(point: Measured, task: Task) -> dict[Span, float]:
    """Return the points that each span costs."""
    whole = quality_in_points(point, task)
    spans = point.result.values["spans"]
    lost = differences([whole] * len(spans), [metric_in_points(task, metrics) for *_, metrics in spans])
    return {(first, last): loss for (first, last, _), loss in zip(spans, lost, strict=True)}


def _span_records(
    task: Task, done: Sequence[Measured], drops: Sequence[Mapping[Span, float]]
) -> Iterator[dict[str, Cell]]:
    shortened = [{(first, last): metric_in_points(task, metrics)
                  for first, last, metrics in point.result.values["spans"]} for point in done]  # fmt: skip
    for span in drops[0]:
        yield {"first": span[0], "last": span[1], "metric": task.metrics[0], "seeds": len(done),
               **quality_columns([quality[span] for quality in shortened], task),
               "minus_full": -sum(lost[span] for lost in drops) / len(drops)}  # fmt: skip


def _layer_records(
    task: Task, done: Sequence[Measured], drops: Sequence[Mapping[Span, float]], depth: int
) -> Iterator[dict[str, Cell]]:
    """Yield the cost of each single layer, and its difference from the most expensive other layer."""
    split, _ = judged_split(task)
    wholes = [point.result.predictions[split] for point in done]
    for layer in range(1, depth + 1):
        lost = [of_seed[layer, layer] for of_seed in drops]
        others = [max((of_seed[other, other] for other in range(1, depth + 1) if other != layer), default=0.0)
                  for of_seed in drops]  # fmt: skip
        record: dict[str, Cell] = {"layer": layer, "seeds": len(drops), **summary_columns(lost, name="drop")}
        without = [point.result.values.get("predictions", {}).get(str(layer)) for point in done]
        if len(done) > 1 and None not in without:
            over_rows = compare_over_rows(task, wholes, without)
            record |= {"rows_low": over_rows.low, "rows_high": over_rows.high}
        record["p"] = paired_p(lost, [0.0] * len(lost))
        yield record | mean_columns("more_than_others", differences(lost, others))


def _half_records(drops: Sequence[Mapping[Span, float]], depth: int) -> Iterator[dict[str, Cell]]:
    half = depth // 2
    for length in range(1, half + 1):
        lower = [_mean_drop(of_seed, length, 1, half) for of_seed in drops]
        upper = [_mean_drop(of_seed, length, depth - half + 1, depth) for of_seed in drops]
        yield {
            "length": length,
            "seeds": len(drops),
            "lower_drop": sum(lower) / len(lower),
            "upper_drop": sum(upper) / len(upper),
            **summary_columns(differences(upper, lower), name="upper_minus_lower"),
            "p": paired_p(upper, lower),
        }


def _mean_drop(drops: Mapping[Span, float], length: int, bottom: int, top: int) -> float:
    """Return the mean cost of spans of a length between two layers."""
    lost = [drops[first, first + length - 1] for first in range(bottom, top - length + 2)]
    return sum(lost) / len(lost)


@study(
    kinds=[TrialKind(name="skip", run=_skip, tunings=1.3)],
    paper="Phang et al. 2021",
    reproduces=COUNTERPARTS,
    tables=_tables,
    figures=figures,
    tasks=PHANG_TASKS,
    seeds=3,
    recipe=PHANG_RECIPE,
    unstated=PHANG_UNSTATED,
    selection=PHANG_SELECTION,
    quick_recipe={"batch": 16, "epochs": 3},
    quick={"rate": 5e-5},
)
def skip(ask: Ask, *, rate: float = 1e-5) -> Iterator[Point]:
    """Which layers can be left out of a tuned model without further training?

    Every contiguous span of layers is removed from a fully tuned model, and the shortened model is evaluated without
    further training.

    Options: `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders get a
    proportionally higher rate; a rate in the recipe takes precedence).
    """
    for encoder, task, seed in ask.cases():
        yield ask.point(encoder, task, Plan.full(encoder.depth), arm="all spans", seed=seed, kind="skip",
                        learning_rate=ask.rate_for(encoder, rate))  # fmt: skip
