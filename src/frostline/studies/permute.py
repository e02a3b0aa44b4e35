"""Does the order of pretrained layers matter? Paper 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import bars, scatter, strip, with_own_axes
from frostline.charts.words import POINTS, WHISKERS, clip_intervals, format_range, informative_rows, note_left_out
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import correlate, holm, shares_of_ratio, summarise
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._limits import at_least
from frostline.studies._quality import quality_table
from frostline.studies._tables import group_points, is_informative, quality_in_points
from frostline.tasks import Task

_ENDS = {"full": "usual order", "all new": "all new"}  # what orders lie between
_LEVEL = 0.05


def permutations(depth: int, count: int) -> list[list[int]]:
    """So many different orders of the layers, none of them the usual one; the same for every encoder of that depth."""
    usual, found = list(range(1, depth + 1)), []
    source = torch.Generator().manual_seed(depth)
    for _ in range(100 * count):
        order = (torch.randperm(depth, generator=source) + 1).tolist()
        if order != usual and order not in found:
            found.append(order)
        if len(found) == count:
            break
    return found


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    quality_by_arm = quality_table(
        ask, points, name="quality", title="Quality with shuffled layers",
        labels=("encoder", "task", "arm", "order"),
    )  # fmt: skip
    return [quality_by_arm, _recovered(ask, points), *_correlations(ask, points)]


def _means(ask: Ask, points: Sequence[Measured]) -> dict[tuple[str, str], dict[str, float]]:
    """By encoder and task, the mean quality of every arm that has one."""
    tasks = {task.name: task for task in ask.tasks}
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (encoder, task, arm), group in group_points(points, ("encoder", "task", "arm")).items():
        done = [quality_in_points(point, tasks[task]) for point in group if point.is_done]
        if done:
            found.setdefault((encoder, task), {})[arm] = sum(done) / len(done)
    return found


def _recovered(ask: Ask, points: Sequence[Measured]) -> Table:
    """How much of the way from random to pretrained layers each order keeps, and all of them on average."""
    tasks = {task.name: task for task in ask.tasks}
    records: list[Mapping[str, Cell]] = []
    for (encoder, task), group in group_points(points, ("encoder", "task")).items():
        by_arm = {arm: _by_seed(mine, tasks[task]) for (arm,), mine in group_points(group, ("arm",)).items()}
        full, new = by_arm.pop("full", {}), by_arm.pop("all new", {})
        informative = is_informative(tasks[task], [one for one in group if one["arm"] == "full"])
        shares = {arm: kept for arm, values in by_arm.items() if (kept := _shares(values, full, new))}
        common = sorted(set.intersection(*map(set, shares.values()))) if shares else []
        mean = {seed: sum(one[seed] for one in shares.values()) / len(shares) for seed in common}
        for arm, by_seed in (*shares.items(), ("all orders", mean)):
            if by_seed:
                found = summarise(list(by_seed.values()))
                records.append({"encoder": encoder, "task": task, "arm": arm, "seeds": found.count,
                                "recovered": found.mean, "low": found.low, "high": found.high,
                                "informative": informative})  # fmt: skip
    note = (
        "the mean gain over seeds divided by pretraining's; none where pretrained layers are not better than new ones"
    )
    return table_of("recovered", "Share of what pretraining gives that shuffled layers keep", records, notes=[note])


def _by_seed(points: Sequence[Measured], task: Task) -> dict[int, float]:
    return {int(point["seed"]): quality_in_points(point, task) for point in points if point.is_done}


def _shares(
    values: Mapping[int, float], full: Mapping[int, float], new: Mapping[int, float]
) -> dict[int, float] | None:
    """What each seed that all have adds to the share of the gain; None where pretraining gives nothing."""
    seeds = [seed for seed in values if seed in full and seed in new]
    kept, gains = ([side[seed] - new[seed] for seed in seeds] for side in (values, full))
    return dict(zip(seeds, shares_of_ratio(kept, gains), strict=True)) if sum(gains) > 0 else None


def _correlations(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Whether the same orders are good on different tasks; no table where there is one task."""
    means, shuffled = _means(ask, points), {point["arm"] for point in points if "order" in point.spec.surgery}
    records: list[dict[str, Cell]] = []
    for encoder in dict.fromkeys(encoder for encoder, _ in means):
        tasks = [task for name, task in means if name == encoder]
        for one, other in combinations(tasks, 2):
            arms = [arm for arm in means[encoder, one] if arm in means[encoder, other] and arm in shuffled]
            columns = [[means[encoder, task][arm] for arm in arms] for task in (one, other)]
            for name, ranks in (("Pearson", False), ("Spearman", True)):
                value, p = correlate(*columns, ranks=ranks)
                records.append({"encoder": encoder, "task": one, "other": other, "correlation": name,
                                "value": value, "p": p, "orders": len(arms)})  # fmt: skip
    for kind in dict.fromkeys((record["encoder"], record["correlation"]) for record in records):
        mine = [record for record in records if (record["encoder"], record["correlation"]) == kind]
        chances = [record["p"] for record in mine]
        known = [chance if isinstance(chance, float) and chance == chance else None for chance in chances]
        for record, corrected in zip(mine, holm(known), strict=True):
            record["p_holm"] = corrected
    note = "p_holm: corrected for the pairs of tasks of one encoder"
    title = "Agreement between tasks on which orders are good"
    return [table_of("correlations", title, records, notes=[note])] if records else []


