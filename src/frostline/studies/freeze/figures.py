"""Figures of frozen layers, as in Lee et al. 2019."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from frostline.charts import Figure, Results, Row, group_rows, pick_columns
from frostline.charts.draw import lines
from frostline.charts.words import BANDS, POINTS, clip_intervals, format_range, informative_rows, note_left_out

KEEPS = 0.9  # share of full tuning's quality at the paper's operating point


def figures(results: Results) -> list[Figure]:
    """Return the difference from full tuning, the shares with the operating point, and quality itself."""
    defined = [row for row in results.rows("quality") if row["mean"] is not None]
    aside = results.setting("share", "set_aside")
    # Tables without the setting are older than presets.
    shares = _shares(results.rows("share"), ("cola", "glue/cola") if aside is None else aside)
    return [_relative(defined), shares, _quality(defined)]


def _relative(defined: Sequence[Row]) -> Figure:
    itself = {"minus_full": 0.0, "rows_low": 0.0, "rows_high": 0.0}  # full tuning against itself
    rows = [{**row, **itself} if row["frozen"] == 0 else row for row in defined]
    compared = [row for row in rows if row.get("minus_full") is not None]
    drawn = pick_columns(compared, "encoder", "task", "frozen", "seeds", "mean", "minus_full", "rows_low",
                         "rows_high")  # fmt: skip
    return Figure(
        name="relative",
        title=_title_of_half(defined),
        alt="Curves of the difference from full tuning in points over the number of frozen layers for each task, with "
        "95% intervals over test rows",
        spec=lines(drawn, "frozen", "minus_full", x_title="frozen layers", y_title="points minus full tuning",
                   colour="task", interval=("rows_low", "rows_high"), panel="encoder"),
        rows=tuple(drawn),
        paper="Lee et al. 2019, figure 1",
        notes=("bands: 95% bootstrap over test rows", *note_left_out(defined)),
    )  # fmt: skip


def _title_of_half(defined: Sequence[Row]) -> str:
    """Return how much freezing half of the layers costs on informative tasks."""
    frozen = group_rows([row for row in informative_rows(defined) if row["frozen"]], "encoder", "task")
    halves = [min(group, key=lambda row: int(row["frozen"])) for _, group in frozen]
    gaps = [row["minus_full"] for row in halves if row["minus_full"] is not None]
    if not gaps:
        return "Difference from full tuning by the number of frozen layers"
    if max(gaps) < 0:
        return f"Freezing half of the layers costs {format_range([-gap for gap in gaps], digits=1)} points on average"
    return f"Freezing half of the layers changes quality by {format_range(gaps, digits=1)} points on average"


def _shares(shares: Sequence[Row], aside: Collection[str]) -> Figure:
    groups = dict(group_rows(shares, "encoder"))
    most = {encoder: most_frozen(rows, ("share_of_full",), aside=aside) for (encoder,), rows in groups.items()}
    drawn = [{**row, "operating_point": row["frozen"] == most[row["encoder"]]} for row in shares]
    levels = [{"level": KEEPS, "name": "90%", "encoder": encoder} for encoder in most]
    has_cola = any(row["task"] in aside for row in shares)
    return Figure(
        name="share",
        title="; ".join(
            f"{encoder} keeps {KEEPS:.0%} of its quality at none of the depths that were tried" if most[encoder] == 0
            else f"{encoder} keeps {KEEPS:.0%} of its quality on average with {most[encoder]} of "
            f"{max(row['frozen'] for row in rows)} layers frozen, the most of {len({row['frozen'] for row in rows})} "
            "depths that were tried"
            for (encoder,), rows in groups.items() if most[encoder] is not None
        ) or "Share of full tuning's quality by the number of frozen layers",
        alt="Curves of the share of full tuning's quality over the number of frozen layers, with a line at 90% and "
        "large points at the operating point",
        spec=lines(drawn, "frozen", "share_of_full", x_title="frozen layers", y_title="share of full tuning",
                   colour="task", panel="encoder", marked="operating_point", levels=levels),
        rows=tuple(drawn),
        paper="Lee et al. 2019, figure 1",
        notes=("large points: the operating point, the largest number of frozen layers at which every task keeps 90% "
               "by its mean; a note of the table reports what the intervals show",
               *(("the title leaves out CoLA, as the paper does",) if has_cola else ()), *note_left_out(shares)),
    )  # fmt: skip


def _quality(defined: Sequence[Row]) -> Figure:
    rows = pick_columns(defined, "encoder", "task", "frozen", "seeds", "mean", "low", "high", "minus_full")
    drawn, notes = clip_intervals(rows, "mean", "low", "high", note=BANDS, panel="encoder", limits=POINTS)
    return Figure(
        name="quality",
        title="Quality by the number of frozen layers",
        alt="Curves of quality over the number of frozen layers for each task, with 95% intervals over seeds",
        spec=lines(drawn, "frozen", "mean", x_title="frozen layers", y_title="quality in points", colour="task",
                   interval=("shown_low", "shown_high"), panel="encoder"),
        rows=tuple(drawn),
        notes=notes,
    )  # fmt: skip


def most_frozen(shares: Sequence[Row], columns: Sequence[str], *, aside: Collection[str]) -> int | None:
    """Return the most frozen layers at which all columns reach 90% on every task that counts; None if undefined.

    A task without a ratio cannot be shown to keep its quality; a task that full tuning does not learn does not count.

    Args:
        shares: rows of the table.
        columns: columns that have to reach 90%.
        aside: names of tasks that do not count.
    """
    counted = [row for row in informative_rows(shares) if row["task"] not in aside]
    names = {row["task"] for row in counted}
    if not names or all(row[column] is None for row in counted for column in columns):
        return None
    return max((
        int(frozen) for (frozen,), group in group_rows(counted, "frozen")
        if {row["task"] for row in group} == names
        and all(row[column] is not None and row[column] >= KEEPS for row in group for column in columns)
    ), default=0)  # fmt: skip
