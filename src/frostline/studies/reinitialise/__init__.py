"""What pretrained layers are worth: some start from random weights, then everything is tuned, paper 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from frostline.errors import MeasureError, OptionError
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import correlate, summarise, summarise_correlations
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import correct_known, pairs_table
from frostline.studies._limits import at_least
from frostline.studies._quality import quality_table
from frostline.studies._tables import group_points, quality_in_points
from frostline.studies.reinitialise.figures import figures

_MODES = ("incremental", "blocks", "preserved", "single")
_PROBE = "probe.linear.paper"
_SMALL = 500  # training rows up to which the paper has more trials and epochs
_LARGE = 50_000  # the paper's largest number of training rows


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    found = []
    by_size = group_points(points, ("size",))
    for (size,), group in by_size.items():
        name = "quality" if len(by_size) == 1 else f"quality-{size}"
        labels = ("encoder", "task", "rows", "arm", "first", "last", "kept")
        found.append(
            quality_table(ask, group, name=name, labels=labels,
                          title=f"Quality with at most {size} training rows by what is pretrained")
        )  # fmt: skip
    found += [_trials(ask, points), _losses(points), *_against_nothing(ask, points)]
    if any(point["kept"] is not None for point in points):
        found += _probing(ask, points)
    return found


def _against_nothing(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """What the layers that an arm keeps are worth: it minus an encoder of which nothing is pretrained."""
    arms = [arm for (arm,) in group_points(points, ("arm",)) if arm != "all new"]
    once = list({(point.spec.id, point["arm"]): point for point in points}.values())
    return pairs_table(ask, once, [(arm, "all new") for arm in arms], case=("encoder", "task", "rows"))


def _trials(ask: Ask, points: Sequence[Measured]) -> Table:
    """The quality of every trial: means hide how far apart few training rows set them."""
    tasks = {task.name: task for task in ask.tasks}
    labels = ("encoder", "task", "rows", "arm", "first", "last", "kept", "seed")
    # Sizes beyond a task's rows are the same trials, once.
    done = {tuple(point[label] for label in labels): point for point in points if point.is_done}
    records: list[Mapping[str, Cell]] = [
        {**dict(zip(labels, key, strict=True)), "quality": quality_in_points(point, tasks[point["task"]])}
        for key, point in done.items()
    ]
    return table_of("trials", "Quality of every trial by what is pretrained", records)


def _losses(points: Sequence[Measured]) -> Table:
    """Validation loss after every epoch."""
    records: list[Mapping[str, Cell]] = []
    for (encoder, task, rows, arm), group in group_points(points, ("encoder", "task", "rows", "arm")).items():
        # Sizes beyond a task's rows are the same trials, once.
        curves = [point.result.history for point in {one.spec.id: one for one in group}.values() if point.is_done]
        for place in range(min((len(curve) for curve in curves), default=0)):
            found = summarise([float(curve[place]["validation_loss"]) for curve in curves])
            records.append(
                {"encoder": encoder, "task": task, "rows": rows, "arm": arm, "epoch": curves[0][place]["epoch"],
                 "seeds": found.count, "mean": found.mean, "low": found.low, "high": found.high}
            )  # fmt: skip
    return table_of("losses", "Validation loss by epoch", records)


def _probing(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """The probing curve beside the quality with so many pretrained layers, and how far they go together."""
    encoders, tasks = {one.name: one for one in ask.encoders}, {one.name: one for one in ask.tasks}
    records: list[Mapping[str, Cell]] = []
    tracked: list[dict[str, Cell]] = []
    notes = []
    for (encoder, task, rows), group in group_points(points, ("encoder", "task", "rows")).items():
        try:
            probe = ask.scores(encoders[encoder], tasks[task], [_PROBE])[_PROBE].values
        except MeasureError as error:  # too few rows to judge a probe on
            notes.append(f"{encoder}, {task}: no probe: {error}")
            probe = (None,) * (encoders[encoder].depth + 1)
        curves: dict[int, dict[int, float]] = {}  # by layers kept and seed
        for (kept,), mine in sorted(group_points([one for one in group if one["kept"] is not None], ("kept",)).items()):
            by_seed = {int(one["seed"]): quality_in_points(one, tasks[task]) for one in mine if one.is_done}
            if by_seed:
                curves[kept] = by_seed
                records.append({"encoder": encoder, "task": task, "rows": rows, "layer": kept, "probe": probe[kept],
                                "quality": sum(by_seed.values()) / len(by_seed)})  # fmt: skip
        tracked.append({"encoder": encoder, "task": task, "rows": rows, **_tracking(probe, curves)})
    for column in ("levels_p", "gains_p"):
        correct_known(tracked, ("encoder",), column=column)
    return [
        table_of("probing", "Probe on layer k against tuning with layers 1..k pretrained", records, notes=notes),
        table_of("tracking", "How far the probe goes together with what pretrained layers are worth", tracked, notes=[
            "correlations over the numbers of kept layers: levels, of the probe on layer k with the quality when 1..k "
            "are kept; gains, of what each step adds to either; intervals over seeds on the z scale",
            "p_holm: corrected for the tasks and sizes of an encoder",
        ]),
    ]  # fmt: skip


def _tracking(probe: Sequence[float | None], curves: Mapping[int, Mapping[int, float]]) -> dict[str, Cell]:
    """Correlations of mean curves, and their t-intervals over the seeds that all numbers of kept layers have."""
    kept = [layer for layer in curves if probe[layer] is not None]
    seeds = sorted(set.intersection(*(set(curves[layer]) for layer in kept))) if kept else []
    probed = np.array([probe[layer] for layer in kept], dtype=np.float64)
    tuned = np.array([[curves[layer][seed] for layer in kept] for seed in seeds], dtype=np.float64)
    found: dict[str, Cell] = {"layers": len(kept), "seeds": len(seeds)}
    if not len(tuned):
        return found
    for name, ours, theirs in (("levels", probed, tuned), ("gains", np.diff(probed), np.diff(tuned, axis=1))):
        value, p = correlate(list(ours), list(theirs.mean(0)))
        each = [one for of_seed in theirs if (one := correlate(list(ours), list(of_seed))[0]) == one]
        spread_out = summarise_correlations(each)
        found |= {name: value, f"{name}_p": p}
        if spread_out is not None:
            found |= {f"{name}_low": spread_out.low, f"{name}_high": spread_out.high}
    return found


def _sizes(given: str, mode: str, available: int) -> list[int]:
    """How many training rows; the paper has its largest number for tasks that have as many."""
    if given == "paper":
        if mode != "incremental":
            return [5000]
        return [500, 5000, *([_LARGE] if available >= _LARGE else [])]
    try:
        found = [int(one) for one in given.split("+")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise OptionError(f"study reinitialise: option sizes {given!r}: must look like 500+5000, or be paper")
    return found


def _paper_seeds(mode: str, rows: int) -> int:
    if mode == "incremental" and rows <= _SMALL:
        return 50
    return 10 if mode in ("blocks", "preserved") else 3


def _arms(mode: str, depth: int, width: int, step: int) -> Iterator[tuple[str, list[int], dict[str, Any]]]:
    """Name, re-initialised layers and labels of each arm; the intact encoder first, then nothing pretrained."""
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
    paper="3",
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
    """What are the pretrained layers worth, by where they lie and by how much data there is?

    Some layers start from random weights (a normal of deviation 0.02 cut at two deviations; norms at 1 and 0), the
    embeddings stay as pretrained, and then everything is tuned with a mean-pooled linear head. Every seed draws its own
    rows. The paper's linear probe on each layer stands beside the curve. As in the paper there are 50 seeds with 500
    rows or fewer, else 3, 10 for blocks and 3 for single layers, and 5 epochs with 500 rows or fewer, else 3, unless
    others are asked for.

    Options: `mode`: incremental (all layers after the first k are new), blocks (a block of neighbours is new),
    preserved (only the block is not new), single (one layer is new); `width` of blocks; `step` from one arm to the
    next, 0 for a quarter of the layers; `sizes`, training rows, joined by +, or paper for its 500+5000+50000, the last
    for tasks that have as many, and 5000 alone where layers are not new from the top down; `new_layer_rate`, how many
    times higher the learning rate of new layers is (the paper tries 5); `keep_norms`, leave LayerNorms pretrained;
    `as_released`, as the paper's script did and not as its text says: a deviation of 0.00046, biases kept; `rate`, the
    learning rate for encoders of width 768, the paper's unless set; narrower ones get a higher one in proportion.
    """
    if mode not in _MODES:
        raise OptionError(f"study reinitialise: option mode {mode!r}: must be one of {', '.join(_MODES)}")
    at_least(0, "reinitialise", step=step)
    for encoder, task in ask.pairs():
        if mode in ("blocks", "preserved") and not 1 <= width <= encoder.depth:
            raise OptionError(f"study reinitialise: option width {width} must be 1..{encoder.depth}")
        learning_rate = ask.rate_for(encoder, rate)
        for size in _sizes(sizes, mode, len(task.train)):
            rows = min(size, len(task.train), ask.rows or size)
            for arm, new, labels in _arms(mode, encoder.depth, width, step or -(-encoder.depth // 4)):
                surgery = {"reinitialise": new, "keep_norms": keep_norms, "as_released": as_released} if new else {}
                for seed in range(ask.seeds if "seeds" in ask.given else _paper_seeds(mode, rows)):
                    yield ask.point(
                        encoder, task, Plan.full(encoder.depth), arm=arm, seed=seed, rows=rows, surgery=surgery,
                        labels={"size": size, "rows": rows, **labels},
                        learning_rate=learning_rate, new_layer_rate=new_layer_rate if new else 1.0,
                        epochs=ask.epochs(5 if rows <= _SMALL else 3),
                    )  # fmt: skip
