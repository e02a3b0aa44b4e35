"""Tuning the layers with the most Fisher information, paper 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import bars, side_by_side
from frostline.charts.theme import BLUE, GREEN, GREY, ORANGE, RED
from frostline.charts.words import WHISKERS, clip_intervals, informative_rows, note_left_out
from frostline.errors import OptionError
from frostline.plans.strategies import STRATEGIES
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._arms import Arm, read_arm
from frostline.studies._comparisons import pair_by_seed, paired_gaps, pairs_table
from frostline.studies._limits import at_least
from frostline.studies._quality import quality_table
from frostline.studies._released import freeze_by_prefix
from frostline.studies._tables import group_points

_ALL = (
    "glue/qnli", "glue/sst2", "glue/cola", "glue/mrpc", "glue/rte", "glue/wnli", "glue/stsb", "glue/qqp", "glue/mnli",
    "super_glue/cb", "super_glue/copa", "super_glue/multirc", "super_glue/wic", "super_glue/wsc", "super_glue/boolq",
)  # fmt: skip
_BEST = "top-k, k by validation"
_SIMPLE = ("last", "middle", "random")  # ways to choose as many layers without looking
_RANGE = 5  # points: in most tasks the paper's differences are no larger
_KINDS = {"top": ("most Fisher information", RED), "bottom": ("least Fisher information", ORANGE),
          "last": ("last layers", BLUE), "middle": ("middle layers", GREEN),
          "random": ("random layers", GREY)}  # fmt: skip


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    tags = {task.name: ", ".join(task.tags) for task in ask.tasks}

    def more(group: Sequence[Measured]) -> Mapping[str, Cell]:
        return {"layers": "; ".join(dict.fromkeys(point["layers"] for point in group)), "tags": tags[group[0]["task"]]}

    table = quality_table(ask, points, name="quality", title="Quality by the layers that are tuned", more=more)
    counts = dict.fromkeys(point["k"] for point in points if point["kind"] == "top")
    pairs = [("top-1", "bottom-1"), *((f"top-{k}", f"{kind}-{k}") for k in counts for kind in _SIMPLE)]
    return [table, _relative(ask, points), *pairs_table(ask, points, pairs)]


def _relative(ask: Ask, points: Sequence[Measured]) -> Table:
    """Points above or below full tuning for each arm, a row per task."""
    tasks = {task.name: task for task in ask.tasks}
    records: list[Mapping[str, Cell]] = []
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        full = [point for point in group if point["arm"] == "full"]
        record: dict[str, Cell] = {"encoder": encoder, "task": name, "tags": ", ".join(tasks[name].tags)}
        for (arm,), mine in group_points(group, ("arm",)).items():
            gaps = paired_gaps(tasks[name], pair_by_seed(mine, full))
            if arm != "full":
                record[arm] = sum(gaps) / len(gaps) if gaps else None
        records.append(record)
    return table_of("relative", "Points above or below full tuning", records)


def _figures(results: Results) -> list[Figure]:
    known = [row for row in results.rows("quality") if row.get("mean") is not None]
    rows = [{"panel": name_case(row, known, "encoder", "task"), **row} for row in known]
    return [_relative_figure(rows), _by_k(rows)]


def _relative_figure(rows: Sequence[Row]) -> Figure:
    wanted = (
        "encoder",
        "task",
        "arm",
        "seeds",
        "mean",
        "minus_full",
        "seeds_low",
        "seeds_high",
        "rows_low",
        "rows_high",
        "layers",
        "tags",
        "informative",
    )
    colours = {_BEST: RED, "top-1": GREEN, "bottom-1": ORANGE}
    drawn = [
        {key: row[key] for key in wanted} for arm in colours for row in rows if row["arm"] == arm
        and row["minus_full"] is not None
    ]  # fmt: skip
    mine = [row for row in informative_rows(drawn) if row["arm"] == _BEST]
    lows = [(row["seeds_low"], row["rows_low"]) for row in mine]
    near = sum(None not in ends and min(ends) > -_RANGE for ends in lows)
    return Figure(
        name="relative",
        title=f"A few layers are shown to lose less than {_RANGE} points in {near} of {len(mine)} cases"
        if mine
        else "Points above or below tuning all layers, by the layers that are tuned",
        alt="Bars of points above or below full fine-tuning for each task, with 95% intervals over test rows",
        spec=bars(drawn, "task", "minus_full", x_title="", y_title="points above tuning all layers", colour="arm",
                  colours=colours, interval=("rows_low", "rows_high"), panel="encoder"),
        rows=tuple(drawn),
        paper="paper 2, figure 1",
        notes=("whiskers: 95% bootstrap over test rows", "top and bottom: the most and the least Fisher information",
               *note_left_out(rows)),
    )  # fmt: skip


def _by_k(rows: Sequence[Row]) -> Figure:
    wanted = ("panel", "encoder", "task", "arm", "seeds", "mean", "low", "high", "minus_full", "layers", "informative")
    arms = [(row, read_arm(row["arm"])) for row in rows]
    told = [
        {"kind": said, "k": arm.layers, **{key: row[key] for key in wanted}}
        for kind, (said, _) in _KINDS.items()
        for row, arm in arms
        if arm.kind == kind
    ]
    drawn, notes = clip_intervals(told, "mean", "low", "high", note=WHISKERS)
    levels = [{"level": row["mean"], "name": "all", "panel": row["panel"]}
              for row in rows if row["arm"] == "full"]  # fmt: skip
    return Figure(
        name="by-k",
        title=_wins(informative_rows(drawn)) or "Quality by the number of layers that are tuned",
        alt="Points of quality over the number of tuned layers, for those with the most Fisher information, the last "
        "ones and random ones, with 95% intervals over seeds and a line at full fine-tuning",
        spec=side_by_side(drawn, "k", "mean", x_title="tuned layers", y_title="quality in points", colour="kind",
                   colours=dict(_KINDS.values()), interval=("shown_low", "shown_high"), panel="panel", levels=levels),
        rows=tuple(drawn),
        paper="paper 2, figures 6 and 7",
        notes=(*notes, *note_left_out(rows)),
    )  # fmt: skip


def _wins(rows: Sequence[Row]) -> str:
    """How often Fisher's layers beat as many of the last ones and as many random ones."""
    said = []
    for kind in _SIMPLE:
        outcomes = []
        for _, group in group_rows(rows, "panel", "k"):
            of_kind = {row["kind"]: row for row in group}
            ours, theirs = (of_kind.get(_KINDS[name][0]) for name in ("top", kind))
            if ours and theirs and ours["layers"] != theirs["layers"]:
                outcomes.append(ours["mean"] > theirs["mean"])
        if outcomes:
            said.append(f"{kind} ones in {sum(outcomes)} of {len(outcomes)} cases")
    return f"Layers with the most Fisher information have a higher mean than as many {', '.join(said)}" if said else ""


