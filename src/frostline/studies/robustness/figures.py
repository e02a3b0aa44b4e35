"""Figures of variability with unequal classes, with few rows and in its variants."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import dots, lines
from frostline.charts.draw.parts import with_own_axes
from frostline.charts.words import clip_intervals

IMBALANCE, SCARCITY = "imbalance", "scarcity"

_PLAIN, _COLLAPSE = "variability", "variability.collapse"
_FORMULAS = {_PLAIN: "as in the paper", _COLLAPSE: "neural collapse"}  # the first by the alphabet is drawn solid
_STATES = {"mean": "mean of tokens", "first": "first token"}
# From many rows, or equal classes, to few.
_RAMP = ("#4a4ac8", "#7a3fc4", "#a62f9e", "#cc4778", "#e56b5d", "#f0904a", "#f5b332")
_ZETA = "smoothness zeta"
_TRUST = {_ZETA: "zeta", "correlation with a probe": "probe_pearson"}
_MOST = "the best layer, that of the lowest variability, is compared with that of the most rows and equal classes"
_LOW = "variability: how far texts of one class lie apart, compared with how far classes do; low is specialised"
_BANDS, _WHISKERS = "bands: 95% intervals over draws", "whiskers: 95% intervals over draws"
_DRAWN = "layers from 1 on; layer 0, the embeddings, is in the table"


def figures(results: Results) -> list[Figure]:
    """All figures of the study."""
    curves = [row for row in results.rows("curves") if row.get("mean") is not None and row["layer"]]
    compared = [row for row in results.rows("robustness") if row["draws"]]
    return [
        _by_setting(curves, compared, IMBALANCE, paper="paper 1, figures 6 and 15"),
        _trust(compared, IMBALANCE, paper="paper 1, figures 6 and 15"),
        _by_setting(curves, compared, SCARCITY, paper="paper 1, figures 7 and 16"),
        _trust(compared, SCARCITY, paper="paper 1, figures 7 and 16"),
        _by_states(curves, compared),
        _by_formula(curves, compared),
    ]


def _of(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _told(rows: Sequence[Row], name: str, words: str, *more: str) -> list[dict[str, Any]]:
    """The rows as they are drawn, with what tells curves apart under a name of its own."""
    columns = ("encoder", "task", "setting", "rows", "smallest_class", "layer", "draws", "mean", "mean_low",
               "mean_high", *more)  # fmt: skip
    panels = {key: name_case(group[0], rows, "encoder", "task") for key, group in group_rows(rows, "encoder", "task")}
    return [
        {"panel": panels[row["encoder"], row["task"]], name: row[words], **{key: row[key] for key in columns}}
        for row in rows
    ]


def _size(row: Row) -> tuple[float, int]:
    """How near the reference a setting is: equal classes, and many rows."""
    return row["smallest_class"] / row["rows"], row["rows"]


def _colours(rows: Sequence[Row]) -> dict[str, str]:
    """A colour for every setting, the further from the reference the lighter."""
    names = list(dict.fromkeys(row["setting"] for row in sorted(rows, key=_size, reverse=True)))
    step = (len(_RAMP) - 1) / max(1, len(names) - 1)
    return {name: _RAMP[round(place * step)] for place, name in enumerate(names)}


def _by_setting(curves: Sequence[Row], compared: Sequence[Row], kind: str, *, paper: str) -> Figure:
    mine = sorted(_of(curves, kind=kind, score=_PLAIN, states="mean"), key=_size, reverse=True)
    told = _told(mine, "curve", "setting")
    drawn, notes = clip_intervals(told, "mean", "mean_low", "mean_high", note=_BANDS, limits=(0, float("inf")))
    title = _steadiness(_of(compared, kind=kind, score=_PLAIN, states="mean"), kind)
    return Figure(
        name=kind,
        title=title or f"Variability of layers under {kind}",
        alt=f"Curves of variability over layers, one for each setting of {kind}, with 95% intervals over draws",
        spec=lines(drawn, "layer", "mean", x_title="layer", y_title="variability", colour="curve",
                   colours=_colours(drawn), interval=("shown_low", "shown_high"), panel="panel",
                   independent=True),
        rows=tuple(drawn),
        paper=paper,
        notes=(_LOW, _DRAWN, _MOST, *notes,
               *(("share: of the smaller of two classes, or of the first of more",) if kind == IMBALANCE else ())),
    )  # fmt: skip


def _steadiness(compared: Sequence[Row], kind: str) -> str:
    """In how many cases the best layer is still near that of the reference where there is the least to go by."""
    others = [row for row in compared if not row["is_reference"] and row.get("within_one") is not None]
    if not others:
        return ""
    least = [min(group, key=lambda row: row["smallest_class"]) for _, group in group_rows(others, "encoder", "task")]
    if kind == SCARCITY:
        sizes = dict.fromkeys(sorted(row["rows"] for row in least))
        what = f"With the fewest rows, {' or '.join(map(str, sizes))},"
    else:
        what = f"With {min(row['smallest_class'] / row['rows'] for row in least):.0%} of the rows in the smallest class"
    if len(least) == 1:
        often = f"in {least[0]['within_one']:.0%} of the draws"
    else:
        often = f"in most draws of {sum(row['within_one'] > 0.5 for row in least)} of {len(least)} cases"
    changes = [row["log_ratio"] for row in least if row.get("log_ratio") is not None]
    level = f"; variability itself is off by a factor of {exp(sum(changes) / len(changes)):.1f}" if changes else ""
    return f"{what} the best layer is at most one layer away from where it was {often}{level}"


def _trust(compared: Sequence[Row], kind: str, *, paper: str) -> Figure:
    """Smoothness, and how well variability predicts the probe, by setting: the second halves of the paper's figures."""
    mine = sorted(_of(compared, kind=kind, score=_PLAIN, states="mean"), key=_size, reverse=True)
    drawn = [
        {"panel": ", ".join(part for part in (name_case(row, mine, "encoder", "task"), name) if part),
         "what": name, "setting": row["setting"], "draws": row["draws"], "value": row[column],
         "low": row[f"{column}_low"], "high": row[f"{column}_high"]}
        for name, column in _TRUST.items()
        for row in mine
        if row.get(column) is not None
    ]  # fmt: skip
    drawn = [
        {**row, "low": _clipped(row["low"], row["what"]), "high": _clipped(row["high"], row["what"])} for row in drawn
    ]
    cut = [row for row in drawn if row["what"] == _ZETA]
    shown, notes = clip_intervals(cut, "value", "low", "high", note=_WHISKERS)
    rest = [{**row, "shown_low": row["low"], "shown_high": row["high"], "cut": None} for row in drawn if row not in cut]
    drawn = [*shown, *rest]
    spec = dots(drawn, "setting", "value", x_title="", y_title="mean over draws",
                interval=("shown_low", "shown_high"), panel="panel")  # fmt: skip
    return Figure(
        name=f"{kind}-trust",
        title=_from_to(mine, kind) or f"Smoothness of variability, and its correlation with a probe, under {kind}",
        alt=f"Points for each setting of {kind} with 95% intervals over draws: the smoothness zeta of the curve of "
        "variability, and its correlation over layers with the quality of a linear probe",
        spec=with_own_axes(spec),
        rows=tuple(drawn),
        paper=paper,
        notes=("zeta: the lower the smoother", "correlation: the nearer to -1 the better low variability tells where "
               "a probe does well; the probe has equal classes and the most rows of the same draw", *notes),
    )  # fmt: skip


