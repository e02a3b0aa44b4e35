"""Shuffling the pretrained layers, as in Tamkin et al. 2020."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch

from frostline.charts import Figure, Results, Row, group_rows, pick_columns
from frostline.charts.draw import bars, scatter, strip, with_own_axes
from frostline.charts.words import (
    LEVEL,
    POINTS,
    WHISKERS,
    clip_intervals,
    format_range,
    informative_rows,
    note_left_out,
)
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import correlate, shares_of_ratio, summarise
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import add_holm, average_by_seed
from frostline.studies._counterparts import Counterpart
from frostline.studies._options import check_at_least
from frostline.studies._quality import quality_table
from frostline.studies._tables import group_done, group_points, is_informative, quality_in_points

_ENDS = {"full": "usual order", "all new": "all new"}  # the two ends that shuffled orders lie between


def permutations(depth: int, count: int) -> list[list[int]]:
    """Return different orders of the layers, without the usual one; the same for every encoder of that depth."""
    source = torch.Generator().manual_seed(depth)
    draws = [tuple((torch.randperm(depth, generator=source) + 1).tolist()) for _ in range(100 * count)]
    return [list(order) for order in dict.fromkeys(draws) if order != tuple(range(1, depth + 1))][:count]


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    return [
        quality_table(
            ask,
            points,
            name="quality",
            title="Quality with shuffled layers",
            labels=("encoder", "task", "arm", "order"),
        ),
        _recovered(ask, points),
        *_correlations(ask, points),
    ]


def _recovered(ask: Ask, points: Sequence[Measured]) -> Table:
    """Return the share of pretraining's gain over random layers that each order keeps, and all orders on average."""
    records: list[Mapping[str, Cell]] = []
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        task = ask.task(name)
        by_arm = {
            arm: {int(point["seed"]): quality_in_points(point, task) for point in of_arm if point.is_done}
            for (arm,), of_arm in group_points(group, ("arm",)).items()
        }
        full, new = by_arm.pop("full", {}), by_arm.pop("all new", {})
        informative = is_informative(task, [point for point in group if point["arm"] == "full"])
        shares = {arm: _shares(values, full, new) for arm, values in by_arm.items()}
        mean = average_by_seed([by_seed for by_seed in shares.values() if by_seed])
        for arm, by_seed in (*shares.items(), ("all orders", mean)):
            if by_seed:
                summary = summarise(list(by_seed.values()))
                records.append({"encoder": encoder, "task": name, "arm": arm, "seeds": summary.count,
                                "recovered": summary.mean, "low": summary.low, "high": summary.high,
                                "informative": informative})  # fmt: skip
    return table_of("recovered", "Share of pretraining's gain that shuffled layers keep", records, notes=[
        "mean gain over seeds divided by that of pretraining; missing if pretrained layers do not beat new ones",
    ])  # fmt: skip


def _shares(values: Mapping[int, float], full: Mapping[int, float], new: Mapping[int, float]) -> dict[int, float]:
    """Return each common seed's contribution to the share of the gain; empty if pretraining has no gain."""
    seeds = [seed for seed in values if seed in full and seed in new]
    kept, gains = ([side[seed] - new[seed] for seed in seeds] for side in (values, full))
    return dict(zip(seeds, shares_of_ratio(kept, gains), strict=True)) if sum(gains) > 0 else {}


