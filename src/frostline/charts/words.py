"""What titles and notes of figures say, and how much of an interval is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frostline.charts import Row, group_rows

POINTS = (-100.0, 100.0)  # shares and correlations in points lie within

_CUT = "; those that reach far beyond the values are cut in the drawing, and the tables have them whole"
BANDS, WHISKERS = "bands: 95% intervals over seeds", "whiskers: 95% intervals over seeds"


def format_range(values: Sequence[float], *, digits: int = 0) -> str:
    """The lowest and the highest of them, such as '3 to 5'; one number where they are the same as it is written."""
    ends = [f"{value:.{digits}f}" for value in (min(values), max(values))]
    return " to ".join(dict.fromkeys(ends))


def format_ranges(layers: Sequence[int], *, last: str = "and") -> str:
    """Whole numbers with neighbours joined, such as '2 and 4 to 6'; `last` is the word before the last part."""
    parts: list[list[int]] = []
    for layer in layers:
        if parts and parts[-1][-1] == layer - 1:
            parts[-1].append(layer)
        else:
            parts.append([layer])
    said = [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} {last} {said[-1]}"


def informative_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows that titles may speak of: not those of tasks that the encoder is not shown to have learned."""
    return [row for row in rows if row.get("informative") is not False]


def note_left_out(rows: Sequence[Row]) -> tuple[str, ...]:
    """A note on what titles leave out."""
    names = dict.fromkeys(f"{row['encoder']} on {row['task']}" for row in rows if row.get("informative") is False)
    if not names:
        return ()
    return (f"not counted in the title, not shown to be better than a constant answer: {', '.join(names)}",)


def clip_intervals(
    rows: Sequence[Row],
    y: str,
    low: str,
    high: str,
    *,
    said: str,
    panel: str = "panel",
    limits: tuple[float, float] | None = None,
    from_zero: bool = False,
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The rows with as much of their intervals as can be drawn, and what has to be said of that.

    Two seeds give intervals a dozen times as wide as their values differ: drawn whole, nothing else would be seen.

    Args:
        rows: what is drawn.
        y: column of the value.
        low: column of the interval's lower end.
        high: column of its upper end; what is drawn is in `shown_low` and `shown_high`, and `cut` says what goes on.
        said: what the intervals are.
        panel: column whose values have a chart each.
        limits: values that cannot be passed.
        from_zero: whether these are differences: an interval that reaches to the other side of 0 is drawn as far.
    """
    least, most = limits or (float("-inf"), float("inf"))
    if any(not least <= row[y] <= most for row in rows):  # a metric of other units
        least, most = float("-inf"), float("inf")
    found: list[dict[str, Any]] = []
    for _, group in group_rows(rows, panel):
        values = [row[y] for row in group]
        bottom, top = min([*values, *([0.0] if from_zero else [])]), max([*values, *([0.0] if from_zero else [])])
        reach = (top - bottom) or abs(top) / 4 or 1.0
        for row in group:
            ends: dict[str, Any] = {"shown_low": None, "shown_high": None, "cut": None}
            if row.get(low) is not None and row.get(high) is not None:
                first, last = max(row[low], least), min(row[high], most)
                ends = {"shown_low": max(first, bottom - reach), "shown_high": min(last, top + reach)}
                cut = [name for name, end in (("low", first), ("high", last)) if ends[f"shown_{name}"] != end]
                ends["cut"] = " ".join(cut) or None
            found.append({**row, **ends})
    known = [row for row in found if row["shown_low"] is not None]
    is_cut = any(row["shown_low"] != row[low] or row["shown_high"] != row[high] for row in known)
    return found, (said + (_CUT if is_cut else ""),) if known else ()