def _from_to(rows: Sequence[Row], kind: str) -> str:
    """How the correlation with a probe changes from the reference to where there is the least to go by."""
    known = [row for row in rows if row.get("probe_pearson") is not None]
    ends = [(group[0], group[-1]) for _, group in group_rows(known, "encoder", "task") if len(group) > 1]
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
    return f"Variability tells less of a probe {words[1]} than {words[0]} in {worse} of {len(ends)} cases, by the means"


def _clipped(end: float | None, what: str) -> float | None:
    """The end of an interval as far as such values go."""
    least, most = (0.0, float("inf")) if what == _ZETA else (-1.0, 1.0)
    return None if end is None else min(max(end, least), most)


def _by_states(curves: Sequence[Row], compared: Sequence[Row]) -> Figure:
    """The curves with equal classes and the most rows."""
    equal = [row for row in curves if row["kind"] == SCARCITY and row["score"] == _PLAIN]
    most = {key: max(row["rows"] for row in group) for key, group in group_rows(equal, "encoder", "task")}
    mine = [
        {**row, "words": _STATES.get(row["states"], row["states"])}
        for row in equal
        if row["rows"] == most[row["encoder"], row["task"]]
    ]
    drawn, notes = clip_intervals(
        _told(mine, "curve", "words"), "mean", "mean_low", "mean_high", note=_BANDS, limits=(0, float("inf"))
    )
    return Figure(
        name="states",
        title=_smoothness(_of(compared, kind=SCARCITY, score=_PLAIN, is_reference=True)),
        alt="Curves of variability over layers, computed from the mean of tokens and from the first token, with 95% "
        "intervals over draws",
        spec=lines(drawn, "layer", "mean", x_title="layer", y_title="variability", colour="curve",
                   interval=("shown_low", "shown_high"), panel="panel", independent=True),
        rows=tuple(drawn),
        paper="paper 1, figure 14",
        notes=(_DRAWN, "equal classes, the most rows", *notes),
    )  # fmt: skip