@study(
    paper="2",
    tables=_tables,
    figures=_figures,
    tasks=_ALL,
    seeds=2,
    recipe={"batch": 16, "epochs": 10, "weight_decay": 0.01},
    quick={"most": 1},
    quick_recipe={"epochs": 3},
)
def surgical(
    ask: Ask, *, most: int = 5, rate: float = 5e-5, score: str = "fisher", frozen_as_released: bool = False
) -> Iterator[Point]:
    """Is it enough to tune the few layers with the most Fisher information?

    Layers are ranked by their Fisher information on the training rows; the best 1 to `most` of them are tuned, wherever
    they lie, and for comparison the worst one, as many random, middle and last ones, and all. How many are taken is
    also chosen on validation. Quality is given as points above or below full tuning, and tasks carry the linguistic
    features and kinds of shift that the paper discusses.

    Options: `most`, layers at most; `rate`, the learning rate for encoders of width 768, the paper's unless set;
    narrower ones get a higher one in proportion; `score`, the layer score that ranks layers: 'fisher' as the paper
    says, 'fisher.released' as its script took it, or any other; `frozen_as_released`, freeze by the beginning of names
    as a script did, layers 11 and 12 wherever layer 2 is frozen.
    """
    at_least(1, "surgical", most=most)
    for encoder, task in ask.pairs():
        if encoder.depth < 2:
            raise OptionError(f"study surgical: {encoder.name} has one layer, and there is nothing to choose")
        scores, depth = ask.scores(encoder, task, [score]), encoder.depth
        counts = range(1, min(most, depth - 1) + 1)
        learning_rate = ask.rate_for(encoder, rate)
        for seed in range(ask.seeds):
            arms = {Arm(kind="full"): Plan.full(depth)}
            for k in counts:
                top = STRATEGIES["fisher-top-k"].plan(depth, scores, {"k": k, "score": score})
                arms[Arm(kind="top", layers=k)] = top
            bottom = STRATEGIES["fisher-bottom-k"].plan(depth, scores, {"k": 1, "score": score})
            arms[Arm(kind="bottom", layers=1)] = bottom
            for k in counts:
                arms[Arm(kind="random", layers=k)] = STRATEGIES["random-k"].plan(depth, None, {"k": k}, seed=seed)
            for k in counts:
                arms[Arm(kind="last", layers=k)] = STRATEGIES["top-k"].plan(depth, None, {"k": k})
            for k in counts:
                if k <= depth // 2 + 1:
                    arms[Arm(kind="middle", layers=k)] = STRATEGIES["middle"].plan(depth, None, {"layers": k})
            if frozen_as_released:
                arms = {arm: freeze_by_prefix(plan) for arm, plan in arms.items()}
            points = {
                arm: ask.point(encoder, task, plan, arm=str(arm), seed=seed, learning_rate=learning_rate,
                               labels={"layers": "+".join(map(str, plan.layers)), "kind": arm.kind, "k": arm.layers})
                for arm, plan in arms.items()
            }  # fmt: skip
            yield from points.values()
            best = ask.best([points[Arm(kind="top", layers=k)] for k in counts])
            if best is not None:
                yield Point(spec=best.spec, labels={**best.labels, "arm": _BEST, "kind": _BEST})
