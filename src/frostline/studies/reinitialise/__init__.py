"""Replacing pretrained layers by random ones before tuning, as in Tamkin et al. 2020."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from frostline.errors import MeasureError, OptionError
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import correlate, summarise, summarise_correlations
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import add_holm, pairs_table
from frostline.studies._options import check_at_least, check_choice, read_numbers
from frostline.studies._quality import quality_table
from frostline.studies._tables import group_done, group_points, quality_in_points
from frostline.studies.reinitialise.figures import figures
from frostline.studies.reinitialise.reproduces import COUNTERPARTS

_MODES = ("incremental", "blocks", "preserved", "single")
_PROBE = "probe.linear.paper"
_SMALL = 500  # training rows up to which the paper runs more trials and epochs
_LARGE = 50_000  # the paper's largest number of training rows


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    by_size = group_points(points, ("size",))
    quality = [
        quality_table(ask, group, name="quality" if len(by_size) == 1 else f"quality-{size}",
                      labels=("encoder", "task", "rows", "arm", "first", "last", "kept"),
                      title=f"Quality with at most {size} training rows, by the pretrained layers")
        for (size,), group in by_size.items()
    ]  # fmt: skip
    probing = _probing(ask, points) if any(point["kept"] is not None for point in points) else []
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


def _probing(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return the probe on layer k next to the quality with k pretrained layers, and their correlation."""
    encoders = {encoder.name: encoder for encoder in ask.encoders}
    records: list[Mapping[str, Cell]] = []
    tracked: list[dict[str, Cell]] = []
    notes = []
    for (encoder, name, rows), group in group_points(points, ("encoder", "task", "rows")).items():
        task, labels = ask.task(name), {"encoder": encoder, "task": name, "rows": rows}
        try:
            probe = ask.scores(encoders[encoder], task, [_PROBE])[_PROBE].values
        except MeasureError as error:  # too few rows to judge a probe on
            notes.append(f"{encoder}, {name}: no probe: {error}")
            probe = (None,) * (encoders[encoder].depth + 1)
        by_kept = group_done([point for point in group if point["kept"] is not None], ("kept",))
        curves = {kept: {int(point["seed"]): quality_in_points(point, task) for point in of_kept}
                  for (kept,), of_kept in sorted(by_kept.items())}  # fmt: skip
        records += [{**labels, "layer": kept, "probe": probe[kept], "quality": sum(by_seed.values()) / len(by_seed)}
                    for kept, by_seed in curves.items()]  # fmt: skip
        tracked.append({**labels, **_tracking(probe, curves)})
    for column in ("levels_p", "gains_p"):
        tracked = add_holm(tracked, ("encoder",), column=column)
    return [
        table_of("probing", "Probe on layer k against tuning with layers 1..k pretrained", records, notes=notes),
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


def _sizes(text: str, mode: str, available: int) -> list[int]:
    """Return numbers of training rows; the paper uses its largest one only for tasks with as many rows."""
    if text != "paper":
        return read_numbers("reinitialise", "sizes", text, least=1, separator="+", also="paper")
    return [500, 5000, *([_LARGE] if available >= _LARGE else [])] if mode == "incremental" else [5000]


def _paper_seeds(mode: str, rows: int) -> int:
    if mode == "incremental" and rows <= _SMALL:
        return 50
    return 10 if mode in ("blocks", "preserved") else 3


def _arms(mode: str, depth: int, width: int, step: int) -> Iterator[tuple[str, list[int], dict[str, Any]]]:
    """Yield name, re-initialised layers and labels of each arm: the intact encoder, all layers new, then the others."""
    every = list(range(1, depth + 1))
    nothing: dict[str, Any] = {"first": None, "last": None, "kept": None}
    is_incremental = mode == "incremental"
    yield "full", [], {**nothing, "kept": depth if is_incremental else None}
    yield "all new", every, {**nothing, "kept": 0 if is_incremental else None}
    if is_incremental:
        for kept in range(step, depth, step):
            yield f"{kept} kept", every[kept:], {**nothing, "kept": kept}
        return
    for first in range(1, depth - (1 if mode == "single" else width) + 2, step):
        block = [first] if mode == "single" else list(range(first, first + width))
        labels = {"first": block[0], "last": block[-1], "kept": None}
        span = f"{block[0]}..{block[-1]}" if len(block) > 1 else str(block[0])
        if mode == "preserved":
            yield f"only {span} kept", [layer for layer in every if layer not in block], labels
        else:
            yield f"{span} new", block, labels


@study(
    paper="Tamkin et al. 2020",
    reproduces=COUNTERPARTS,
    tables=_tables,
    figures=figures,
    tasks=("glue/sst2", "glue/qnli", "glue/cola"),
    seeds=3,
    recipe={"batch": 8, "epochs": 3, "head": "mean"},
    varies=("epochs", "seeds"),
    quick={"sizes": "200", "step": 0},
    quick_recipe={"epochs": 2},
    quick_seeds=2,
)
def reinitialise(
    ask: Ask,
    *,
    mode: str = "incremental",
    width: int = 3,
    step: int = 1,
    sizes: str = "paper",
    new_layer_rate: float = 1.0,
    keep_norms: bool = False,
    as_released: bool = False,
    rate: float = 2e-5,
) -> Iterator[Point]:
    """How much do pretrained layers contribute, by their position and by the amount of data?

    Some layers start from random weights (a normal distribution with standard deviation 0.02, truncated at two
    deviations; norms at 1 and 0), the embeddings stay as pretrained, and everything is tuned with a mean-pooled linear
    head. Each seed draws its own rows. The paper's linear probe on each layer is drawn next to the curve. As in the
    paper, there are 50 seeds and 5 epochs with 500 rows or fewer, otherwise 3 seeds (10 for blocks) and 3 epochs; both
    can be set.

    Options: `mode`, which layers are new: 'incremental' (all after the first k), 'blocks' (a block of neighbours),
    'preserved' (all but a block) or 'single' (one layer); `width`, width of blocks; `step`, difference between
    successive arms, 0 for a quarter of the layers; `sizes`, numbers of training rows joined by +, or 'paper' for
    500+5000+50000 (the last for tasks with as many rows; 5000 alone unless the mode is incremental); `new_layer_rate`,
    factor on the learning rate of new layers (the paper tries 5); `keep_norms`, keep pretrained LayerNorms;
    `as_released`, initialise as the released script did instead of as the text says: a standard deviation of 0.00046,
    biases kept; `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders get a
    proportionally higher rate).
    """
    check_choice("reinitialise", "mode", mode, _MODES)
    check_at_least(0, "reinitialise", step=step)
    for encoder, task in ask.pairs():
        if mode in ("blocks", "preserved") and not 1 <= width <= encoder.depth:
            raise OptionError(f"study reinitialise: option width {width} must be 1..{encoder.depth}")
        for size in _sizes(sizes, mode, len(task.train)):
            rows = min(size, len(task.train), ask.rows or size)
            for arm, new, labels in _arms(mode, encoder.depth, width, step or -(-encoder.depth // 4)):
                surgery = {"reinitialise": new, "keep_norms": keep_norms, "as_released": as_released} if new else {}
                for seed in range(ask.seeds if "seeds" in ask.given else _paper_seeds(mode, rows)):
                    yield ask.point(
                        encoder, task, Plan.full(encoder.depth), arm=arm, seed=seed, rows=rows, surgery=surgery,
                        labels={"size": size, "rows": rows, **labels},
                        learning_rate=ask.rate_for(encoder, rate), new_layer_rate=new_layer_rate if new else 1.0,
                        epochs=ask.epochs(5 if rows <= _SMALL else 3),
                    )  # fmt: skip
