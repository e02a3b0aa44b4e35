"""Figures of layer scores and probes: curves with two axes, and probes against scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import scatter, two_axes, with_own_axes
from frostline.charts.words import BANDS, LEVEL, NO_LAYER_0, clip_intervals, format_range
from frostline.records.layer_ranges import format_ranges

PROBES = ("probe.linear", "probe.linear.paper", "probe.head")
PRETRAINED, HELD_OUT, TUNED = "pretrained", "pretrained, held-out rows", "tuned"

_VARIABILITY, _CCA = "variability", "cca"
_PROBED = {"probe.linear": "quality of a linear probe",
           "probe.linear.paper": "quality of the probe of Tamkin et al. 2020",
           "probe.head": "quality of a trained head"}  # fmt: skip
_WORD = {_VARIABILITY: "variability", _CCA: "canonical correlation"}


def figures(results: Results) -> list[Figure]:
    """Return all figures of the study."""
    curves = [row for row in results.rows("curves") if row.get("mean") is not None and row["layer"]]
    agreement = results.rows("agreement")
    probe = next((name for name in reversed(PROBES) if any(row["score"] == name for row in curves)), PROBES[0])
    return [
        _two(curves, _VARIABILITY, probe, (PRETRAINED,), name="variability", title=_title_of_best(curves),
             paper="Xie et al. 2022, figures 3 and 9"),
        _two(curves, _VARIABILITY, probe, (HELD_OUT, TUNED), name="tuned", title=_title_of_moves(results.rows("best")),
             paper="Xie et al. 2022, figure 12"),
        _regression(curves, agreement, probe, PRETRAINED, name="regression", paper="Xie et al. 2022, figure 11"),
        _regression(curves, agreement, probe, TUNED, name="regression-tuned", paper="Xie et al. 2022, figure 13"),
        _two(curves, _CCA, probe, (PRETRAINED,), name="cca",
             title=_title_of_agreement(agreement, _CCA, probe, PRETRAINED), paper="Xie et al. 2022, figure 17"),
    ]  # fmt: skip


def _join(
    curves: Sequence[Row], score: str, probe: str, arms: Sequence[str]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return a row with score and probe for every layer that has both, and the notes on their intervals."""
    chosen = [row for row in curves if row["arm"] in arms and row["score"] in (score, probe)]
    clipped = [
        clip_intervals([{"panel": name_case(row, chosen, "encoder", "task"), **row} for row in chosen
                        if row["score"] == name], "mean", "low", "high", note=BANDS)
        for name in (score, probe)
    ]  # fmt: skip
    joined = []
    for _, group in group_rows([row for rows, _ in clipped for row in rows], "encoder", "task", "arm", "layer"):
        by_score = {row["score"]: row for row in group}
        if len(by_score) == 2:
            labels = {key: group[0][key] for key in ("encoder", "task", "arm", "layer", "seeds", "panel")}
            joined.append(labels | _columns("score", by_score[score]) | _columns("probe", by_score[probe]))
    return joined, tuple(dict.fromkeys(note for _, notes in clipped for note in notes))


def _columns(name: str, row: Row) -> dict[str, Any]:
    # A table of one seed has no intervals.
    whole = "" if row.get("low") is None else f"{row['low']:.3g} to {row['high']:.3g}"
    return {name: row["mean"], f"{name}_interval": whole, f"shown_{name}_low": row["shown_low"],
            f"shown_{name}_high": row["shown_high"]}  # fmt: skip


def _two(
    curves: Sequence[Row], score: str, probe: str, arms: Sequence[str], *, name: str, title: str, paper: str
) -> Figure:
    drawn, notes = _join(curves, score, probe, arms)
    word = _WORD[score]
    return Figure(
        name=name,
        title=title or f"The {word} of layers and the quality of probes on them",
        alt=f"Curves of {word} on the left axis and of {probe} on the right axis over layers, {' and '.join(arms)}, "
        "with 95% intervals over seeds",
        spec=two_axes(drawn, "layer", "score", "probe", x_title="layer", left_title=word,
                      right_title=_PROBED[probe], dash="arm" if len(arms) > 1 else None, panel="panel"),
        rows=tuple(drawn),
        paper=paper,
        notes=(NO_LAYER_0, *(("low variability means specialised in the task",) if score == _VARIABILITY else ()),
               *notes),
    )  # fmt: skip


