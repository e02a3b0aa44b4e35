"""Leaving out spans of a tuned model's layers, paper 4.

With L layers there are L(L+1)/2 spans, one of them all layers: the head reads the embeddings. Run one by one, the
shortened models run L(L-1)(L+1)/3 layers: 572 of 12. The states below a span are the whole model's, so that only the
layers above it have to run: 297 of 12, 66 of them the top layer, for the first tokens alone. Fewer will not do: no two
spans agree on more than what lies below the lower one, unless layers share their parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import compare_means, differences, paired_p
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import correct_known
from frostline.studies._phang import PHANG_RECIPE, PHANG_TASKS
from frostline.studies._tables import (
    DRAWS,
    constant_note,
    group_points,
    informative_note,
    is_informative,
    judged_split,
    mean_columns,
    metric_in_points,
    quality_columns,
    quality_in_points,
    summary_columns,
)
from frostline.studies.skip.figures import figures
from frostline.tasks import Task
from frostline.training.dataset import Examples
from frostline.training.loop import judge
from frostline.training.model import Tunable
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs, result_of
from frostline.trials.run_trial import tune_for

Span = tuple[int, int]  # the lowest and the highest of the layers that are left out

_TOKENS_PER_BATCH = 4096  # as everywhere where there is no training


def all_spans(depth: int) -> list[Span]:
    """Every span of layers, all of them among these."""
    return [(first, last) for first in range(1, depth + 1) for last in range(first, depth + 1)]


def outputs_without(tunable: Tunable, rows: Examples, spans: Sequence[Span]) -> dict[Span, Tensor]:
    """What a tuned model says of every row without each span of its layers, nothing trained: (rows, outputs) each.

    Args:
        tunable: the model; its layers and its head stay as they are.
        rows: to judge, as tokens.
        spans: layers to leave out; of all of them nothing but the embeddings is left.
    """
    tunable.eval()
    alike = _first_alike(tunable.encoder, spans)
    needed = list(dict.fromkeys(alike.values()))
    uppers = {last: _starting_at(tunable, last + 1) for _, last in needed}
    pieces: dict[Span, list[Tensor]] = {span: [] for span in needed}
    batches = rows.tokens.batches(_TOKENS_PER_BATCH)
    with torch.no_grad():
        for texts in batches:
            batch = rows.tokens.take(texts)
            layout = tunable.encoder.layout(batch)
            start = tunable.encoder.embed(batch, layout)
            highest = max(first for first, _ in needed)
            below = [start, *tunable.encoder.each(start, layout, 1, highest - 1)]
            for first, last in needed:
                pieces[first, last].append(uppers[last].logits(below[first - 1], layout).float().cpu())
    back = torch.cat([torch.as_tensor(texts) for texts in batches]).argsort()
    found = {span: _by_row(torch.cat(parts)[back], rows) for span, parts in pieces.items()}
    return {span: found[one] for span, one in alike.items()}


def _starting_at(tunable: Tunable, layer: int) -> Tunable:
    """The same model, run from a layer upwards; one above the last layer runs the head alone."""
    upper = copy.copy(tunable)
    upper.plan = Plan(layers=tuple(range(layer, tunable.plan.head + 1)), head=tunable.plan.head)
    return upper


def _first_alike(encoder: Encoder, spans: Sequence[Span]) -> dict[Span, Span]:
    """For each span the first one after which the same modules run: of shared layers only the number matters."""
    modules = [id(module) for module in encoder.family.layers(encoder.model)]
    seen: dict[tuple[int, ...], Span] = {}
    return {
        (first, last): seen.setdefault((*modules[: first - 1], *modules[last:]), (first, last)) for first, last in spans
    }


def _by_row(found: Tensor, rows: Examples) -> Tensor:
    """(rows, outputs) from (texts, outputs): the choices of a question side by side, the lowest number if missing."""
    if rows.offsets is None:
        return found
    counts = (rows.offsets[1:] - rows.offsets[:-1]).tolist()
    lowest = torch.finfo(found.dtype).min
    return torch.nn.utils.rnn.pad_sequence(
        list(torch.split(found[:, 0], counts)), batch_first=True, padding_value=lowest
    )


def _skip(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune, then judge the model without each span of its layers."""
    tuned = tune_for(context, spec)
    split, _ = judged_split(tuned.task)
    rows = context.shared(spec).examples(tuned.tunable, split)
    outputs = outputs_without(tuned.tunable, rows, all_spans(spec.plan.head))
    judged = [
        [first, last, judge(found, rows.labels, tuned.task.metrics, tuned.task.kind)]
        for (first, last), found in outputs.items()
    ]
    singles = {str(first): list(decode_outputs(told, tuned.task.kind)) for (first, last), told in outputs.items()
               if first == last}  # fmt: skip
    found = result_of(tuned)
    values = {"spans": judged, "predictions": singles}
    return replace(found, predictions={split: found.predictions[split]}, values=values)


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    tasks = {task.name: task for task in ask.tasks}
    spans: list[dict[str, Cell]] = []
    layers: list[dict[str, Cell]] = []
    halves: list[dict[str, Cell]] = []
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        done = [point for point in group if point.is_done]
        said: dict[str, Cell] = {"encoder": encoder, "task": name}
        if not done:
            continue
        task, depth = tasks[name], done[0].spec.plan.head
        drops = [_drops(point, task) for point in done]
        spans += [said | record for record in _span_records(task, done, drops)]
        informative = is_informative(task, done)
        layers += [said | record | {"informative": informative} for record in _layer_records(task, done, drops, depth)]
        halves += [said | record | {"informative": informative} for record in _half_records(drops, depth)]
    for records in (layers, halves):
        correct_known(records, ("encoder", "task"))
    notes = [constant_note(task) for task in ask.tasks]
    half = "upper spans lie within the upper half of the layers, lower ones within the lower half"
    return [
        table_of("spans", "Quality without the layers first to last, nothing trained", spans, notes=[
            "mean, deviation and interval over seeds, by Student's t; minus_full: the mean less the whole model's",
            *notes,
        ]),
        table_of("layers", "Points lost when a single layer is left out", layers, notes=[
            "low and high: over seeds, by Student's t; rows_low and rows_high: over test rows, by a paired bootstrap",
            "more_than_others: than the dearest other single layer of the same seed",
            informative_note(),
            "p: of a drop of nothing, paired over seeds; p_holm: corrected for the layers",
        ]),
        table_of("halves", "Points lost without upper and without lower spans of one length", halves, notes=[
            half, "p: of no difference, paired over seeds; p_holm: corrected for the lengths", informative_note(),
        ]),
    ]  # fmt: skip


