"""Figures of shuffled layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

_ENDS = {"full": "usual order", "all new": "all new"}  # the two ends that shuffled orders lie between
_BANDS = (
    "bands: 95% interval of the mean over orders; around the two baselines, twice the standard deviation over trials"
)


def figures(results: Results) -> list[Figure]:
    measured = [row for row in _numbered(results.rows("quality")) if row["mean"] is not None]
    gains = {
        case: means["full"] - means["all new"]
        for case, group in group_rows(informative_rows(measured), "encoder", "task")
        if _ENDS.keys() <= (means := {row["arm"]: row["mean"] for row in group}).keys()
    }
    # A share of a gain is defined only if there is a gain.
    recovered = [row for row in results.rows("recovered")
                 if gains.get((row["encoder"], row["task"]), 0) > 0 and row["arm"] != "all orders"]  # fmt: skip
    return [
        _orders(measured, recovered, results.rows("orders")),
        _agreement(measured, results.rows("correlations")),
        _kept(recovered),
    ]


def _orders(measured: Sequence[Row], recovered: Sequence[Row], summary: Sequence[Row]) -> Figure:
    """Return the quality of every order, between the two ends."""
    cases = pick_columns(measured, "number", "encoder", "task", "arm", "order", "seeds", "mean", "low", "high",
                         "minus_full", case="case")  # fmt: skip
    shuffled = [row for row in cases if row["arm"] not in _ENDS]
    drawn, cut = clip_intervals(shuffled, "mean", "low", "high", note=WHISKERS, panel="case", limits=POINTS)
    levels = _levels(cases, summary)
    return Figure(
        name="orders",
        title=_title_of_orders(recovered),
        alt="Points of the quality with each order of the layers, with 95% intervals over seeds, their distribution, "
        "and lines for their mean, for the usual order and for all new layers",
        spec=strip(drawn, "number", "mean", x_title="order, numbered alike for all tasks", y_title="quality in points",
                   interval=("shown_low", "shown_high"), panel="case", density=True, levels=levels),
        rows=tuple(drawn),
        paper="Tamkin et al. 2020, figure 4",
        notes=(*([_BANDS] if any("below" in level for level in levels) else []), *cut, *note_left_out(measured)),
    )  # fmt: skip


def _levels(cases: Sequence[Row], summary: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the mean over orders and the two ends, with bands where the table of orders has them."""
    bands = {(row["encoder"], row["task"], row["arm"]): row for row in summary}
    levels = []
    for (case, encoder, task), group in group_rows(cases, "case", "encoder", "task"):
        means = {_ENDS[row["arm"]]: (row["mean"], row["arm"]) for row in group if row["arm"] in _ENDS}
        values = [row["mean"] for row in group if row["arm"] not in _ENDS]
        if values:
            means["mean"] = (sum(values) / len(values), "all orders")
        for name, (level, arm) in means.items():
            row = bands.get((encoder, task, arm), {})
            below, above = ("low", "high") if arm == "all orders" else ("below", "above")
            band = {"below": row[below], "above": row[above]} if row.get(below) is not None else {}
            levels.append({"case": case, "level": level, "name": name, **band})
    return levels


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
        {"pair": f"{task} (across) and {other} (up){f', {encoder}' if many else ''}", "number": row["number"],
         "order": row["order"], "mean": row["mean"], "mean_of_other": means[encoder, other, row["arm"]]["mean"]}
        for encoder, task, other in pairs
        for row in measured
        if (row["encoder"], row["task"]) == (encoder, task) and row["arm"] not in _ENDS
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
