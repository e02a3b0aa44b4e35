"""Figures of variability with unequal classes, with few rows and in its variants."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case, pick_columns
from frostline.charts.draw import dots, lines, with_own_axes
from frostline.charts.theme import spread_colours
from frostline.charts.words import NO_LAYER_0, clip_intervals

IMBALANCE, SCARCITY = "imbalance", "scarcity"

_PLAIN, _COLLAPSE = "variability", "variability.collapse"
_FORMULAS = {_PLAIN: "as in the paper", _COLLAPSE: "neural collapse"}  # the first in alphabetical order is drawn solid
_STATES = {"mean": "mean of tokens", "first": "first token"}
# From many rows, or equal classes, to few rows.
_RAMP = ("#4a4ac8", "#7a3fc4", "#a62f9e", "#cc4778", "#e56b5d", "#f0904a", "#f5b332")
_ZETA = "smoothness zeta"
_PAPER = {IMBALANCE: "Xie et al. 2022, figures 6 and 15", SCARCITY: "Xie et al. 2022, figures 7 and 16"}
_TRUST = {_ZETA: "zeta", "correlation with a probe": "probe_pearson"}
_MOST = "the best layer has the lowest variability; it is compared with that of the most rows and equal classes"
_LOW = "variability: spread within classes relative to the spread between them; low means specialised in the task"
_BANDS, _WHISKERS = "bands: 95% intervals over draws", "whiskers: 95% intervals over draws"


def figures(results: Results) -> list[Figure]:
    """Return all figures of the study."""
    curves = [row for row in results.rows("curves") if row.get("mean") is not None and row["layer"]]
    compared = [row for row in results.rows("robustness") if row["draws"]]
    return [
        _by_setting(curves, compared, IMBALANCE),
        _trust(compared, IMBALANCE),
        _by_setting(curves, compared, SCARCITY),
        _trust(compared, SCARCITY),
        _by_states(curves, compared),
        _by_formula(curves, compared),
    ]


def _select(rows: Sequence[Row], **values: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def _drawn(rows: Sequence[Row], curve: str, *more: str) -> list[dict[str, Any]]:
    """Return the rows as they are drawn, with the column that separates curves as `curve`."""
    curves = [{**row, "curve": row[curve]} for row in rows]
    return pick_columns(curves, "curve", "encoder", "task", "setting", "rows", "smallest_class", "layer", "draws",
                        "mean", "mean_low", "mean_high", *more, case="panel")  # fmt: skip


def _size(row: Row) -> tuple[float, int]:
    """Return a key that sorts settings by their distance from the reference: equal classes and many rows."""
    return row["smallest_class"] / row["rows"], row["rows"]


def _colours(rows: Sequence[Row]) -> dict[str, str]:
    """Return a colour for every setting, lighter further from the reference."""
    ordered = sorted(rows, key=_size, reverse=True)
    return spread_colours(list(dict.fromkeys(row["setting"] for row in ordered)), _RAMP)


def _by_setting(curves: Sequence[Row], compared: Sequence[Row], kind: str) -> Figure:
    chosen = sorted(_select(curves, kind=kind, score=_PLAIN, states="mean"), key=_size, reverse=True)
    drawn, notes = clip_intervals(
        _drawn(chosen, "setting"), "mean", "mean_low", "mean_high", note=_BANDS, limits=(0, float("inf"))
    )
    return Figure(
        name=kind,
        title=_title_of_stability(_select(compared, kind=kind, score=_PLAIN, states="mean"), kind)
        or f"Variability of layers under {kind}",
        alt=f"Curves of variability over layers, one for each setting of {kind}, with 95% intervals over draws",
        spec=lines(drawn, "layer", "mean", x_title="layer", y_title="variability", colour="curve",
                   colours=_colours(drawn), interval=("shown_low", "shown_high"), panel="panel",
                   independent=True),
        rows=tuple(drawn),
        paper=_PAPER[kind],
        notes=(_LOW, NO_LAYER_0, _MOST, *notes,
               *(("share: of the smaller of two classes, or of the first of more",) if kind == IMBALANCE else ())),
    )  # fmt: skip


def _title_of_stability(compared: Sequence[Row], kind: str) -> str:
    """Return how often the best layer in the hardest setting is near that of the reference."""
    others = [row for row in compared if not row["is_reference"] and row.get("within_one") is not None]
    if not others:
        return ""
    least = [min(group, key=lambda row: row["smallest_class"]) for _, group in group_rows(others, "encoder", "task")]
    if kind == SCARCITY:
        sizes = dict.fromkeys(sorted(row["rows"] for row in least))
        setting = f"With the fewest rows, {' or '.join(map(str, sizes))},"
    else:
        setting = (
            f"With {min(row['smallest_class'] / row['rows'] for row in least):.0%} of the rows in the smallest class"
        )
    if len(least) == 1:
        often = f"in {least[0]['within_one']:.0%} of the draws"
    else:
        often = f"in most draws of {sum(row['within_one'] > 0.5 for row in least)} of {len(least)} cases"
    changes = [row["log_ratio"] for row in least if row.get("log_ratio") is not None]
    level = f"; variability itself changes by a factor of {exp(sum(changes) / len(changes)):.1f}" if changes else ""
    return f"{setting} the best layer moves by at most one layer {often}{level}"


def _trust(compared: Sequence[Row], kind: str) -> Figure:
    """Return smoothness and the correlation with the probe by setting: the second halves of the paper's figures."""
    chosen = sorted(_select(compared, kind=kind, score=_PLAIN, states="mean"), key=_size, reverse=True)
    rows = [
        {"panel": ", ".join(part for part in (name_case(row, chosen, "encoder", "task"), name) if part),
         "what": name, "setting": row["setting"], "draws": row["draws"], "value": row[column],
         "low": _clip(row[f"{column}_low"], name), "high": _clip(row[f"{column}_high"], name)}
        for name, column in _TRUST.items()
        for row in chosen
        if row.get(column) is not None
    ]  # fmt: skip
    zetas, notes = clip_intervals(_select(rows, what=_ZETA), "value", "low", "high", note=_WHISKERS)
    drawn = zetas + [{**row, "shown_low": row["low"], "shown_high": row["high"], "cut": None}
                     for row in rows if row["what"] != _ZETA]  # fmt: skip
    return Figure(
        name=f"{kind}-trust",
        title=_title_of_trust(chosen, kind)
        or f"Smoothness of variability, and its correlation with a probe, under {kind}",
        alt=f"Points for each setting of {kind} with 95% intervals over draws: the smoothness zeta of the curve of "
        "variability, and its correlation over layers with the quality of a probe",
        spec=with_own_axes(dots(drawn, "setting", "value", x_title="", y_title="mean over draws",
                                interval=("shown_low", "shown_high"), panel="panel")),
        rows=tuple(drawn),
        paper=_PAPER[kind],
        notes=("zeta: lower is smoother", "correlation: the nearer to -1, the better low variability predicts where a "
               "probe does well; the probe has equal classes and the most rows of the same draw", *notes),
    )  # fmt: skip


