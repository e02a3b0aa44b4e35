"""Figures of layer scores next to probes: curves with an axis each, and probes against scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import scatter, two_axes, with_own_axes
from frostline.charts.words import BANDS, clip_intervals
from frostline.records.layer_ranges import format_ranges

PROBES = ("probe.linear", "probe.linear.paper", "probe.head")
PRETRAINED, HELD_OUT, TUNED = "pretrained", "pretrained, held-out rows", "tuned"

_VARIABILITY, _CCA = "variability", "cca"
_LEVEL = 0.05
_PROBED = {"probe.linear": "quality of a linear probe", "probe.linear.paper": "quality of paper 3's probe",
           "probe.head": "quality of a trained head"}  # fmt: skip
_WORD = {_VARIABILITY: "variability", _CCA: "canonical correlation"}
_DRAWN = "layers from 1 on; layer 0, the embeddings, is in the table"


def figures(results: Results) -> list[Figure]:
    """All figures of the study."""
    curves = [row for row in results.rows("curves") if row.get("mean") is not None and row["layer"]]
    agreement = results.rows("agreement")
    probe = next((name for name in reversed(PROBES) if any(row["score"] == name for row in curves)), PROBES[0])
    return [
        _two(curves, _VARIABILITY, probe, (PRETRAINED,), name="variability", title=_best(curves),
             paper="paper 1, figures 3 and 9"),
        _two(curves, _VARIABILITY, probe, (HELD_OUT, TUNED), name="tuned", title=_moved(results.rows("best")),
             paper="paper 1, figure 12"),
        _regression(curves, agreement, probe, PRETRAINED, name="regression", paper="paper 1, figure 11"),
        _regression(curves, agreement, probe, TUNED, name="regression-tuned", paper="paper 1, figure 13"),
        _two(curves, _CCA, probe, (PRETRAINED,), name="cca", title=_agreed(agreement, _CCA, probe, PRETRAINED),
             paper="paper 1, figure 17"),
    ]  # fmt: skip


def _beside(
    curves: Sequence[Row], score: str, probe: str, arms: Sequence[str]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """A row for every layer with the score and the probe, as far as there are both, and what to say of intervals."""
    mine = [row for row in curves if row["arm"] in arms and row["score"] in (score, probe)]
    told = [{"panel": name_case(row, mine, "encoder", "task"), **row} for row in mine]
    cut = [
        clip_intervals([row for row in told if row["score"] == name], "mean", "low", "high", note=BANDS)
        for name in (score, probe)
    ]
    notes = tuple(dict.fromkeys(note for _, said in cut for note in said))
    found = []
    for _, group in group_rows([row for rows, _ in cut for row in rows], "encoder", "task", "arm", "layer"):
        of_score = {row["score"]: row for row in group}
        if len(of_score) == 2:
            said = {key: group[0][key] for key in ("encoder", "task", "arm", "layer", "seeds")}
            said["panel"] = group[0]["panel"]
            found.append(said | _ends("score", of_score[score]) | _ends("probe", of_score[probe]))
    return found, notes


def _ends(name: str, row: Row) -> dict[str, Any]:
    whole = "" if row["low"] is None else f"{row['low']:.3g} to {row['high']:.3g}"
    return {name: row["mean"], f"{name}_interval": whole, f"shown_{name}_low": row["shown_low"],
            f"shown_{name}_high": row["shown_high"]}  # fmt: skip


def _two(
    curves: Sequence[Row], score: str, probe: str, arms: Sequence[str], *, name: str, title: str, paper: str
) -> Figure:
    drawn, cut = _beside(curves, score, probe, arms)
    word = _WORD[score]
    return Figure(
        name=name,
        title=title or f"The {word} of layers and how well they probe",
        alt=f"Curves of {word} on the left axis and of {probe} on the right axis over layers, {' and '.join(arms)}, "
        "with 95% intervals over seeds",
        spec=two_axes(drawn, "layer", "score", "probe", x_title="layer", left_title=word,
                      right_title=_PROBED[probe], dash="arm" if len(arms) > 1 else None, panel="panel"),
        rows=tuple(drawn),
        paper=paper,
        notes=(_DRAWN, *(("low variability means specialised in the task",) if score == _VARIABILITY else ()), *cut),
    )  # fmt: skip


def _best(curves: Sequence[Row]) -> str:
    """Which layer has the lowest variability, for every encoder and task."""
    mine = [row for row in curves if row["arm"] == PRETRAINED and row["score"] == _VARIABILITY]
    lowest = [min(group, key=lambda row: row["mean"]) for _, group in group_rows(mine, "encoder", "task")]
    if not lowest:
        return ""
    layers = sorted({row["layer"] for row in lowest})
    if len(layers) == 1:
        return f"Layer {layers[0]} is the most specialised before tuning" + _everywhere(lowest)
    if len(lowest) > 3:
        which = "the task" if len({row["encoder"] for row in lowest}) == 1 else "encoder and task"
        return f"Layer {format_ranges(layers, last='or')} is the most specialised before tuning, depending on {which}"
    said = [f"layer {row['layer']} of {name_case(row, lowest, 'encoder', 'task')}" for row in lowest]
    return f"The most specialised before tuning: {', '.join(said)}"


def _everywhere(cases: Sequence[Row]) -> str:
    return "" if len(cases) == 1 else " in both cases" if len(cases) == 2 else f" in all {len(cases)} cases"


def _moved(best: Sequence[Row]) -> str:
    """In how many cases the most specialised layer is a higher one after tuning."""
    known = [row for row in best if row["score"] == _VARIABILITY and row.get("moved") is not None]
    moves = [row["moved"] for row in known]
    if not moves:
        return ""
    if len(moves) == 1:
        if not moves[0]:
            always = known[0].get("moved_low") in (0, None)
            return "Tuning does not move the most specialised layer" + ("" if always else ", on average")
        count = f"{abs(moves[0]):.1f}".removesuffix(".0")
        by_how_many = f"{count} layer{'' if count == '1' else 's'}"
        return f"Tuning moves the most specialised layer {'down' if moves[0] < 0 else 'up'} by {by_how_many}"
    up = sum(move > 0 for move in moves)
    return f"Tuning moves the most specialised layer up in {up} of {len(moves)} cases"


def _agreed(agreement: Sequence[Row], score: str, probe: str, arm: str) -> str:
    """The range of correlations over layers."""
    mine = [row["pearson"] for row in agreement if (row["score"], row["probe"], row["arm"]) == (score, probe, arm)
            and row.get("pearson") is not None]  # fmt: skip
    if not mine:
        return ""
    values = f"{min(mine):.2f}" if len(mine) == 1 else f"{min(mine):.2f} to {max(mine):.2f}"
    return f"Over layers, {_WORD[score]} and the quality of probes correlate at {values}"


def _regression(
    curves: Sequence[Row], agreement: Sequence[Row], probe: str, arm: str, *, name: str, paper: str
) -> Figure:
    drawn, _ = _beside(curves, _VARIABILITY, probe, (arm,))  # points without intervals
    mine = [row for row in agreement if (row["score"], row["probe"], row["arm"]) == (_VARIABILITY, probe, arm)]
    fitted = [row for row in mine if None not in (row.get(key) for key in ("slope", "intercept", "r_squared"))]
    lines = [f"{row['encoder']}, {row['task']}: quality = {row['intercept']:.3g} {row['slope']:+.3g} x variability, "
             f"R² {row['r_squared']:.2f}" for row in fitted]  # fmt: skip
    # Tasks lie far apart, and only the shape within each matters.
    spec = with_own_axes(scatter(drawn, "score", "probe", x_title="variability", y_title=_PROBED[probe], label="layer",
                            panel="panel", trend=True))  # fmt: skip
    return Figure(
        name=name,
        title=_tells(fitted, probe, arm) or f"Quality of probes and variability of layers, {arm}",
        alt=f"Points of {probe} over variability, one for each layer, {arm}, with the line of least squares",
        spec=spec,
        rows=tuple(drawn),
        paper=paper,
        notes=("numbers are layers", *lines),
    )  # fmt: skip


def _tells(fitted: Sequence[Row], probe: str, arm: str) -> str:
    """Whether low variability tells where layers probe well, and how sure that is."""
    known = [row for row in fitted if row.get("pearson") is not None]
    if not known:
        return ""
    what = _PROBED[probe]
    if len(known) == 1:
        (row,) = known
        sure = "" if row.get("pearson_p") is None else f" (p {row['pearson_p']:.2g})"
        return f"Variability and the {what} correlate at {row['pearson']:.2f}{sure} over {row['layers']} layers, {arm}"
    falling = [row for row in known if row["slope"] < 0]
    shown = sum(row.get("pearson_p") is not None and row["pearson_p"] < _LEVEL for row in falling)
    return (
        f"The lower the variability, the higher the {what} in {len(falling)} of {len(known)} cases, beyond chance in "
        f"{shown}, {arm}"
    )
