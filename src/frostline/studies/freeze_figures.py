"""What is drawn of frozen layers, paper 5."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.charts import Figure, Results, Row, by
from frostline.charts.draw import lines
from frostline.charts.words import POINTS, cut_intervals, set_aside, telling

KEEPS = 0.9  # of full tuning's quality: the paper's operating point


def _is_set_aside(task: str) -> bool:
    """CoLA, of which no depth keeps 90%: the paper leaves it out of its operating point."""
    return task in ("cola", "glue/cola")


def figures(results: Results) -> list[Figure]:
    """Shares with the operating point, and quality itself."""
    shares = results.rows("share")
    wanted = ("encoder", "task", "frozen", "seeds", "mean", "low", "high", "minus_full")
    whole = [{key: row[key] for key in wanted} for row in results.rows("quality") if row["mean"] is not None]
    drawn, cut = cut_intervals(whole, "mean", "low", "high", panel="encoder", limits=POINTS)
    levels = [{"level": KEEPS, "name": "90%", "encoder": encoder} for (encoder,), _ in by(shares, "encoder")]
    return [
        Figure(
            name="share",
            title=_found(shares),
            alt="Curves of the share of full tuning's quality over the number of frozen layers, with a line at 90%",
            spec=lines(shares, "frozen", "share_of_full", x_title="frozen layers", y_title="share of full tuning",
                       colour="task", panel="encoder", levels=levels),
            rows=tuple(shares),
            paper="paper 5, figure 1",
            notes=("the title counts the tasks that full tuning learns, without CoLA, as in the paper",
                   *set_aside(shares)),
        ),
        Figure(
            name="quality",
            title="Quality by the number of frozen layers",
            alt="Curves of quality over the number of frozen layers for each task, with 95% intervals over seeds",
            spec=lines(drawn, "frozen", "mean", x_title="frozen layers", y_title="quality in points", colour="task",
                       interval=("shown_low", "shown_high"), panel="encoder"),
            rows=tuple(drawn),
            notes=cut,
        ),
    ]  # fmt: skip


def _found(shares: Sequence[Row]) -> str:
    """How many layers may stay frozen, for every encoder."""
    said = []
    for (encoder,), rows in by(shares, "encoder"):
        most = most_frozen(rows, ("share_of_full",))
        if most is not None:
            said.append(f"{encoder} keeps {KEEPS:.0%} of its quality with {most} of {rows[0]['layers']} layers frozen")
    return "; ".join(said) or "Share of full tuning's quality by the number of frozen layers"


def most_frozen(shares: Sequence[Row], columns: Sequence[str]) -> int | None:
    """The most frozen layers with which all of these columns reach 90% on every task that counts; None if none does.

    A task without a ratio keeps nothing that could be shown; one that full tuning does not learn tells nothing.
    """
    counted = [row for row in telling(shares) if not _is_set_aside(str(row["task"]))]
    names = {row["task"] for row in counted}
    if not names or all(row[column] is None for row in counted for column in columns):
        return None
    most = 0
    for (frozen,), group in by(counted, "frozen"):
        reached = all(row[column] is not None and row[column] >= KEEPS for row in group for column in columns)
        if {row["task"] for row in group} == names and reached:
            most = max(most, int(frozen))
    return most