def _title_of_best(curves: Sequence[Row]) -> str:
    """Return the layer with the lowest variability, for every encoder and task."""
    chosen = [row for row in curves if row["arm"] == PRETRAINED and row["score"] == _VARIABILITY]
    lowest = [min(group, key=lambda row: row["mean"]) for _, group in group_rows(chosen, "encoder", "task")]
    if not lowest:
        return ""
    layers = sorted({row["layer"] for row in lowest})
    if len(layers) == 1:
        cases = {1: "", 2: " in both cases"}.get(len(lowest), f" in all {len(lowest)} cases")
        return f"Layer {layers[0]} is the most specialised before tuning{cases}"
    if len(lowest) > 3:
        which = "the task" if len({row["encoder"] for row in lowest}) == 1 else "encoder and task"
        return f"Layer {format_ranges(layers, last='or')} is the most specialised before tuning, depending on {which}"
    named = [f"layer {row['layer']} of {name_case(row, lowest, 'encoder', 'task')}" for row in lowest]
    return f"The most specialised before tuning: {', '.join(named)}"


def _title_of_moves(best: Sequence[Row]) -> str:
    """Return in how many cases tuning moves the most specialised layer up."""
    defined = [row for row in best if row["score"] == _VARIABILITY and row.get("moved") is not None]
    moves = [row["moved"] for row in defined]
    if not moves:
        return ""
    if len(moves) == 1:
        if not moves[0]:
            always = defined[0].get("moved_low") in (0, None)
            return "Tuning does not move the most specialised layer" + ("" if always else ", on average")
        count = f"{abs(moves[0]):.1f}".removesuffix(".0")
        by_how_many = f"{count} layer{'' if count == '1' else 's'}"
        return f"Tuning moves the most specialised layer {'down' if moves[0] < 0 else 'up'} by {by_how_many}"
    return f"Tuning moves the most specialised layer up in {sum(move > 0 for move in moves)} of {len(moves)} cases"


def _title_of_agreement(agreement: Sequence[Row], score: str, probe: str, arm: str) -> str:
    """Return the range of correlations over layers."""
    values = [row["pearson"] for row in agreement if (row["score"], row["probe"], row["arm"]) == (score, probe, arm)
            and row.get("pearson") is not None]  # fmt: skip
    if not values:
        return ""
    return f"Over layers, {_WORD[score]} and the quality of probes correlate at {format_range(values, digits=2)}"


def _regression(
    curves: Sequence[Row], agreement: Sequence[Row], probe: str, arm: str, *, name: str, paper: str
) -> Figure:
    drawn, _ = _join(curves, _VARIABILITY, probe, (arm,))  # points without intervals
    fitted = [row for row in agreement if (row["score"], row["probe"], row["arm"]) == (_VARIABILITY, probe, arm)
              and None not in (row.get(key) for key in ("slope", "intercept", "r_squared"))]  # fmt: skip
    lines = [f"{row['encoder']}, {row['task']}: quality = {row['intercept']:.3g} {row['slope']:+.3g} x variability, "
             f"R² {row['r_squared']:.2f}" for row in fitted]  # fmt: skip
    return Figure(
        name=name,
        title=_title_of_regression(fitted, probe, arm) or f"Quality of probes and variability of layers, {arm}",
        alt=f"Points of {probe} over variability, one for each layer, {arm}, with the least-squares line",
        # Tasks lie far apart; only the shape within each of them matters.
        spec=with_own_axes(scatter(drawn, "score", "probe", x_title="variability", y_title=_PROBED[probe],
                                   label="layer", panel="panel", trend=True)),
        rows=tuple(drawn),
        paper=paper,
        notes=("numbers are layers", *lines),
    )  # fmt: skip


def _title_of_regression(fitted: Sequence[Row], probe: str, arm: str) -> str:
    """Return whether low variability predicts good probes, with its p-value."""
    defined = [row for row in fitted if row.get("pearson") is not None]
    if not defined:
        return ""
    what = _PROBED[probe]
    if len(defined) == 1:
        (row,) = defined
        p = "" if row.get("pearson_p") is None else f" (p {row['pearson_p']:.2g})"
        return f"Variability and the {what} correlate at {row['pearson']:.2f}{p} over {row['layers']} layers, {arm}"
    falling = [row for row in defined if row["slope"] < 0]
    shown = sum(row.get("pearson_p") is not None and row["pearson_p"] < LEVEL for row in falling)
    return (
        f"The lower the variability, the higher the {what} in {len(falling)} of {len(defined)} cases, beyond chance in "
        f"{shown}, {arm}"
    )