def _figures(results: Results) -> list[Figure]:
    measured = [row for row in _numbered(results.rows("quality")) if row["mean"] is not None]
    gains = {
        case: means["full"] - means["all new"]
        for case, group in group_rows(informative_rows(measured), "encoder", "task")
        if _ENDS.keys() <= (means := {row["arm"]: row["mean"] for row in group}).keys()
    }
    # A share of a gain wants a gain.
    recovered = [row for row in results.rows("recovered")
                 if gains.get((row["encoder"], row["task"]), 0) > 0 and row["arm"] != "all orders"]  # fmt: skip
    return [_orders(measured, recovered), _agreement(measured, results.rows("correlations")), _kept(recovered)]


def _orders(measured: Sequence[Row], recovered: Sequence[Row]) -> Figure:
    """Every order between the two ends."""
    wanted = ("encoder", "task", "arm", "order", "seeds", "mean", "low", "high", "minus_full")
    cases = [{"case": name_case(row, measured, "encoder", "task"), **row} for row in measured]
    whole = [{"case": row["case"], "number": row["number"], **{key: row[key] for key in wanted}}
             for row in cases if row["arm"] not in _ENDS]  # fmt: skip
    drawn, cut = clip_intervals(whole, "mean", "low", "high", note=WHISKERS, panel="case", limits=POINTS)
    levels = [{"case": row["case"], "level": row["mean"], "name": _ENDS[row["arm"]]}
              for row in cases if row["arm"] in _ENDS]  # fmt: skip
    for case, group in group_rows(drawn, "case"):
        levels.append({"case": case[0], "level": sum(row["mean"] for row in group) / len(group), "name": "mean"})
    return Figure(
        name="orders",
        title=_found(recovered),
        alt="A point for the quality with each order of the layers, with its 95% interval over seeds, how they are "
        "distributed, and lines for their mean, the usual order and layers that are all new",
        spec=strip(drawn, "number", "mean", x_title="order, the same for all tasks", y_title="quality in points",
                   interval=("shown_low", "shown_high"), panel="case", density=True, levels=levels),
        rows=tuple(drawn),
        paper="paper 3, figure 4",
        notes=(*cut, *note_left_out(measured)),
    )  # fmt: skip


