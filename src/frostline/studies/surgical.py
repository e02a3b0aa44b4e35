"""Tuning the layers with the most Fisher information, as in Lodha et al. 2023."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from frostline.charts import Figure, Results, Row, group_rows, name_case, pick_columns
from frostline.charts.draw import bars, side_by_side
from frostline.charts.theme import BLUE, GREEN, GREY, ORANGE, RED
from frostline.charts.words import WHISKERS, clip_intervals, informative_rows, note_left_out
from frostline.errors import OptionError
from frostline.plans.strategies import STRATEGIES
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._arms import Arm, read_arm
from frostline.studies._by_tag import tag_figures, tag_table
from frostline.studies._comparisons import pair_by_seed, paired_gaps, pairs_table
from frostline.studies._lodha import FISHER_ROWS, LODHA_METRICS, LODHA_TASKS
from frostline.studies._options import check_at_least, check_choice
from frostline.studies._quality import quality_table
from frostline.studies._released import freeze_by_prefix
from frostline.studies._surgical_reproduces import COUNTERPARTS
from frostline.studies._tables import group_points, mean_of_known
from frostline.studies._unstated import LODHA_UNSTATED

_BEST = "top-k, k by validation"
_DRAWN = {_BEST: RED, "top-1": GREEN, "bottom-1": ORANGE}  # arms in figures by task and by tag
_SCORED = ("top", "bottom")  # kinds of arms whose layers a score chooses
_SIMPLE = ("last", "middle", "random")  # ways to choose layers without a score
_RANGE = 5  # points; the paper's differences are within it on most tasks
_KINDS = {"top": ("most Fisher information", RED), "bottom": ("least Fisher information", ORANGE),
          "last": ("last layers", BLUE), "middle": ("middle layers", GREEN),
          "random": ("random layers", GREY)}  # fmt: skip


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    def more(group: Sequence[Measured]) -> Mapping[str, Cell]:
        layers = "; ".join(dict.fromkeys(point["layers"] for point in group))
        return {"layers": layers, "tags": ", ".join(ask.task(group[0]["task"]).tags)}

    counts = dict.fromkeys(point["k"] for point in points if point["kind"] == "top")
    compared = [("top-1", "bottom-1"), *((f"top-{k}", f"{kind}-{k}") for k in counts for kind in _SIMPLE)]
    return [
        quality_table(ask, points, name="quality", title="Quality by the tuned layers", more=more),
        _relative(ask, points),
        *tag_table(ask, points),
        *pairs_table(ask, points, compared),
    ]


def _relative(ask: Ask, points: Sequence[Measured]) -> Table:
    """Return the difference from full tuning for each arm, one row per task."""
    records: list[Mapping[str, Cell]] = []
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        task, arms = ask.task(name), group_points(group, ("arm",))
        gaps = {arm: paired_gaps(task, pair_by_seed(of_arm, arms.get(("full",), ())))
                for (arm,), of_arm in arms.items() if arm != "full"}  # fmt: skip
        records.append({"encoder": encoder, "task": name, "tags": ", ".join(task.tags),
                        **{arm: mean_of_known(values) for arm, values in gaps.items()}})  # fmt: skip
    return table_of("relative", "Difference from full tuning, in points", records)


def _figures(results: Results) -> list[Figure]:
    defined = [row for row in results.rows("quality") if row.get("mean") is not None]
    rows = [{"panel": name_case(row, defined, "encoder", "task"), **row} for row in defined]
    return [_relative_figure(rows), _by_k(rows), *tag_figures(results, colours=_DRAWN)]


def _relative_figure(rows: Sequence[Row]) -> Figure:
    chosen = [row for arm in _DRAWN for row in rows if row["arm"] == arm and row["minus_full"] is not None]
    drawn = pick_columns(chosen, "encoder", "task", "arm", "seeds", "mean", "minus_full", "seeds_low", "seeds_high",
                         "rows_low", "rows_high", "layers", "tags", "informative")  # fmt: skip
    lows = [(row["seeds_low"], row["rows_low"]) for row in informative_rows(drawn) if row["arm"] == _BEST]
    near = sum(None not in ends and min(ends) > -_RANGE for ends in lows)
    return Figure(
        name="relative",
        title=f"Tuning a few layers is shown to lose less than {_RANGE} points in {near} of {len(lows)} cases"
        if lows
        else "Difference from tuning all layers, by the tuned layers",
        alt="Bars of the difference from full fine-tuning in points for each task, with 95% intervals over test rows",
        spec=bars(drawn, "task", "minus_full", x_title="", y_title="points minus tuning all layers", colour="arm",
                  colours=_DRAWN, interval=("rows_low", "rows_high"), panel="encoder"),
        rows=tuple(drawn),
        paper="Lodha et al. 2023, figure 1",
        notes=("whiskers: 95% bootstrap over test rows", "top and bottom: most and least Fisher information",
               *note_left_out(rows)),
    )  # fmt: skip


def _by_k(rows: Sequence[Row]) -> Figure:
    arms = [(row, read_arm(row["arm"])) for row in rows]
    chosen = [{**row, "kind": name, "k": arm.layers}
              for kind, (name, _) in _KINDS.items() for row, arm in arms if arm.kind == kind]  # fmt: skip
    by_kind = pick_columns(chosen, "kind", "k", "panel", "encoder", "task", "arm", "seeds", "mean", "low", "high",
                           "minus_full", "layers", "informative")  # fmt: skip
    drawn, notes = clip_intervals(by_kind, "mean", "low", "high", note=WHISKERS)
    levels = [{"level": row["mean"], "name": "all", "panel": row["panel"]}
              for row in rows if row["arm"] == "full"]  # fmt: skip
    return Figure(
        name="by-k",
        title=_title_of_wins(informative_rows(drawn)) or "Quality by the number of tuned layers",
        alt="Points of quality over the number of tuned layers, for layers with the most Fisher information, last "
        "layers and random layers, with 95% intervals over seeds and a line at full fine-tuning",
        spec=side_by_side(drawn, "k", "mean", x_title="tuned layers", y_title="quality in points", colour="kind",
                   colours=dict(_KINDS.values()), interval=("shown_low", "shown_high"), panel="panel", levels=levels),
        rows=tuple(drawn),
        paper="Lodha et al. 2023, figures 6 and 7",
        notes=(*notes, *note_left_out(rows)),
    )  # fmt: skip


def _title_of_wins(rows: Sequence[Row]) -> str:
    """Return how often layers with the most Fisher information beat as many layers chosen without a score."""
    cases = [{row["kind"]: row for row in group} for _, group in group_rows(rows, "panel", "k")]
    words = []
    for kind in _SIMPLE:
        pairs = [(case.get(_KINDS["top"][0]), case.get(_KINDS[kind][0])) for case in cases]
        wins = [ours["mean"] > other["mean"] for ours, other in pairs
                if ours and other and ours["layers"] != other["layers"]]  # fmt: skip
        words += [f"{kind} ones in {sum(wins)} of {len(wins)} cases"] if wins else []
    return (
        f"Layers with the most Fisher information have a higher mean than as many {', '.join(words)}" if words else ""
    )


@study(
    paper="Lodha et al. 2023",
    tables=_tables,
    figures=_figures,
    tasks=LODHA_TASKS,
    metrics=LODHA_METRICS,
    seeds=2,
    recipe={"batch": 16, "epochs": 10, "weight_decay": 0.01, "warmup": 0.0, "select": "last"},
    unstated=LODHA_UNSTATED,
    selection="Both protocols keep the last epoch, since the paper names no other choice; the arm that chooses its "
    "number of layers does so on validation rows under `protocol='held-out'`, and on the development set under "
    "`protocol='paper'`.",
    quick={"most": 1},
    quick_recipe={"epochs": 3},
    reproduces=COUNTERPARTS,
)
def surgical(
    ask: Ask,
    *,
    most: int = 5,
    rate: float = 5e-5,
    score: str = "fisher",
    fisher_rows: str = "train",
    frozen_as_released: bool = False,
) -> Iterator[Point]:
    """Is it enough to tune the few layers with the most Fisher information?

    Layers are ranked by their Fisher information. The best 1 to `most` of them are tuned, wherever they lie, and
    compared with the worst one, with as many random, middle and last layers, and with all layers. An arm chooses the
    number of layers on validation. Quality is the difference from full tuning in points; tables also average it over
    the tasks that share a linguistic feature or a kind of distribution shift (section 5.3). Accuracy decides on MRPC,
    QQP and MultiRC, as in the paper's tables, with the official metric beside it; CoLA is judged by Matthews
    correlation there as here, and for STS-B, where the paper states no metric, Spearman's correlation decides.

    Options: `most`, maximum number of tuned layers; `rate`, learning rate for encoders of width 768, the paper's by
    default (narrower encoders get a proportionally higher rate); `score`, layer score that ranks layers: 'fisher' as in
    the paper, 'fisher.released' as in its released script, or any other; `fisher_rows`, rows on which layers are
    scored: 'train', or 'validation' as in the paper's text, which takes 100 rows of the validation set (its appendix
    says that the validation sets were also trained on, so that its scores, its training and its evaluation share rows;
    here the validation rows are a part of the training rows that no trial trains on, and under `protocol='paper'` the
    development set that results are reported on); `frozen_as_released`, freeze parameters by the beginning of their
    names as a released script did, so that layers 11 and 12 are frozen wherever layer 2 is.
    """
    check_at_least(1, "surgical", most=most)
    check_choice("surgical", "fisher_rows", fisher_rows, FISHER_ROWS)
    for encoder, task in ask.pairs():
        if encoder.depth < 2:
            raise OptionError(f"study surgical: {encoder.name} has only one layer, so there is nothing to choose")
        scores, depth = ask.scores(encoder, task, [score], rows=fisher_rows), encoder.depth
        counts = range(1, min(most, depth - 1) + 1)
        for seed in range(ask.seeds):
            chosen: list[tuple[str, int, str, Mapping[str, object]]] = [
                *(("top", k, "fisher-top-k", {"k": k, "score": score}) for k in counts),
                ("bottom", 1, "fisher-bottom-k", {"k": 1, "score": score}),
                *(("random", k, "random-k", {"k": k}) for k in counts),
                *(("last", k, "top-k", {"k": k}) for k in counts),
                *(("middle", k, "middle", {"layers": k}) for k in counts if k <= depth // 2 + 1),
            ]
            arms = {Arm(kind="full"): Plan.full(depth)}
            arms |= {Arm(kind=kind, layers=k): STRATEGIES[strategy].plan(depth, scores, options, seed=seed)
                     for kind, k, strategy, options in chosen}  # fmt: skip
            if frozen_as_released:
                arms = {arm: freeze_by_prefix(plan) for arm, plan in arms.items()}
            points = {
                arm: ask.point(encoder, task, plan, arm=str(arm), seed=seed, learning_rate=ask.rate_for(encoder, rate),
                               chosen=["the layers"] if arm.kind in _SCORED and fisher_rows == "validation" else [],
                               labels={"layers": "+".join(map(str, plan.layers)), "kind": arm.kind, "k": arm.layers})
                for arm, plan in arms.items()
            }  # fmt: skip
            yield from points.values()
            best = ask.best([points[Arm(kind="top", layers=k)] for k in counts])
            if best is not None:
                number = ["the number of layers"] if len(counts) > 1 else []
                yield replace(best, labels={**best.labels, "arm": _BEST, "kind": _BEST},
                              chosen=(*best.chosen, *number))  # fmt: skip
