"""Tables of models that are read at every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import differences, paired_p, summarise
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import add_holm, interval_columns, non_inferior_note
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
from frostline.tasks import Task

ARMS = {
    "UNTUNED": "the tuned head at the layer, without training",
    "TUNED": "the tuned head, trained further on the tuned model's frozen states of the layer",
    "TUNEDORIG": "a head that is trained on the pretrained model's frozen states",
    "FRESH": "a fresh head that is trained on the tuned model's frozen states (not in the paper)",
}


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return the quality of every arm at every layer, and how many layers are dispensable."""
    layers: list[dict[str, Cell]] = []
    summary: list[dict[str, Cell]] = []
    for (encoder, name), done in group_done(points, ("encoder", "task")).items():
        task, labels = ask.task(name), {"encoder": encoder, "task": name}
        records = add_holm(
            [record for arm in _arms_of(done) for record in _layer_records(task, done, arm, margin=ask.margin)],
            ("arm",),
            counts_undefined=True,
        )
        majority = {"arm": "majority", "layer": None, "metric": task.metrics[0], "mean": constant_quality(task)}
        layers += [{**labels, **record} for record in (*records, majority)]
        summary.append({**labels, **_summary(task, done, records)})
    return [
        table_of("layers", "Quality of a tuned model that is read at a layer", layers, notes=[
            *(f"{arm}: {meaning}" for arm, meaning in ARMS.items() if arm in {record["arm"] for record in layers}),
            "UNTUNED at the last layer is the whole model, with which the others are compared",
            non_inferior_note(ask.margin),
            "p: paired over seeds; p_holm: corrected for the layers of one arm",
        ]),
        table_of("summary", "Dispensable top layers, and the gain from tuned states", summary, notes=[
            "can_go: number of top layers such that each of these cuts, from the top down, is non_inferior",
            "tuned_minus_orig: TUNED minus TUNEDORIG, mean over the upper half of the layers; tuned_minus_fresh: TUNED "
            "minus FRESH, likewise",
        ]),
    ]  # fmt: skip


def _arms_of(done: Sequence[Measured]) -> list[str]:
    """Return the arms that all of these trials have."""
    return [arm for arm in ARMS if all(arm in point.result.values for point in done)]


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
    columns: dict[str, Cell] = {
        "layers": depth,
        "seeds": len(done),
        "full": summarise([quality_in_points(point, task) for point in done]).mean,
        "can_go_untuned": _can_go(records, "UNTUNED", depth),
        "can_go_tuned": _can_go(records, "TUNED", depth),
        **summary_columns([_tuned_minus(task, point, "TUNEDORIG") for point in done], name="tuned_minus_orig"),
        "informative": is_informative(task, done),
    }
    if "FRESH" not in _arms_of(done):
        return columns
    gaps = [_tuned_minus(task, point, "FRESH") for point in done]
    return columns | {"can_go_fresh": _can_go(records, "FRESH", depth), "tuned_minus_fresh": summarise(gaps).mean}


def _can_go(records: Sequence[Mapping[str, Cell]], arm: str, depth: int) -> int | None:
    """Return how many top layers are dispensable: tested from the top to the first failure, which needs no correction.

    None if it cannot be tested, with one seed.
    """
    shown = {record["layer"]: record["non_inferior"] for record in records
             if record["arm"] == arm and record["layer"] != depth}  # fmt: skip
    if None in shown.values():
        return None
    return sum(1 for _ in takewhile(lambda layer: shown[layer], range(depth - 1, 0, -1)))


def _tuned_minus(task: Task, point: Measured, other: str) -> float:
    """Return the mean difference between TUNED and another arm in points, over the upper half of the layers."""
    upper = point.spec.plan.head // 2
    tuned, others = (
        [metric_in_points(task, reading["metrics"]) for reading in point.result.values[arm][upper:]]
        for arm in ("TUNED", other)
    )
    return (sum(tuned) - sum(others)) / len(tuned)