def _title_of_trust(rows: Sequence[Row], kind: str) -> str:
    """Return how the correlation with a probe changes from the reference to the hardest setting."""
    defined = [row for row in rows if row.get("probe_pearson") is not None]
    ends = [(group[0], group[-1]) for _, group in group_rows(defined, "encoder", "task") if len(group) > 1]
    if not ends:
        return ""
    words = ("with equal classes", "with the most unequal ones")
    if kind == SCARCITY:
        words = ("with the most rows", "with the fewest")
    if len(ends) == 1:
        ((first, last),) = ends
        return (f"Variability correlates with a probe at {first['probe_pearson']:.2f} {words[0]}, at "
                f"{last['probe_pearson']:.2f} {words[1]}")  # fmt: skip
    worse = sum(last["probe_pearson"] > first["probe_pearson"] for first, last in ends)
    return f"Variability predicts a probe less well {words[1]} than {words[0]} in {worse} of {len(ends)} cases"


def _clip(end: float | None, what: str) -> float | None:
    """Return the end of an interval, clipped to the range of its values."""
    least, most = (0.0, float("inf")) if what == _ZETA else (-1.0, 1.0)
    return None if end is None else min(max(end, least), most)


def _by_states(curves: Sequence[Row], compared: Sequence[Row]) -> Figure:
    """Return the curves with equal classes and the most rows."""
    equal = [row for row in curves if row["kind"] == SCARCITY and row["score"] == _PLAIN]
    most = {key: max(row["rows"] for row in group) for key, group in group_rows(equal, "encoder", "task")}
    chosen = [
        {**row, "words": _STATES.get(row["states"], row["states"])}
        for row in equal
        if row["rows"] == most[row["encoder"], row["task"]]
    ]
    drawn, notes = clip_intervals(
        _drawn(chosen, "words"), "mean", "mean_low", "mean_high", note=_BANDS, limits=(0, float("inf"))
    )
    return Figure(
        name="states",
        title=_title_of_states(_select(compared, kind=SCARCITY, score=_PLAIN, is_reference=True)),
        alt="Curves of variability over layers, computed from the mean of tokens and from the first token, with 95% "
        "intervals over draws",
        spec=lines(drawn, "layer", "mean", x_title="layer", y_title="variability", colour="curve",
                   interval=("shown_low", "shown_high"), panel="panel", independent=True),
        rows=tuple(drawn),
        paper="Xie et al. 2022, figure 14",
        notes=(NO_LAYER_0, "equal classes, the most rows", *notes),
    )  # fmt: skip


