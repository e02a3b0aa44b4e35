"""Tables of layer scores and probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from frostline.records.table import Cell, Table, group_by, table_of
from frostline.scoring.scores import LAYER_SCORES
from frostline.stats.curves import SURROGATES, correlate_curves
from frostline.stats.intervals import correlate, p_of_correlations, summarise_correlations
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import add_holm
from frostline.studies._tables import (
    Curve,
    best_layer,
    group_points,
    mean_columns,
    mean_curve,
    mean_of_known,
    summary_columns,
)
from frostline.studies.probing.figures import HELD_OUT, PRETRAINED, PROBES, TUNED
from frostline.tasks.metrics import METRICS, TaskMetric

_FEWEST_TASKS = 3  # for an interval over tasks


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return the curves, their agreement, and the best layers."""
    done = with_shared_probes([point for point in points if point.is_done and not point.is_candidate])
    agreements = list(_agreements(done))
    left_out = [
        f"{point['encoder']}, {point['task']}, {point['arm']}: {note}"
        for point in done
        for note in point.result.values["left_out"]
    ]
    return [
        table_of(
            "curves",
            "Layer scores and probes by layer",
            _curves(done, {task.name: METRICS[task.metrics[0]] for task in ask.tasks}),
            notes=[
                "no interval if all seeds measure the same rows, which they do unless `rows` is below their number",
                "chance: expected value of the score if labels had nothing to do with states, where it is known",
                *dict.fromkeys(left_out),
            ],
        ),
        table_of(
            "agreement",
            "Agreement of scores with probes over layers",
            agreements,
            notes=[
                SURROGATES,
                "correlations and regression over layers 1..L are computed from the mean curves over seeds; "
                "seeds_mean, seeds_low and seeds_high are the mean and t-interval of each seed's correlation, on the z "
                "scale",
                "p_holm: corrected by Holm's method within an encoder, task and arm",
            ],
        ),
        *_over_tasks_table(agreements),
        table_of(
            "best",
            "The best layer before and after fine-tuning",
            _moves(done),
            notes=[
                "pretrained, held_out and tuned: mean over seeds of each seed's best layer",
                "moved: difference between the tuned and the pretrained encoder, both on the held-out rows, paired by "
                "seed; curves from different rows do not compare, because the number of rows shifts scores",
                "below_top: share of seeds whose best layer of the pretrained encoder is not the last one",
            ],
        ),
    ]


def with_shared_probes(points: Sequence[Measured]) -> list[Measured]:
    """Return the points in which the pretrained encoder's probes, judged on the development set, are in both its arms.

    They do not depend on the rows that scores are measured on, and are trained once.
    """
    probes = {
        _case(point): {name: curve for name, curve in point.result.values["curves"].items() if name in PROBES}
        for point in points
        if point["arm"] == PRETRAINED
    }
    return [
        _with_curves(point, probes.get(_case(point), {}))
        if point["arm"] == HELD_OUT and point.spec.options.get("judged") == "dev"
        else point
        for point in points
    ]


def _case(point: Measured) -> tuple[str, str, int]:
    return point["encoder"], point["task"], point["seed"]


def _with_curves(point: Measured, curves: Mapping[str, Curve]) -> Measured:
    values = point.result.values
    return replace(point, result=replace(point.result, values={**values, "curves": {**values["curves"], **curves}}))


def _over_tasks_table(agreements: Sequence[Mapping[str, Cell]]) -> list[Table]:
    """Return the mean correlations over tasks, if there are several."""
    rows = list(_over_tasks(agreements))
    return (
        [
            table_of(
                "tasks",
                "Agreement of scores with probes over layers, mean over tasks",
                rows,
                notes=[
                    "pearson: mean over tasks of the correlation over layers, on the z scale; unlike layers, tasks are "
                    "independent points; intervals and p from Student's t, with three tasks or more",
                    "p_holm: corrected by Holm's method within an encoder and arm",
                ],
            )
        ]
        if rows
        else []
    )


def _over_tasks(agreements: Sequence[Mapping[str, Cell]]) -> Iterator[dict[str, Cell]]:
    keys = ("encoder", "arm", "score", "probe")
    groups = group_by(agreements, lambda row: tuple(row[key] for key in keys))
    rows: list[dict[str, Cell]] = []
    for case, group in groups.items():
        values = [value for row in group if isinstance(value := row.get("pearson"), float)]
        summary = summarise_correlations(values)
        if summary is None or len(group) < 2:
            continue
        row: dict[str, Cell] = {**dict(zip(keys, case, strict=True)), "tasks": len(values), "pearson": summary.mean}
        if len(values) >= _FEWEST_TASKS:
            row |= {"low": summary.low, "high": summary.high, "p": p_of_correlations(values)}
        rows.append(row)
    yield from add_holm(rows, ("encoder", "arm"))


def curves_of(points: Sequence[Measured], kind: str = "curves") -> dict[str, list[Curve]]:
    """Return the curves of every score, or their chance levels, one for each point that has it."""
    curves = [point.result.values.get(kind, {}) for point in points]
    names = dict.fromkeys(name for of_point in curves for name in of_point)
    return {name: [of_point[name] for of_point in curves if name in of_point] for name in names}


