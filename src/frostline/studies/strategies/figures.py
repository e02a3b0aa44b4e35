"""Figures of plans around the best layer: by the number of tuned layers, against full tuning, and by cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case, pick_columns
from frostline.charts.draw import dots, scatter, side_by_side
from frostline.charts.theme import BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, VIOLET, YELLOW
from frostline.charts.words import WHISKERS, clip_intervals, informative_rows, note_left_out
from frostline.studies._arms import read_arm
from frostline.studies._comparisons import non_inferior_note
from frostline.studies._tables import mean_of_known

# Plans around the best layer have warm colours, baselines cold ones.
_COLOURS = {
    "best layer and below": RED, "best layer and below, cut": ORANGE, "above the best layer": PINK,
    "above the best layer, cut": YELLOW, "last layers": BLUE, "middle layers": SKY, "middle layers, cut": VIOLET,
    "random layers": GREY, "all layers": GREEN,
}  # fmt: skip
_KINDS = {"down": "best layer and below", "up": "above the best layer", "up to the middle": "above the best layer",
          "top": "last layers", "middle": "middle layers", "random": "random layers", "full": "all layers"}  # fmt: skip


def figures(results: Results) -> list[Figure]:
    """Return all figures of the study."""
    defined = [row for row in results.rows("quality") if row.get("mean") is not None]
    rows = pick_columns([_drawn(row, defined) for row in defined], "panel", "kind", "encoder", "task", "method", "arm",
                        "plans", "layers", "seeds", "mean", "low", "high", "minus_full", "rows_low", "rows_high",
                        "non_inferior", "informative")  # fmt: skip
    plans = [row for row in rows if row["kind"] != _KINDS["full"]]
    costs = _with_costs(rows, results.rows("costs"))
    return [_by_layers(rows, plans), _against_full(results, plans), *(_by_cost(costs, *how) for how in _COSTS)]


def _drawn(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    panel = name_case(row, rows, "encoder", "task")
    if len({other["method"] for other in rows}) > 1:
        panel = f"{panel}, {row['method']}".removeprefix(", ")
    return {"panel": panel, "kind": _kind(str(row["arm"])), **row}


def _kind(name: str) -> str:
    arm = read_arm(name)
    return f"{_KINDS[arm.kind]}{', cut' if arm.is_cut else ''}"


# Quality by the number of tuned layers -------------------------------------------------------------------------------


def _by_layers(rows: Sequence[Row], plans: Sequence[Row]) -> Figure:
    ordered = sorted((row for row in plans if row["layers"] is not None), key=_order)
    clipped, notes = clip_intervals(ordered, "mean", "low", "high", note=WHISKERS)
    best = {id(max(column, key=lambda row: row["mean"])) for _, column in group_rows(clipped, "panel", "layers")}
    drawn = [{**row, "best": _short_plan(row) if id(row) in best else None} for row in clipped]
    levels = [{"level": row["mean"], "name": "all", "panel": row["panel"]} for row in rows if row["arm"] == "full"]
    return Figure(
        name="layers",
        title=_title_of_wins(informative_rows(plans)) or "Quality of every plan by its number of tuned layers",
        alt="Points of quality over the number of tuned layers, plans around the best layer in warm colours and "
        "baselines in cold ones, with 95% intervals over seeds and a line at full fine-tuning",
        spec=side_by_side(drawn, "layers", "mean", x_title="tuned layers", y_title="quality in points", colour="kind",
                   colours=_COLOURS, interval=("shown_low", "shown_high"), panel="panel", label="best", levels=levels),
        rows=tuple(drawn),
        paper="Xie et al. 2022, figures 4, 5 and 10",
        notes=("the best plan of each number of layers is named; the next figure names all plans", *notes,
               *note_left_out(plans)),
    )  # fmt: skip


def _order(row: Row) -> int:
    return list(_COLOURS).index(row["kind"])


def _title_of_wins(plans: Sequence[Row]) -> str:
    """Return how often the best layer and those below it beat as many last layers."""
    outcomes = []
    for _, group in group_rows(plans, "panel"):
        last = {row["layers"]: row for row in group if row["kind"] == _KINDS["top"]}
        pairs = [(row, last[row["layers"]]) for row in group if row["kind"] == _KINDS["down"] and row["layers"] in last]
        outcomes += [row["mean"] > other["mean"] for row, other in pairs if row["plans"] != other["plans"]]
    if not outcomes:
        return ""
    return (f"Tuning down from the best layer has a higher mean than tuning as many last layers in {sum(outcomes)} of "
            f"{len(outcomes)} cases")  # fmt: skip


def _against_full(results: Results, plans: Sequence[Row]) -> Figure:
    """Return a line for every plan; in the paper, names are beside the points."""
    # Random plans differ between seeds.
    named = [
        {"plan": row["arm"] if ";" in str(row["plans"]) else f"{row['arm']} {row['plans']}", **row}
        for row in plans
        if row["minus_full"] is not None
    ]
    drawn = sorted(named, key=lambda row: (row["panel"], row["layers"] or 0, _order(row)))
    counted = informative_rows(drawn)
    kept = sum(row["non_inferior"] is True for row in counted)
    levels = [{"level": 0, "name": "all", "panel": panel} for (panel,), _ in group_rows(drawn, "panel")]
    margin = results.setting("quality", "margin")
    return Figure(
        name="plans",
        title=f"{kept} of {len(counted)} plans are shown to be as good as tuning all layers"
        if counted
        else "Difference from tuning all layers for every plan",
        alt="The difference from full fine-tuning in points for every plan, with 95% intervals over test rows",
        spec=dots(drawn, "plan", "minus_full", x_title="", y_title="points minus tuning all layers", colour="kind",
                  colours=_COLOURS, interval=("rows_low", "rows_high"), panel="panel", levels=levels),
        rows=tuple(drawn),
        paper="Xie et al. 2022, figures 4, 5 and 10",
        notes=("plans as (bottom, top, head), by the number of tuned layers; random plans differ between seeds",
               "whiskers: 95% bootstrap over test rows",
               *([] if margin is None else [non_inferior_note(margin)]),
               *note_left_out(plans)),
    )  # fmt: skip


def _short_plan(row: Row) -> str:
    """Return the plan in short, or the kind of arm if seeds have different plans."""
    plans = str(row["plans"])
    return read_arm(str(row["arm"])).kind if ";" in plans else plans.replace(" ", "").strip("()")


# Quality by cost -----------------------------------------------------------------------------------------------------

_COSTS = (
    ("trainable", "parameters", "trainable parameters", ()),
    ("epoch_flops", "arithmetic", "operations per epoch", ("epochs start from cached states of the frozen layers",)),
)


def _with_costs(rows: Sequence[Row], costs: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows with the costs of their plans, as means if seeds have different plans, such as random ones."""
    by_plan = {(row["encoder"], row["task"], row["plan"], row["method"]): row for row in costs}
    priced = []
    for row in rows:
        keys = [(row["encoder"], row["task"], plan, row["method"]) for plan in str(row["plans"]).split("; ")]
        means = {
            column: mean_of_known([by_plan[key][column] for key in keys if key in by_plan]) for column, *_ in _COSTS
        }
        priced += [{**row, **means}] if any(key in by_plan for key in keys) else []
    return priced