def _correlations(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return whether the same orders are good on different tasks; no table with a single task."""
    shuffled = {point["arm"] for point in points if "order" in point.spec.surgery}
    means = {
        (encoder, task, arm): sum(quality_in_points(point, ask.task(task)) for point in group) / len(group)
        for (encoder, task, arm), group in group_done(points, ("encoder", "task", "arm")).items()
    }
    records: list[dict[str, Cell]] = []
    for encoder in dict.fromkeys(encoder for encoder, _, _ in means):
        tasks = dict.fromkeys(task for name, task, _ in means if name == encoder)
        for one, other in combinations(tasks, 2):
            arms = [arm for name, task, arm in means
                    if (name, task) == (encoder, one) and (name, other, arm) in means and arm in shuffled]  # fmt: skip
            columns = [[means[encoder, task, arm] for arm in arms] for task in (one, other)]
            for name, ranks in (("Pearson", False), ("Spearman", True)):
                value, p = correlate(*columns, ranks=ranks)
                records.append({"encoder": encoder, "task": one, "other": other, "correlation": name,
                                "value": value, "p": p, "orders": len(arms)})  # fmt: skip
    table = table_of(
        "correlations",
        "Agreement between tasks on good orders",
        add_holm(records, ("encoder", "correlation")),
        notes=["p_holm: corrected for the pairs of tasks of one encoder"],
    )
    return [table] if table.rows else []


def _figures(results: Results) -> list[Figure]:
    measured = [row for row in _numbered(results.rows("quality")) if row["mean"] is not None]
    gains = {
        case: means["full"] - means["all new"]
        for case, group in group_rows(informative_rows(measured), "encoder", "task")
        if _ENDS.keys() <= (means := {row["arm"]: row["mean"] for row in group}).keys()
    }
    # A share of a gain is defined only if there is a gain.
    recovered = [row for row in results.rows("recovered")
                 if gains.get((row["encoder"], row["task"]), 0) > 0 and row["arm"] != "all orders"]  # fmt: skip
    return [_orders(measured, recovered), _agreement(measured, results.rows("correlations")), _kept(recovered)]


def _orders(measured: Sequence[Row], recovered: Sequence[Row]) -> Figure:
    """Return the quality of every order, between the two ends."""
    cases = pick_columns(measured, "number", "encoder", "task", "arm", "order", "seeds", "mean", "low", "high",
                         "minus_full", case="case")  # fmt: skip
    shuffled = [row for row in cases if row["arm"] not in _ENDS]
    drawn, cut = clip_intervals(shuffled, "mean", "low", "high", note=WHISKERS, panel="case", limits=POINTS)
    levels = [{"case": row["case"], "level": row["mean"], "name": _ENDS[row["arm"]]}
              for row in cases if row["arm"] in _ENDS]  # fmt: skip
    levels += [{"case": case, "level": sum(row["mean"] for row in group) / len(group), "name": "mean"}
               for (case,), group in group_rows(drawn, "case")]  # fmt: skip
    return Figure(
        name="orders",
        title=_title_of_orders(recovered),
        alt="Points of the quality with each order of the layers, with 95% intervals over seeds, their distribution, "
        "and lines for their mean, for the usual order and for all new layers",
        spec=strip(drawn, "number", "mean", x_title="order, numbered alike for all tasks", y_title="quality in points",
                   interval=("shown_low", "shown_high"), panel="case", density=True, levels=levels),
        rows=tuple(drawn),
        paper="Tamkin et al. 2020, figure 4",
        notes=(*cut, *note_left_out(measured)),
    )  # fmt: skip


def _numbered(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows with the number of their order among those of the encoder, from 1; None without an order."""
    shuffled = {
        encoder: list(dict.fromkeys(row["arm"] for row in group if row["order"]))
        for (encoder,), group in group_rows(rows, "encoder")
    }
    return [{**row, "number": shuffled[row["encoder"]].index(row["arm"]) + 1 if row["order"] else None} for row in rows]


def _title_of_orders(recovered: Sequence[Row]) -> str:
    """Return the share of the gain that shuffled layers keep, on average over the orders."""
    shares = [
        100 * sum(row["recovered"] for row in group) / len(group)
        for _, group in group_rows(recovered, "encoder", "task")
    ]
    if not shares:
        return "Quality with shuffled layers"
    return f"Shuffled layers keep {format_range(shares)}% of pretraining's gain, on average over the orders"


def _agreement(measured: Sequence[Row], correlations: Sequence[Row]) -> Figure:
    """Return the quality of every order on one task against another."""
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
    return Figure(
        name="agreement",
        title=_title_of_agreement(correlations),
        alt="Points of the quality of each order of the layers on one task and on another, with the least-squares line",
        spec=with_own_axes(scatter(drawn, "mean", "mean_of_other", x_title=f"quality on {names[0]}, in points",
                                   y_title=f"quality on {names[1]}, in points", label="number", panel="pair",
                                   trend=True)),
        rows=tuple(drawn),
        notes=("numbers identify orders; Tamkin et al. 2020 report these correlations in section 5",),
    )  # fmt: skip


def _title_of_agreement(correlations: Sequence[Row]) -> str:
    """Return whether tasks are shown to agree on good orders."""
    defined = [row for row in correlations if row.get("correlation") == "Spearman" and row["value"] is not None]
    if not defined:
        return "Quality of each order on one task and on another"
    shown = sum(row["p_holm"] is not None and row["p_holm"] < LEVEL and row["value"] > 0 for row in defined)
    values = format_range([row["value"] for row in defined], digits=2)
    if len(defined) == 1:
        (row,), verb = defined, "agree" if shown else "are not shown to agree"
        return f"{row['task']} and {row['other']} {verb} on good orders: rank correlation {values}"
    return f"{shown} of {len(defined)} pairs of tasks are shown to agree on good orders: rank correlation {values}"


def _kept(recovered: Sequence[Row]) -> Figure:
    shares = [row["recovered"] for row in recovered]
    by_case = [(case, [row["recovered"] for row in group]) for case, group in group_rows(recovered, "encoder", "task")]
    drawn = [{"encoder": encoder, "task": task, "orders": len(values), "mean": sum(values) / len(values),
              "worst": min(values), "best": max(values)} for (encoder, task), values in by_case]  # fmt: skip
    return Figure(
        name="recovered",
        title=f"{sum(share < 1 / 2 for share in shares)} of {len(shares)} shuffles keep less than half of "
        "pretraining's gain",
        alt="Bars of the mean share of pretraining's gain that shuffled layers keep, for every encoder and task, with "
        "lines from the worst to the best order",
        spec=bars(drawn, "task", "mean", x_title="task", y_title="share of pretraining's gain",
                  interval=("worst", "best"), panel="encoder"),
        rows=tuple(drawn),
        notes=("0: as good as new layers; 1: as good as the usual order; tasks without a gain are left out",
               "lines: from the worst to the best order"),
    )  # fmt: skip


@study(
    paper="Tamkin et al. 2020",
    reproduces=[
        Counterpart(
            item="figure 4 and table 1",
            arguments="--encoder google-bert/bert-base-uncased --protocol paper",
            tables=("quality", "correlations"),
            figures=("orders", "agreement"),
            differs="The paper does not state how often the two baselines were trained.",
        )
    ],
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
    """Are pretrained layers still useful in another order?

    The layers are shuffled, in the same ways for every task, and everything is tuned with a mean-pooled linear head.
    The intact encoder and one whose layers all start from random weights are tuned for comparison.

    Options: `orders`, number of orders, or all if there are fewer; `size`, maximum number of training rows, the paper's
    by default, 0 for all; `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders
    get a proportionally higher rate); `keep_norms` and `as_released`, how random weights are drawn, as in the study
    reinitialise.
    """
    check_at_least(1, "permute", orders=orders)
    check_at_least(0, "permute", size=size)
    rows = min((count for count in (size, ask.rows) if count), default=None)
    drawn = {name: True for name, asked in (("keep_norms", keep_norms), ("as_released", as_released)) if asked}
    for encoder, task in ask.pairs():
        depth = encoder.depth
        arms: list[tuple[str, str, Mapping[str, object]]] = [
            ("full", "", {}),
            ("all new", "", {"reinitialise": list(range(1, depth + 1)), **drawn}),
            *((f"order {number}", " ".join(map(str, order)), {"order": order})
              for number, order in enumerate(permutations(depth, orders), start=1)),
        ]  # fmt: skip
        for arm, shown, surgery in arms:
            for seed in range(ask.seeds):
                yield ask.point(
                    encoder, task, Plan.full(depth), arm=arm, seed=seed, rows=rows, surgery=surgery,
                    learning_rate=ask.rate_for(encoder, rate), labels={"order": shown},
                )  # fmt: skip