def _title_of_states(compared: Sequence[Row]) -> str:
    """Return in how many cases means of tokens give smoother curves."""
    groups = [group for _, group in group_rows(compared, "encoder", "task")]
    cases = _count_lower(groups, "states", "mean", "first", value="zeta")
    if not cases:
        return "Variability of layers by how tokens are pooled"
    return f"Means of tokens give smoother curves than the first token in {cases} cases, on average"


def _count_lower(groups: Sequence[Sequence[Row]], column: str, name: str, other: str, *, value: str) -> str:
    """Return in how many groups the row of one name has a lower value, such as '3 of 4'; empty if none has both."""
    by_name = [{row[column]: row[value] for row in group if row.get(value) is not None} for group in groups]
    both = [values for values in by_name if {name, other} <= values.keys()]
    return f"{sum(values[name] < values[other] for values in both)} of {len(both)}" if both else ""


def _by_formula(curves: Sequence[Row], compared: Sequence[Row]) -> Figure:
    both = [row for row in curves if row["kind"] == IMBALANCE and row["states"] == "mean" and row["score"] in _FORMULAS]
    drawn = [{**row, "formula": _FORMULAS[row["score"]]} for row in _drawn(both, "setting", "score")]
    return Figure(
        name="formulas",
        title=_title_of_formulas(_select(compared, kind=IMBALANCE, states="mean")),
        alt="Curves of variability over layers for each share of classes, by the paper's formula and, dashed, by that "
        "of neural collapse",
        spec=lines(drawn, "layer", "mean", x_title="layer", y_title="variability", colour="curve",
                   colours=_colours(drawn), dash="formula", panel="panel", independent=True),
        rows=tuple(drawn),
        paper="Xie et al. 2022, figure 8",
        notes=(NO_LAYER_0, "with equal classes the formulas are the same", "intervals are in the table"),
    )  # fmt: skip


def _title_of_formulas(compared: Sequence[Row]) -> str:
    """Return which formula changes less with unequal classes."""
    unequal = [row for row in compared if not row["is_reference"]]
    groups = [group for _, group in group_rows(unequal, "encoder", "task", "setting")]
    cases = _count_lower(groups, "score", _PLAIN, _COLLAPSE, value="log_ratio")
    if not cases:
        return "Variability of layers with unequal classes, by two formulas"
    return f"With unequal classes the paper's formula changes less than neural collapse's in {cases} settings"
