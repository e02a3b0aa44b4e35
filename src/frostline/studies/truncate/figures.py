"""Figures of models that are read at every layer."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.charts import Figure, Results, Row, name_case, pick_columns
from frostline.charts.draw import bars, lines
from frostline.charts.theme import BLUE, GREEN, ORANGE, RED, encoder_colours
from frostline.charts.words import (
    BANDS,
    POINTS,
    WHISKERS,
    clip_intervals,
    format_range,
    informative_rows,
    note_left_out,
)

# Tuned layers are red in all figures.
_ARMS = {
    "UNTUNED": ("tuned head as it is (UNTUNED)", GREEN),
    "TUNED": ("trained further (TUNED)", RED),
    "FRESH": ("fresh head (FRESH)", ORANGE),
    "TUNEDORIG": ("pretrained states (TUNEDORIG)", BLUE),
}
_FRESH = {**_ARMS, "TUNED": ("a fresh head, tuned states", RED)}
_ABOUT = "UNTUNED, TUNED and TUNEDORIG are the paper's names; FRESH is not in the paper"
_ABOUT_FRESH = "this study was run by an earlier version, in which TUNED trained a fresh head on tuned states"


def figures(results: Results) -> list[Figure]:
    """Return quality over the layer that is read, and the gain from tuned states."""
    summary = results.rows("summary")
    # Studies before the option `orig_start` had fresh heads as TUNED; their folders can still be drawn.
    was_fresh = bool(results.options) and "orig_start" not in results.options
    layers = results.rows("layers")
    return [_layers(layers, summary, was_fresh=was_fresh), _gain(summary, results, was_fresh=was_fresh)]


def _layers(rows: Sequence[Row], summary: Sequence[Row], *, was_fresh: bool) -> Figure:
    names = _FRESH if was_fresh else _ARMS
    shown = {arm: name for arm, name in names.items() if arm in {row["arm"] for row in rows}}
    cases = [{"case": name_case(row, rows, "encoder", "task"), **row} for row in rows if row["mean"] is not None]
    readings = pick_columns(
        [{**row, "read_by": names[row["arm"]][0]} for row in cases if row["layer"] is not None],
        "read_by", "case", "encoder", "task", "arm", "layer", "seeds", "mean", "low", "high", "minus_full",
    )  # fmt: skip
    drawn, clipped = clip_intervals(readings, "mean", "low", "high", note=BANDS, panel="case", limits=POINTS)
    levels = [
        {"case": row["case"], "level": row["mean"], "name": "best constant answer"}
        for row in cases
        if row["layer"] is None
    ]
    return Figure(
        name="layers",
        title=_title_of_layers(informative_rows(summary), was_fresh=was_fresh),
        alt="Curves of quality over the layer that is read, by the tuned model's head as it is and trained further, by "
        "a head on the pretrained model and perhaps by a fresh one, with 95% intervals over seeds and a line for the "
        "best constant answer",
        spec=lines(drawn, "layer", "mean", x_title="layer that is read",
                   y_title="quality in points", colour="read_by", colours=dict(shown.values()), panel="case",
                   interval=("shown_low", "shown_high"), levels=levels, independent=True),
        rows=tuple(drawn),
        paper="Phang et al. 2021, figure 3",
        notes=(_ABOUT_FRESH if was_fresh else _ABOUT, *clipped, *note_left_out(summary)),
    )  # fmt: skip


def _title_of_layers(summary: Sequence[Row], *, was_fresh: bool = False) -> str:
    """Return how many top layers are dispensable, over encoders and tasks."""
    if not summary or any(row["can_go_untuned"] is None or row["can_go_tuned"] is None for row in summary):
        return "Quality of a tuned model that is read at a layer"
    own, further, depth = (
        format_range([row[key] for row in summary]) for key in ("can_go_untuned", "can_go_tuned", "layers")
    )
    other = "a fresh one" if was_fresh else "trained further"
    if own == further == "0":
        return f"No layer of {depth} is shown to be dispensable, with the model's head as it is or {other}"
    return (f"Of {depth} layers, {own} at the top are shown to be dispensable with the model's head as it is, "
            f"{further} with {'a fresh one' if was_fresh else 'it trained further'}")  # fmt: skip


def _gain(summary: Sequence[Row], results: Results, *, was_fresh: bool) -> Figure:
    defined = [row for row in summary if row["tuned_minus_orig"] is not None]
    picked = pick_columns(defined, "encoder", "task", "seeds", "tuned_minus_orig", "low", "high")
    drawn, clipped = clip_intervals(
        picked, "tuned_minus_orig", "low", "high", note=WHISKERS, panel="no panel", from_zero=True
    )
    counted = informative_rows(defined)
    gaps = [row["tuned_minus_orig"] for row in counted]
    beyond = sum(row["low"] is not None and row["low"] > 0 for row in counted)
    title = "Gain from tuned over pretrained states in the upper half of the layers"
    if counted:
        title = (f"Heads on tuned states are {format_range(gaps, digits=1)} points better than on pretrained "
                 f"ones in the upper half, beyond chance in {beyond} of {len(counted)} cases")  # fmt: skip
    return Figure(
        name="worth",
        title=title,
        alt="Bars of the gain of heads on tuned over heads on pretrained states, mean over the upper half of the "
        "layers, for each encoder and task, with 95% intervals over seeds",
        spec=bars(drawn, "task", "tuned_minus_orig", x_title="task", y_title="points, tuned minus pretrained states",
                  colour="encoder", colours=encoder_colours([row["encoder"] for row in drawn], results.families),
                  interval=("shown_low", "shown_high")),
        rows=tuple(drawn),
        notes=(_ABOUT_FRESH if was_fresh else _ABOUT, *clipped, *note_left_out(summary)),
    )  # fmt: skip
