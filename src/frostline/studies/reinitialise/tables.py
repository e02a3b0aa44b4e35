"""Tables of new layers: quality, trials, losses, and the probe next to the curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import correlate, summarise, summarise_correlations
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import add_holm, pairs_table
from frostline.studies._quality import quality_table
from frostline.studies._tables import group_done, group_points, quality_in_points
from frostline.studies.reinitialise.probe import PROBE


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return the quality of every arm, single trials, losses, comparisons, and the probe next to the curves."""
    probed = [point for point in points if point.spec.kind == PROBE.name]
    points = [point for point in points if point.spec.kind != PROBE.name]
    by_size = group_points(points, ("size",))
    quality = [
        quality_table(ask, group, name="quality" if len(by_size) == 1 else f"quality-{size}",
                      labels=("encoder", "task", "rows", "arm", "first", "last", "kept"),
                      title=f"Quality with at most {size} training rows, by the pretrained layers")
        for (size,), group in by_size.items()
    ]  # fmt: skip
    probing = _probing(ask, points, probed) if any(point["kept"] is not None for point in points) else []
    return [*quality, _trials(ask, points), _losses(points), *_compare_with_all_new(ask, points), *probing]


def _compare_with_all_new(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return the gain of each arm over an encoder without pretrained layers."""
    arms = [arm for (arm,) in group_points(points, ("arm",)) if arm != "all new"]
    unique = list({(point.spec.id, point["arm"]): point for point in points}.values())
    return pairs_table(ask, unique, [(arm, "all new") for arm in arms], case=("encoder", "task", "rows"))


def _trials(ask: Ask, points: Sequence[Measured]) -> Table:
    """Return the quality of every trial: means hide how much trials with few training rows differ."""
    labels = ("encoder", "task", "rows", "arm", "first", "last", "kept", "seed")
    # Sizes beyond a task's rows are the same trials; they count once.
    done = {tuple(point[label] for label in labels): point for point in points if point.is_done}
    records: list[Mapping[str, Cell]] = [
        {**dict(zip(labels, key, strict=True)), "quality": quality_in_points(point, ask.task(point["task"]))}
        for key, point in done.items()
    ]
    return table_of("trials", "Quality of every trial, by the pretrained layers", records)


def _losses(points: Sequence[Measured]) -> Table:
    """Return the validation loss after every epoch."""
    records: list[Mapping[str, Cell]] = []
    for (encoder, task, rows, arm), group in group_done(points, ("encoder", "task", "rows", "arm")).items():
        # Sizes beyond a task's rows are the same trials; they count once.
        curves = {point.spec.id: point.result.history for point in group}.values()
        for steps in zip(*curves, strict=False):  # up to the shortest history
            summary = summarise([float(step["validation_loss"]) for step in steps])
            records.append(
                {"encoder": encoder, "task": task, "rows": rows, "arm": arm, "epoch": steps[0]["epoch"],
                 "seeds": summary.count, "mean": summary.mean, "low": summary.low, "high": summary.high}
            )  # fmt: skip
    return table_of("losses", "Validation loss by epoch", records)


def _probing(ask: Ask, points: Sequence[Measured], probed: Sequence[Measured]) -> list[Table]:
    """Return the probe on layer k next to the quality with k pretrained layers, and their correlation."""
    probes = {(point["encoder"], point["task"]): point.result.values for point in probed if point.is_done}
    records: list[Mapping[str, Cell]] = []
    tracked: list[dict[str, Cell]] = []
    notes = [f"{encoder}, {name}: no probe: {values['left_out']}" for (encoder, name), values in probes.items()
             if "left_out" in values]  # fmt: skip
    for (encoder, name, rows), group in group_points(points, ("encoder", "task", "rows")).items():
        task, labels = ask.task(name), {"encoder": encoder, "task": name, "rows": rows}
        values = probes.get((encoder, name), {})
        layers = max(point.spec.plan.head for point in group) + 1
        probe, low, high = (values.get(key) or [None] * layers for key in ("probe", "low", "high"))
        by_kept = group_done([point for point in group if point["kept"] is not None], ("kept",))
        curves = {kept: {int(point["seed"]): quality_in_points(point, task) for point in of_kept}
                  for (kept,), of_kept in sorted(by_kept.items())}  # fmt: skip
        records += [{**labels, "layer": kept, "probe": probe[kept], "probe_low": low[kept], "probe_high": high[kept],
                     "probe_examples": values.get("examples"), "quality": sum(by_seed.values()) / len(by_seed)}
                    for kept, by_seed in curves.items()]  # fmt: skip
        tracked.append({**labels, **_tracking(probe, curves)})
    for column in ("levels_p", "gains_p"):
        tracked = add_holm(tracked, ("encoder",), column=column)
    return [
        table_of("probing", "Probe on layer k against tuning with layers 1..k pretrained", records, notes=[
            "probe_low, probe_high: 95% interval over trials; probe_examples: training rows of the probe",
            *notes,
        ]),
        table_of("tracking", "Correlation of the probe with the gain from pretrained layers", tracked, notes=[
            "correlations over the number of kept layers: levels, of the probe on layer k with the quality when 1..k "
            "are kept; gains, of the increase of both from one number to the next; intervals over seeds on the z scale",
            "p_holm: corrected for the tasks and sizes of an encoder",
        ]),
    ]  # fmt: skip


def _tracking(probe: Sequence[float | None], curves: Mapping[int, Mapping[int, float]]) -> dict[str, Cell]:
    """Return correlations of mean curves, and their t-intervals over the seeds that all numbers of kept layers have."""
    kept = [layer for layer in curves if probe[layer] is not None]
    seeds = sorted(set.intersection(*(set(curves[layer]) for layer in kept))) if kept else []
    probed = np.array([probe[layer] for layer in kept], dtype=np.float64)
    tuned = np.array([[curves[layer][seed] for layer in kept] for seed in seeds], dtype=np.float64)
    columns: dict[str, Cell] = {"layers": len(kept), "seeds": len(seeds)}
    if not len(tuned):
        return columns
    for name, probes, curves_of_seeds in (
        ("levels", probed, tuned), ("gains", np.diff(probed), np.diff(tuned, axis=1))
    ):  # fmt: skip
        value, p = correlate(list(probes), list(curves_of_seeds.mean(0)))
        values = [correlate(list(probes), list(curve))[0] for curve in curves_of_seeds]
        summary = summarise_correlations([correlation for correlation in values if correlation == correlation])
        columns |= {name: value, f"{name}_p": p}
        if summary is not None:
            columns |= {f"{name}_low": summary.low, f"{name}_high": summary.high}
    return columns
