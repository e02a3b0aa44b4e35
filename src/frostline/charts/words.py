"""Phrases for titles and notes of figures, and the part of an interval that is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from frostline.charts import Row, group_rows

POINTS = (-100.0, 100.0)  # the range of shares and correlations in points

_CUT = "; intervals much wider than the range of the values are cut off in the drawing and complete in the tables"
NO_LAYER_0 = "layer 0, the embeddings, is only in the table"
LEVEL = 0.05  # p-values below it count as shown
BANDS, WHISKERS = "bands: 95% intervals over seeds", "whiskers: 95% intervals over seeds"


def format_range(values: Sequence[float], *, digits: int = 0) -> str:
    """Return the lowest and the highest value, such as '3 to 5'; one number if both are written alike."""
    return " to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values))))


def informative_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that titles may count: tasks that full tuning is shown to learn."""
    return [row for row in rows if row.get("informative") is not False]


def note_left_out(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return a note on the cases that titles do not count, if there are any."""
    names = dict.fromkeys(f"{row['encoder']} on {row['task']}" for row in rows if row.get("informative") is False)
    return (f"not counted in the title, because not shown to beat a constant answer: {', '.join(names)}",) * bool(names)


def clip_intervals(
    rows: Sequence[Row],
    y: str,
    low: str,
    high: str,
    *,
    note: str,
    panel: str = "panel",
    limits: tuple[float, float] | None = None,
    from_zero: bool = False,
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the rows with the part of their intervals that is drawn, and the note on these intervals.

    Two seeds give intervals a dozen times as wide as the range of the values: drawn in full, they would hide the rest.
    The drawn ends are `shown_low` and `shown_high`; `cut` names the ends that were cut off.

    Args:
        rows: the data of the figure.
        y: column of the value.
        low: column of the interval's lower end.
        high: column of the interval's upper end.
        note: description of the intervals.
        panel: column that splits the figure into panels.
        limits: lowest and highest possible value.
        from_zero: whether the values are differences; an interval that crosses 0 is then drawn across 0.
    """
    least, most = limits or (-inf, inf)
    if any(not least <= row[y] <= most for row in rows):  # a metric in other units
        least, most = -inf, inf
    clipped: list[dict[str, Any]] = []
    for _, group in group_rows(rows, panel):
        values = [*(row[y] for row in group), *[0.0] * from_zero]
        bottom, top = min(values), max(values)
        reach = (top - bottom) or abs(top) / 4 or 1.0
        for row in group:
            ends: dict[str, Any] = {"shown_low": None, "shown_high": None, "cut": None}
            if row.get(low) is not None and row.get(high) is not None:
                first, last = max(row[low], least), min(row[high], most)
                ends = {"shown_low": max(first, bottom - reach), "shown_high": min(last, top + reach)}
                cut = [name for name, end in (("low", first), ("high", last)) if ends[f"shown_{name}"] != end]
                ends["cut"] = " ".join(cut) or None
            clipped.append({**row, **ends})
    drawn = [row for row in clipped if row["shown_low"] is not None]
    is_cut = any(row["shown_low"] != row[low] or row["shown_high"] != row[high] for row in drawn)
    return clipped, (note + _CUT * is_cut,) * bool(drawn)
