"""What the study of probing says in tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import cast

from frostline.records.table import Cell, Table, table_of
from frostline.scoring.scores import LAYER_SCORES
from frostline.stats.intervals import correlate, holm, summarise, summarise_correlations
from frostline.studies import Ask, Measured
from frostline.studies._tables import Curve, group_points, mean_curve, summary_columns
from frostline.studies.probing.figures import HELD_OUT, PRETRAINED, PROBES, TUNED
from frostline.tasks.metrics import METRICS, TaskMetric


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Curves, how they go together, and where the best layer lies."""
    done = [point for point in points if point.is_done]
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
                "no interval where all seeds give the same: a task with few rows is measured on all of them; with "
                "`rows` below their number every seed draws its own",
                *dict.fromkeys(left_out),
            ],
        ),
        table_of(
            "agreement",
            "How scores go together with probes over layers",
            _agreements(done),
            notes=[
                "correlations and regression over layers 1..L are those of the mean curves over seeds; "
                "seeds_mean, seeds_low and seeds_high are the mean and t-interval of the seeds' own correlations, on "
                "the z scale",
                "p_holm: corrected by Holm's method within an encoder, task and arm",
            ],
        ),
        table_of(
            "best",
            "The best layer, and where it moves after fine-tuning",
            _moves(done),
            notes=[
                "pretrained, held_out and tuned are the mean over seeds of each seed's own best layer",
                "moved is from the pretrained encoder to the tuned one, both on the held-out rows, paired by seed: "
                "the number of rows shifts scores, so that curves on other rows do not compare",
                "below_top is the share of seeds in which the pretrained encoder's best layer is not the last one",
            ],
        ),
    ]


def curves_of(points: Sequence[Measured]) -> dict[str, list[Curve]]:
    """For every score a curve per point that has it."""
    found: dict[str, list[Curve]] = {}
    for point in points:
        for name, curve in point.result.values["curves"].items():
            found.setdefault(name, []).append(curve)
    return found


def _curves(points: Sequence[Measured], metrics: Mapping[str, TaskMetric]) -> Iterator[dict[str, Cell]]:
    for (encoder, task, arm), group in group_points(points, ("encoder", "task", "arm")).items():
        for name, curves in curves_of(group).items():
            ends = _ends(metrics[task]) if name in PROBES else (-inf, inf)
            for layer, at_layer in enumerate(zip(*curves, strict=True)):
                known = [value for value in at_layer if value is not None]
                row: dict[str, Cell] = {"encoder": encoder, "task": task, "arm": arm, "score": name, "layer": layer}
                if known:
                    found = summary_columns(known, ends=ends)
                    row |= {"seeds": len(known), "mean": found["mean"]}
                    if found["deviation"]:  # seeds that measured the same rows say nothing of other rows
                        row |= {"low": found["low"], "high": found["high"]}
                yield row


def _ends(metric: TaskMetric) -> tuple[float, float]:
    """The least and the most that a probe can give: the task's metric as it is, not in points."""
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
        values = [cast("float | None", row.get("pearson_p")) for row in rows]
        ranks = [cast("float | None", row.get("spearman_p")) for row in rows]
        for row, corrected, of_ranks in zip(rows, holm(values), holm(ranks), strict=True):
            yield row | {"pearson_p_holm": corrected, "spearman_p_holm": of_ranks}


def agreement_over_layers(score: Curve, probe: Curve) -> dict[str, Cell]:
    """Correlations over layers 1..L and the line through probe against score; None where they are undefined."""
    import numpy as np
    from scipy.stats import linregress

    both = [(x, y) for x, y in zip(score[1:], probe[1:], strict=True) if x is not None and y is not None]
    pearson, pearson_p = correlate(score[1:], probe[1:])
    if pearson != pearson:
        return {"layers": len(both)}
    spearman, spearman_p = correlate(score[1:], probe[1:], ranks=True)
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
    """The t-interval of Pearson's correlation over seeds, on Fisher's z scale so that it stays between -1 and 1."""
    curves = [point.result.values["curves"] for point in points]
    each = [correlate(one[name][1:], one[probe][1:])[0] for one in curves if name in one and probe in one]
    found = summarise_correlations([value for value in each if value == value])
    if found is None:
        return {}
    return {"seeds": found.count, "seeds_mean": found.mean, "seeds_low": found.low, "seeds_high": found.high}


def _moves(points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    for (encoder, task), group in group_points(points, ("encoder", "task")).items():
        best = {arm: _best_layers(mine) for (arm,), mine in group_points(group, ("arm",)).items()}
        for name in dict.fromkeys(name for of_arm in best.values() for name in of_arm):
            before, after = best.get(HELD_OUT, {}).get(name, {}), best.get(TUNED, {}).get(name, {})
            row: dict[str, Cell] = {"encoder": encoder, "task": task, "score": name}
            row["layers"] = top = len(next(iter(curves_of(group)[name]))) - 1
            for column, by_seed in (
                ("pretrained", best.get(PRETRAINED, {}).get(name, {})),
                ("held_out", before),
                ("tuned", after),
            ):
                row[column] = sum(by_seed.values()) / len(by_seed) if by_seed else None
            first = best.get(PRETRAINED, {}).get(name, {})
            row["below_top"] = sum(layer < top for layer in first.values()) / len(first) if first else None
            moves = [after[seed] - before[seed] for seed in after if seed in before]
            if moves:
                found = summarise(moves)
                row |= {"seeds": found.count, "moved": found.mean, "moved_low": found.low, "moved_high": found.high}
            yield row


def _best_layers(points: Sequence[Measured]) -> dict[str, dict[int, int]]:
    """By score and seed the best layer, where there is one."""
    found: dict[str, dict[int, int]] = {}
    for point in points:
        for name, curve in point.result.values["curves"].items():
            layer = best_layer(curve, better=LAYER_SCORES[name].better)
            if layer is not None:
                found.setdefault(name, {})[int(point["seed"])] = layer
    return found


def best_layer(curve: Curve, *, better: str) -> int | None:
    """The best of layers 1..L, the lowest of equal ones; None where none is defined."""
    sign = 1 if better == "low" else -1
    known = [(sign * value, layer) for layer, value in enumerate(curve) if layer and value is not None]
    return min(known)[1] if known else None