def _numbered(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows with the place of their arm among those of the encoder that shuffle layers, from 1; None for others."""
    shuffled = {
        encoder: list(dict.fromkeys(row["arm"] for row in mine if row["order"]))
        for (encoder,), mine in group_rows(rows, "encoder")
    }
    return [{**row, "number": shuffled[row["encoder"]].index(row["arm"]) + 1 if row["order"] else None} for row in rows]


def _found(recovered: Sequence[Row]) -> str:
    """What shuffled layers keep of the gain, on average over the orders, for encoders and tasks."""
    shares = [
        100 * sum(row["recovered"] for row in group) / len(group)
        for _, group in group_rows(recovered, "encoder", "task")
    ]
    if not shares:
        return "Quality with the layers in another order"
    return f"Shuffled layers keep {format_range(shares)}% of what pretraining gives, on average over the orders"


def _agreement(measured: Sequence[Row], correlations: Sequence[Row]) -> Figure:
    """Every order on one task against another."""
    means = {(row["encoder"], row["task"], row["arm"]): row for row in measured}
    pairs = list(dict.fromkeys((row["encoder"], row["task"], row["other"]) for row in correlations))
    many = len({encoder for encoder, _, _ in pairs}) > 1
    drawn = [
        {"pair": f"{one} (across) and {other} (up){f', {encoder}' if many else ''}", "number": row["number"],
         "order": row["order"], "mean": row["mean"], "mean_of_other": means[encoder, other, row["arm"]]["mean"]}
        for encoder, one, other in pairs
        for row in measured
        if (row["encoder"], row["task"]) == (encoder, one) and row["arm"] not in _ENDS
        and (encoder, other, row["arm"]) in means
    ]  # fmt: skip
    names = pairs[0][1:] if len(pairs) == 1 else ("the first task", "the second task")
    spec = scatter(drawn, "mean", "mean_of_other", x_title=f"quality on {names[0]}, in points",
                   y_title=f"quality on {names[1]}, in points", label="number", panel="pair", trend=True)  # fmt: skip
    return Figure(
        name="agreement",
        title=_agreed(correlations),
        alt="A point for each order of the layers by its quality on one task and on another, with the line of least "
        "squares",
        spec=with_own_axes(spec),
        rows=tuple(drawn),
        notes=("the numbers are those of the orders; the paper gives these correlations in its section 5",),
    )


def _agreed(correlations: Sequence[Row]) -> str:
    """Whether tasks are shown to agree on good orders."""
    known = [row for row in correlations if row.get("correlation") == "Spearman" and row["value"] is not None]
    if not known:
        return "Quality of each order on one task and on another"
    shown = sum(row["p_holm"] is not None and row["p_holm"] < _LEVEL and row["value"] > 0 for row in known)
    values = format_range([row["value"] for row in known], digits=2)
    if len(known) == 1:
        one, verb = known[0], "agree" if shown else "are not shown to agree"
        return f"{one['task']} and {one['other']} {verb} on good orders: rank correlation {values}"
    return f"{shown} of {len(known)} pairs of tasks are shown to agree on good orders: rank correlation {values}"


def _kept(recovered: Sequence[Row]) -> Figure:
    shares = [row["recovered"] for row in recovered]
    drawn = []
    for (encoder, task), group in group_rows(recovered, "encoder", "task"):
        mine = [row["recovered"] for row in group]
        drawn.append({"encoder": encoder, "task": task, "orders": len(mine), "mean": sum(mine) / len(mine),
                      "worst": min(mine), "best": max(mine)})  # fmt: skip
    return Figure(
        name="recovered",
        title=f"{sum(share < 1 / 2 for share in shares)} of {len(shares)} shuffles keep less than half of what "
        "pretraining gives",
        alt="Bars of the share of what pretraining gives that shuffled layers keep on average, for every encoder and "
        "task, with lines from the worst to the best order",
        spec=bars(drawn, "task", "mean", x_title="task", y_title="share of the way from new to pretrained layers",
                  interval=("worst", "best"), panel="encoder"),
        rows=tuple(drawn),
        notes=("0: as good as new layers; 1: as good as the usual order; tasks without a gain are left out",
               "the lines go from the worst to the best order"),
    )  # fmt: skip


@study(
    paper="3",
    tables=_tables,
    figures=_figures,
    tasks=("glue/sst2", "glue/qnli", "glue/cola"),
    seeds=3,
    recipe={"batch": 8, "epochs": 3, "head": "mean"},
    quick={"orders": 3, "size": 150},
    quick_recipe={"epochs": 2},
    quick_seeds=2,
)
def permute(
    ask: Ask,
    *,
    orders: int = 10,
    size: int = 5000,
    rate: float = 2e-5,
    keep_norms: bool = False,
    as_released: bool = False,
) -> Iterator[Point]:
    """Are pretrained layers worth something in another order?

    The layers are shuffled, in the same ways for every task, and everything is tuned with a mean-pooled linear head; so
    are, for comparison, the intact encoder and one whose layers all start from random weights.

    Options: `orders`, how many, or all that there are; `size`, training rows at most, the paper's unless set, 0 for
    all; `rate`, the learning rate for encoders of width 768, the paper's unless set; narrower ones get a higher one in
    proportion; `keep_norms` and `as_released`, how random weights are drawn, as in the study reinitialise.
    """
    at_least(1, "permute", orders=orders)
    at_least(0, "permute", size=size)
    rows = min((count for count in (size, ask.rows) if count), default=None)
    drawn = {name: True for name, asked in (("keep_norms", keep_norms), ("as_released", as_released)) if asked}
    for encoder, task in ask.pairs():
        depth = encoder.depth
        learning_rate = ask.rate_for(encoder, rate)
        arms: list[tuple[str, str, Mapping[str, object]]] = [
            ("full", "", {}),
            ("all new", "", {"reinitialise": list(range(1, depth + 1)), **drawn}),
        ]
        for number, order in enumerate(permutations(depth, orders), start=1):
            arms.append((f"order {number}", " ".join(map(str, order)), {"order": order}))
        for arm, shown, surgery in arms:
            for seed in range(ask.seeds):
                yield ask.point(
                    encoder, task, Plan.full(depth), arm=arm, seed=seed, rows=rows, surgery=surgery,
                    learning_rate=learning_rate, labels={"order": shown},
                )  # fmt: skip
