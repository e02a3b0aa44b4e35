"""Figures of the Fisher ranking of layers: over epochs, against the first one, and by rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import bars, heatmap, side_by_side, trajectories
from frostline.charts.theme import GREY, ORANGE, RED
from frostline.charts.words import format_range
from frostline.records.layer_ranges import format_ranges

_TAUS = (-1.0, 1.0)
_TAU = "Kendall's tau: 1 for the same order, 0 for unrelated orders, -1 for the reverse order"
_SHARES = {"share_head": ("head", RED), "share_rows": ("rows", ORANGE), "share_rest": ("both together", GREY)}


def figures(results: Results) -> list[Figure]:
    """Return all figures of the study."""
    ranks = _with_panels([row for row in results.rows("ranks") if row.get("rank") is not None])
    stability, rows = results.rows("stability"), results.rows("rows")
    return [_over_epochs(ranks, stability), _deviations(ranks), _agreement(stability), _by_rows(rows), _causes(rows)]


def _with_panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{"panel": name_case(row, rows, "encoder", "task"), **row} for row in rows]


def _over_epochs(ranks: Sequence[Row], stability: Sequence[Row]) -> Figure:
    return Figure(
        name="ranks",
        title=_title_of_ranks(stability) or "The Fisher rank of every layer during fine-tuning",
        alt="Lines of the rank of every layer over epochs of fine-tuning, rank 1 at the top",
        spec=trajectories(ranks, "epoch", "rank", "layer", x_title="epoch", rank_title="rank", panel="panel"),
        rows=tuple(ranks),
        paper="Lodha et al. 2023, figures 2 and 3",
        notes=("rank 1 has the most Fisher information; numbers at the right end are layers",
               "ranks are means over runs: opposite moves cancel"),
    )  # fmt: skip


def _title_of_ranks(stability: Sequence[Row]) -> str:
    """Return how similar the ranking at the last epoch is to that at the first."""
    last = [max(group, key=lambda row: row["epoch"]) for _, group in group_rows(stability, "encoder", "task")]
    taus = [row["tau"] for row in last if row.get("tau") is not None and row["epoch"]]
    if not taus:
        return ""
    if min(taus) >= 1:
        return "The ranking of layers stays the same during fine-tuning"
    return f"The rankings at the end and at the start have a Kendall's tau of {format_range(taus, digits=2)}"


def _with_whiskers(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows that have a tau, with its interval clipped to -1..1."""
    return [
        {**row, **{f"shown_{end}": None if row[f"tau_{end}"] is None else max(-1.0, min(1.0, row[f"tau_{end}"]))
                   for end in ("low", "high")}}
        for row in rows if row.get("tau") is not None
    ]  # fmt: skip


def _deviations(ranks: Sequence[Row]) -> Figure:
    drawn = [row for row in ranks if row["changed"] is not None]
    most = max(drawn, key=lambda row: row["changed"], default=None)
    title = "No layer leaves the rank that it has at the first epoch"
    if most and most["changed"]:
        where = f", {most['panel']}" if most["panel"] else ""
        equals = sorted(row["layer"] for row in drawn
                        if all(row[key] == most[key] for key in ("changed", "epoch", "panel")))  # fmt: skip
        which = f"Layer {equals[0]} moves" if len(equals) == 1 else f"Layers {format_ranges(equals)} move"
        title = f"{which} the most: {most['changed']:.1f} ranks by epoch {most['epoch']}{where}"
    return Figure(
        name="deviations",
        title=title,
        alt="Squares for every layer and epoch, coloured by the distance from the layer's rank at the start",
        spec=heatmap(drawn, "epoch", "layer", "changed", x_title="epoch", y_title="layer", value_title="ranks moved",
                     panel="panel", domain=(0, max(1.0, most["changed"] if most else 1.0)), columns=4),
        rows=tuple(drawn),
        paper="Lodha et al. 2023, figures 4 and 5",
        notes=("mean over runs of the absolute difference from the rank at the first epoch",),
    )  # fmt: skip


def _agreement(stability: Sequence[Row]) -> Figure:
    drawn = _with_whiskers(stability)
    return Figure(
        name="stability",
        title=_title_of_stability(drawn),
        alt="Points of Kendall's rank correlation with the first epoch over epochs, with 95% intervals over runs",
        spec=side_by_side(drawn, "epoch", "tau", x_title="epoch", y_title="Kendall's tau with the first epoch",
                   colour="task", interval=("shown_low", "shown_high"), panel="encoder", domain=_TAUS),
        rows=tuple(drawn),
        notes=(_TAU, "whiskers: 95% intervals over runs"),
    )  # fmt: skip


def _title_of_stability(rows: Sequence[Row]) -> str:
    """Return when the ranking is least like that of the first epoch."""
    later = [row for row in rows if row["epoch"]]
    if not later:
        return "Agreement of rankings with the first one"
    least = min(later, key=lambda row: row["tau"])
    if least["tau"] >= 1:
        return "Every ranking is the same as the first"
    name = name_case(least, rows, "encoder", "task")
    where = f", {name}" if name else ""
    return f"The ranking is least like the first at epoch {least['epoch']}: tau {least['tau']:.2f}{where}"


def _by_rows(rows: Sequence[Row]) -> Figure:
    drawn = _with_whiskers(rows)
    fewest = min((row["rows"] for row in drawn), default=0)
    taus = [row["tau"] for row in drawn if row["rows"] == fewest]
    agreement = (
        "are the same" if not taus or min(taus) >= 1 else f"have a Kendall's tau of {format_range(taus, digits=2)}"
    )
    return Figure(
        name="rows",
        title=f"The rankings with {fewest} rows and with the most rows {agreement}",
        alt="Points of Kendall's rank correlation with the ranking from the most rows over the number of rows, with "
        "95% intervals over heads",
        spec=side_by_side(drawn, "rows", "tau", x_title="rows", y_title="Kendall's tau with the most rows",
                   colour="task", interval=("shown_low", "shown_high"), panel="encoder", domain=_TAUS),
        rows=tuple(drawn),
        notes=("before training, with the same head", _TAU, "whiskers: 95% intervals over heads"),
    )  # fmt: skip


def _causes(rows: Sequence[Row]) -> Figure:
    """Return the sources of the variance of ranks before training."""
    drawn = [
        {"panel": row["panel"], "encoder": row["encoder"], "task": row["task"], "rows": f"{row['rows']} rows",
         "cause": cause, "share": row[column]}
        for row in _with_panels(rows) for column, (cause, _) in _SHARES.items() if row.get(column) is not None
    ]  # fmt: skip
    cases = [{row["cause"]: row["share"] for row in group} for _, group in group_rows(drawn, "panel", "rows")]
    head = sum(case.get("head", 0) > case.get("rows", 0) for case in cases)
    return Figure(
        name="causes",
        title=f"Ranks before training depend more on the fresh head than on the rows in {head} of {len(cases)} cases",
        alt="Bars of the shares of the variance of ranks that are due to the head, to the rows and to both together",
        spec=bars(drawn, "rows", "share", x_title="", y_title="share of the variance of ranks", colour="cause",
                  colours=dict(_SHARES.values()), panel="panel"),
        rows=tuple(drawn),
        notes=("if neither mattered, the head's share would be (heads - 1) / (heads x draws - 1) on average",),
    )  # fmt: skip