def _drops(point: Measured, task: Task) -> dict[Span, float]:
    """How many points each span costs."""
    whole = quality_in_points(point, task)
    spans = point.result.values["spans"]
    lost = differences([whole] * len(spans), [metric_in_points(task, metrics) for *_, metrics in spans])
    return {(first, last): loss for (first, last, _), loss in zip(spans, lost, strict=True)}


def _span_records(
    task: Task, done: Sequence[Measured], drops: Sequence[Mapping[Span, float]]
) -> Iterator[dict[str, Cell]]:
    left = [{(first, last): metric_in_points(task, metrics) for first, last, metrics in point.result.values["spans"]}
            for point in done]  # fmt: skip
    for span in drops[0]:
        lost = [one[span] for one in drops]
        seen: dict[str, Cell] = {"first": span[0], "last": span[1], "metric": task.metrics[0], "seeds": len(done)}
        mean = quality_columns([one[span] for one in left], task)
        yield seen | mean | {"minus_full": -sum(lost) / len(lost)}


def _layer_records(
    task: Task, done: Sequence[Measured], drops: Sequence[Mapping[Span, float]], depth: int
) -> Iterator[dict[str, Cell]]:
    """What each single layer costs, and how much more than the dearest of the others."""
    split, rows = judged_split(task)
    wholes = [point.result.predictions[split] for point in done]
    for layer in range(1, depth + 1):
        lost = [one[layer, layer] for one in drops]
        others = [max((one[other, other] for other in range(1, depth + 1) if other != layer), default=0.0)
                  for one in drops]  # fmt: skip
        seen: dict[str, Cell] = {"layer": layer, "seeds": len(drops), **summary_columns(lost, name="drop")}
        without = [point.result.values.get("predictions", {}).get(str(layer)) for point in done]
        if len(done) > 1 and None not in without:
            found = compare_means(rows.labels, wholes, without, task.metrics[0], groups=rows.groups, draws=DRAWS)
            seen |= {"rows_low": found.low, "rows_high": found.high}
        seen["p"] = paired_p(lost, [0.0] * len(lost))
        yield seen | mean_columns("more_than_others", differences(lost, others))


def _half_records(drops: Sequence[Mapping[Span, float]], depth: int) -> Iterator[dict[str, Cell]]:
    half = depth // 2
    for length in range(1, half + 1):
        lower = [_mean_drop(one, length, 1, half) for one in drops]
        upper = [_mean_drop(one, length, depth - half + 1, depth) for one in drops]
        seen: dict[str, Cell] = {
            "length": length,
            "seeds": len(drops),
            "lower_drop": sum(lower) / len(lower),
            "upper_drop": sum(upper) / len(upper),
        }
        yield (
            seen | summary_columns(differences(upper, lower), name="upper_minus_lower") | {"p": paired_p(upper, lower)}
        )


def _mean_drop(drops: Mapping[Span, float], length: int, bottom: int, top: int) -> float:
    """What spans of a length between two layers cost on average."""
    lost = [drops[first, first + length - 1] for first in range(bottom, top - length + 2)]
    return sum(lost) / len(lost)


@study(
    kinds=[TrialKind(name="skip", run=_skip, tunings=1.3)],
    paper="4",
    tables=_tables,
    figures=figures,
    tasks=PHANG_TASKS,
    seeds=3,
    recipe=PHANG_RECIPE,
    quick_recipe={"batch": 16, "epochs": 3},
    quick={"rate": 5e-5},
)
def skip(ask: Ask, *, rate: float = 1e-5) -> Iterator[Point]:
    """Which layers can a tuned model do without, when a span of them is left out and nothing trained again?

    Every contiguous span of layers is taken out of a fully tuned model, and the shortened model judged as it is.

    Options: `rate`, the learning rate for encoders of width 768, the paper's unless set; narrower ones get a higher one
    in proportion, and a rate in the recipe goes before it.
    """
    for encoder, task in ask.pairs():
        learning_rate = ask.rate_for(encoder, rate)
        for seed in range(ask.seeds):
            yield ask.point(encoder, task, Plan.full(encoder.depth), arm="all spans", seed=seed, kind="skip",
                            learning_rate=learning_rate)  # fmt: skip
