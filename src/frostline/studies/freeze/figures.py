"""What is drawn of frozen layers, paper 5."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from frostline.charts import Figure, Results, Row, group_rows
from frostline.charts.draw import lines
from frostline.charts.words import BANDS, POINTS, clip_intervals, format_range, informative_rows, note_left_out

KEEPS = 0.9  # of full tuning's quality: the paper's operating point


def figures(results: Results) -> list[Figure]:
    """Points above or below full tuning, shares with the operating point, and quality itself."""
    known = [row for row in results.rows("quality") if row["mean"] is not None]
    return [_relative(known), _shares(results.rows("share"), _set_aside_by_paper(results)), _quality(known)]


def _relative(known: Sequence[Row]) -> Figure:
    wanted = ("encoder", "task", "frozen", "seeds", "mean", "minus_full", "rows_low", "rows_high")
    itself = {"minus_full": 0.0, "rows_low": 0.0, "rows_high": 0.0}  # full tuning against itself
    drawn = [{key: row.get(key) for key in wanted} | (itself if row["frozen"] == 0 else {}) for row in known]
    drawn = [row for row in drawn if row["minus_full"] is not None]
    return Figure(
        name="relative",
        title=_lost(known),
        alt="Curves of the points above or below full tuning over the number of frozen layers for each task, with 95% "
        "intervals over test rows",
        spec=lines(drawn, "frozen", "minus_full", x_title="frozen layers", y_title="points minus full tuning",
                   colour="task", interval=("rows_low", "rows_high"), panel="encoder"),
        rows=tuple(drawn),
        paper="paper 5, figure 1",
        notes=("bands: 95% bootstrap over test rows", *note_left_out(known)),
    )  # fmt: skip


def _lost(known: Sequence[Row]) -> str:
    """What freezing half of the layers costs, as far as tasks tell."""
    halves = [min((row for row in group if row["frozen"]), key=lambda row: int(row["frozen"]), default=None)
              for _, group in group_rows(informative_rows(known), "encoder", "task")]  # fmt: skip
    gaps = [row["minus_full"] for row in halves if row is not None and row["minus_full"] is not None]
    if not gaps:
        return "Points above or below full tuning by the number of frozen layers"
    if max(gaps) < 0:
        return (
            f"Freezing half of the layers costs {format_range([-gap for gap in gaps], digits=1)} points, by the means"
        )
    return f"Freezing half of the layers changes quality by {format_range(gaps, digits=1)} points, by the means"


def _set_aside_by_paper(results: Results) -> Collection[str]:
    """The tasks that do not count for the operating point; tables that do not say it are from before presets did."""
    found = results.setting("share", "set_aside")
    return ("cola", "glue/cola") if found is None else found


def _shares(shares: Sequence[Row], aside: Collection[str]) -> Figure:
    most = {
        encoder: most_frozen(rows, ("share_of_full",), aside=aside)
        for (encoder,), rows in group_rows(shares, "encoder")
    }
    drawn = [{**row, "operating_point": row["frozen"] == most[row["encoder"]]} for row in shares]
    levels = [{"level": KEEPS, "name": "90%", "encoder": encoder} for encoder in most]
    has_cola = any(row["task"] in aside for row in shares)
    return Figure(
        name="share",
        title=_found(shares, aside),
        alt="Curves of the share of full tuning's quality over the number of frozen layers, with a line at 90% and "
        "large points at the operating point",
        spec=lines(drawn, "frozen", "share_of_full", x_title="frozen layers", y_title="share of full tuning",
                   colour="task", panel="encoder", marked="operating_point", levels=levels),
        rows=tuple(drawn),
        paper="paper 5, figure 1",
        notes=("large points: the operating point, the most frozen layers with which every task keeps 90% by its mean; "
               "the table says what the intervals show",
               *(("the title leaves out CoLA, as the paper does",) if has_cola else ()), *note_left_out(shares)),
    )  # fmt: skip


def _quality(known: Sequence[Row]) -> Figure:
    wanted = ("encoder", "task", "frozen", "seeds", "mean", "low", "high", "minus_full")
    whole = [{key: row[key] for key in wanted} for row in known]
    drawn, cut = clip_intervals(whole, "mean", "low", "high", note=BANDS, panel="encoder", limits=POINTS)
    return Figure(
        name="quality",
        title="Quality by the number of frozen layers",
        alt="Curves of quality over the number of frozen layers for each task, with 95% intervals over seeds",
        spec=lines(drawn, "frozen", "mean", x_title="frozen layers", y_title="quality in points", colour="task",
                   interval=("shown_low", "shown_high"), panel="encoder"),
        rows=tuple(drawn),
        notes=cut,
    )  # fmt: skip


def _found(shares: Sequence[Row], aside: Collection[str]) -> str:
    """How many layers may stay frozen, for every encoder."""
    said = []
    for (encoder,), rows in group_rows(shares, "encoder"):
        most = most_frozen(rows, ("share_of_full",), aside=aside)
        if most == 0:
            said.append(f"{encoder} keeps {KEEPS:.0%} of its quality with none of these numbers of layers frozen")
        elif most is not None:
            depth, tried = max(row["frozen"] for row in rows), len({row["frozen"] for row in rows})
            said.append(
                f"{encoder} keeps {KEEPS:.0%} of its quality, by the means, with {most} of {depth} layers frozen, the "
                f"most of {tried} depths that were tried"
            )
    return "; ".join(said) or "Share of full tuning's quality by the number of frozen layers"


def most_frozen(shares: Sequence[Row], columns: Sequence[str], *, aside: Collection[str]) -> int | None:
    """The most frozen layers with which all of these columns reach 90% on every task that counts; None if none does.

    A task without a ratio keeps nothing that could be shown; one that full tuning does not learn tells nothing.

    Args:
        shares: rows of the table.
        columns: that have to reach it.
        aside: names of tasks that do not count.
    """
    counted = [row for row in informative_rows(shares) if row["task"] not in aside]
    names = {row["task"] for row in counted}
    if not names or all(row[column] is None for row in counted for column in columns):
        return None
    most = 0
    for (frozen,), group in group_rows(counted, "frozen"):
        reached = all(row[column] is not None and row[column] >= KEEPS for row in group for column in columns)
        if {row["task"] for row in group} == names and reached:
            most = max(most, int(frozen))
    return most