def _curves(points: Sequence[Measured], metrics: Mapping[str, TaskMetric]) -> Iterator[dict[str, Cell]]:
    for (encoder, task, arm), group in group_points(points, ("encoder", "task", "arm")).items():
        by_chance = {name: mean_curve(curves) for name, curves in curves_of(group, "chance").items()}
        for name, curves in curves_of(group).items():
            ends = _ends(metrics[task]) if name in PROBES else (-inf, inf)
            for layer, at_layer in enumerate(zip(*curves, strict=True)):
                defined = [value for value in at_layer if value is not None]
                row: dict[str, Cell] = {"encoder": encoder, "task": task, "arm": arm, "score": name, "layer": layer}
                if defined:
                    summary = summary_columns(defined, ends=ends)
                    row |= {"seeds": len(defined), "mean": summary["mean"]}
                    if summary["deviation"]:  # seeds that measured the same rows say nothing about other rows
                        row |= {"low": summary["low"], "high": summary["high"]}
                if name in by_chance:
                    row["chance"] = by_chance[name][layer]
                yield row


def _ends(metric: TaskMetric) -> tuple[float, float]:
    """Return the range of a probe's quality: that of the task's metric, not in points."""
    low, high = metric.ends
    return low / abs(metric.gain), high / abs(metric.gain)


def _agreements(points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    for (encoder, task, arm), group in group_points(points, ("encoder", "task", "arm")).items():
        means = {name: mean_curve(curves) for name, curves in curves_of(group).items()}
        pairs = [(name, probe) for probe in PROBES if probe in means for name in means if name != probe]
        rows: list[dict[str, Cell]] = [
            {
                "encoder": encoder,
                "task": task,
                "arm": arm,
                "score": name,
                "probe": probe,
                **agreement_over_layers(means[name], means[probe]),
                **_over_seeds(group, name, probe),
            }
            for name, probe in pairs
        ]
        yield from add_holm(add_holm(rows, (), column="pearson_p"), (), column="spearman_p")


def agreement_over_layers(score: Curve, probe: Curve) -> dict[str, Cell]:
    """Return correlations over layers 1..L and the regression of probe on score, where they are defined."""
    import numpy as np
    from scipy.stats import linregress

    both = [(x, y) for x, y in zip(score[1:], probe[1:], strict=True) if x is not None and y is not None]
    pearson, pearson_p = correlate_curves(score[1:], probe[1:])
    if pearson != pearson:
        return {"layers": len(both)}
    spearman, spearman_p = correlate_curves(score[1:], probe[1:], ranks=True)
    x, y = np.array(both, dtype=np.float64).T
    line = linregress(x, y)
    return {
        "layers": len(both),
        "pearson": pearson,
        "pearson_p": pearson_p,
        "spearman": spearman,
        "spearman_p": spearman_p,
        "slope": float(line.slope),
        "intercept": float(line.intercept),
        "r_squared": float(line.rvalue) ** 2,
    }


def _over_seeds(points: Sequence[Measured], name: str, probe: str) -> dict[str, Cell]:
    """Return the t-interval of Pearson's correlation over seeds, on Fisher's z scale so that it stays in -1..1."""
    curves = [point.result.values["curves"] for point in points]
    values = [correlate(of_seed[name][1:], of_seed[probe][1:])[0] for of_seed in curves
              if name in of_seed and probe in of_seed]  # fmt: skip
    summary = summarise_correlations([value for value in values if value == value])
    if summary is None:
        return {}
    return {"seeds": summary.count, "seeds_mean": summary.mean, "seeds_low": summary.low, "seeds_high": summary.high}


def _moves(points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    for (encoder, task), group in group_points(points, ("encoder", "task")).items():
        best = {arm: _best_layers(of_arm) for (arm,), of_arm in group_points(group, ("arm",)).items()}
        for name in dict.fromkeys(name for of_arm in best.values() for name in of_arm):
            pretrained, before, after = (best.get(arm, {}).get(name, {}) for arm in (PRETRAINED, HELD_OUT, TUNED))
            top = len(curves_of(group)[name][0]) - 1
            row: dict[str, Cell] = {
                "encoder": encoder,
                "task": task,
                "score": name,
                "layers": top,
                "pretrained": mean_of_known(list(pretrained.values())),
                "held_out": mean_of_known(list(before.values())),
                "tuned": mean_of_known(list(after.values())),
                "below_top": mean_of_known([layer < top for layer in pretrained.values()]),
            }
            moves = [after[seed] - before[seed] for seed in after if seed in before]
            if moves:
                row |= {"seeds": len(moves), **mean_columns("moved", moves)}
            yield row


def _best_layers(points: Sequence[Measured]) -> dict[str, dict[int, int]]:
    """Return the best layer by score and seed, where it is defined."""
    best: dict[str, dict[int, int]] = {}
    for point in points:
        for name, curve in point.result.values["curves"].items():
            layer = best_layer(curve, better=LAYER_SCORES[name].better)
            if layer is not None:
                best.setdefault(name, {})[int(point["seed"])] = layer
    return best