def _by_cost(rows: Sequence[Row], column: str, name: str, quantity: str, notes: Sequence[str]) -> Figure:
    size, unit = _unit([row[column] for row in rows if row[column]])
    priced = [{**row, column: row[column] / size} for row in rows if row[column]]
    drawn = [row for _, group in group_rows(priced, "panel") for row in _with_front(group, column)]
    return Figure(
        name=name,
        title=_title_of_savings(informative_rows(priced), column, quantity)
        or f"Quality of every plan by its {quantity}",
        alt=f"Points of quality over {quantity} for every plan; a dashed line joins plans that no cheaper one beats",
        spec=scatter(drawn, column, "mean", x_title=f"{quantity}{unit}", y_title="quality in points", colour="kind",
                     colours=_COLOURS, label="label", panel="panel", joined="front", log=True),
        rows=tuple(drawn),
        notes=("plans that no cheaper plan beats on the reported rows are named", *notes,
               *note_left_out(rows)),
    )  # fmt: skip


def _with_front(rows: Sequence[Row], column: str) -> Iterator[dict[str, Any]]:
    """Yield the rows, named if no plan as cheap beats them; only the first of equals, as names would overlap."""
    for index, row in enumerate(rows):
        others = [other for other in rows if other is not row and other[column] <= row[column]]
        front = all(other["mean"] < row["mean"] or _is_equal(other, row, column) for other in others)
        named = front and not any(_is_equal(other, row, column) for other in rows[:index])
        yield {**row, "front": front, "label": row["arm"] if named else ""}


def _is_equal(one: Row, other: Row, column: str) -> bool:
    return bool(one[column] == other[column] and one["mean"] == other["mean"])


def _unit(values: Sequence[float]) -> tuple[float, str]:
    """Return the divisor that makes numbers short on an axis, and its name."""
    least = min(values, default=1.0)
    units = {1e12: ", trillions", 1e9: ", billions", 1e6: ", millions", 1e3: ", thousands"}
    return next(((size, name) for size, name in units.items() if least >= size), (1.0, ""))


def _title_of_savings(rows: Sequence[Row], column: str, quantity: str) -> str:
    """Return the share of full tuning's cost that is shown to be enough, in the case that needs the most."""
    shares = []
    for _, group in group_rows(rows, "panel"):
        full = next((row for row in group if row["arm"] == "full"), None)
        if full is not None:
            kept = [row[column] for row in group if row["non_inferior"] is True or row is full]
            shares.append(min(kept) / full[column])
    if not shares:
        return ""
    few = sum(share < 1 for share in shares)
    if few < len(shares):
        return f"In {few} of {len(shares)} cases fewer {quantity} are shown to be as good as tuning all layers"
    return f"{max(shares):.0%} of the {quantity} are shown to be as good as tuning all layers"