def _smoothness(compared: Sequence[Row]) -> str:
    """Whose curves are smoother, in how many cases."""
    pairs = []
    for _, group in group_rows(compared, "encoder", "task"):
        zeta: dict[str, Any] = {row["states"]: row.get("zeta") for row in group}
        if zeta.get("mean") is not None and zeta.get("first") is not None:
            pairs.append((zeta["mean"], zeta["first"]))
    if not pairs:
        return "Variability of layers by the states that it is computed from"
    won = sum(mean < first for mean, first in pairs)
    return f"Means of tokens give smoother curves than the first token in {won} of {len(pairs)} cases, by the means"


def _by_formula(curves: Sequence[Row], compared: Sequence[Row]) -> Figure:
    both = [row for row in curves if row["kind"] == IMBALANCE and row["states"] == "mean" and row["score"] in _FORMULAS]
    told = [
        {**row, "formula": _FORMULAS[told_row["score"]]}
        for told_row, row in zip(both, _told(both, "curve", "setting", "score"), strict=True)
    ]
    return Figure(
        name="formulas",
        title=_nearer(_of(compared, kind=IMBALANCE, states="mean")),
        alt="Curves of variability over layers for each share of classes, by the paper's formula and, dashed, by that "
        "of neural collapse",
        spec=lines(told, "layer", "mean", x_title="layer", y_title="variability", colour="curve",
                   colours=_colours(told), dash="formula", panel="panel", independent=True),
        rows=tuple(told),
        paper="paper 1, figure 8",
        notes=(_DRAWN, "with equal classes the formulas are the same", "intervals are in the table"),
    )  # fmt: skip


def _nearer(compared: Sequence[Row]) -> str:
    """Which formula changes less when classes are unequal."""
    pairs = []
    for _, group in group_rows([row for row in compared if not row["is_reference"]], "encoder", "task", "setting"):
        change: dict[str, Any] = {row["score"]: row.get("log_ratio") for row in group}
        if change.get(_PLAIN) is not None and change.get(_COLLAPSE) is not None:
            pairs.append((change[_PLAIN], change[_COLLAPSE]))
    if not pairs:
        return "Variability of layers with unequal classes, by two formulas"
    won = sum(ours < theirs for ours, theirs in pairs)
    cases = f"{won} of {len(pairs)} settings"
    return f"With unequal classes the paper's formula changes less than neural collapse's in {cases}"
