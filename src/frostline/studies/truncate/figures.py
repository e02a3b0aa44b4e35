"""What is drawn of models that are read at every layer."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.charts import Figure, Results, Row, name_case
from frostline.charts.draw import bars, lines
from frostline.charts.theme import BLUE, GREEN, RED, encoder_colours
from frostline.charts.words import (
    BANDS,
    POINTS,
    WHISKERS,
    clip_intervals,
    format_range,
    informative_rows,
    note_left_out,
)

# What is tuned is red everywhere.
_ARMS = {"UNTUNED": ("its own head", GREEN), "TUNED": ("a fresh head, tuned states", RED),
         "TUNEDORIG": ("a fresh head, pretrained states", BLUE)}  # fmt: skip
_ABOUT = "in the paper: UNTUNED, its own head, nothing is trained; TUNED and TUNEDORIG, fresh heads on frozen states"


def figures(results: Results) -> list[Figure]:
    """Quality over the layer that is read, and what tuning the states was worth."""
    summary = results.rows("summary")
    return [_layers(results.rows("layers"), summary), _worth(summary, results)]


def _layers(rows: Sequence[Row], summary: Sequence[Row]) -> Figure:
    wanted = ("encoder", "task", "arm", "layer", "seeds", "mean", "low", "high", "minus_full")
    cases = [{"case": name_case(row, rows, "encoder", "task"), **row} for row in rows if row["mean"] is not None]
    whole = [
        {"read_by": _ARMS[row["arm"]][0], **{key: row[key] for key in ("case", *wanted)}}
        for row in cases
        if row["layer"] is not None
    ]
    drawn, cut = clip_intervals(whole, "mean", "low", "high", note=BANDS, panel="case", limits=POINTS)
    levels = [
        {"case": row["case"], "level": row["mean"], "name": "best constant answer"}
        for row in cases
        if row["layer"] is None
    ]
    return Figure(
        name="layers",
        title=_can_go(informative_rows(summary)),
        alt="Curves of quality over the layer that is read, by the tuned model's own head, by a fresh one and by one "
        "on the pretrained model, with 95% intervals over seeds and a line for the best constant answer",
        spec=lines(drawn, "layer", "mean", x_title="layer that is read",
                   y_title="quality in points", colour="read_by", colours=dict(_ARMS.values()), panel="case",
                   interval=("shown_low", "shown_high"), levels=levels, independent=True),
        rows=tuple(drawn),
        paper="paper 4, figure 3",
        notes=(_ABOUT, *cut, *note_left_out(summary)),
    )  # fmt: skip


def _can_go(summary: Sequence[Row]) -> str:
    """How many top layers can go, over encoders and tasks."""
    if not summary or any(row["can_go_untuned"] is None or row["can_go_tuned"] is None for row in summary):
        return "Quality when a tuned model is read at a layer"
    own, fresh, depth = (
        format_range([row[key] for row in summary]) for key in ("can_go_untuned", "can_go_tuned", "layers")
    )
    if own == fresh == "0":
        return f"No layer of {depth} is shown to be dispensable, with the model's own head or a fresh one"
    return f"Of {depth} layers, {own} at the top are shown to be dispensable with the own head, {fresh} with a new one"


def _worth(summary: Sequence[Row], results: Results) -> Figure:
    wanted = ("encoder", "task", "seeds", "tuned_minus_orig", "low", "high")
    known = [{key: row[key] for key in wanted} for row in summary if row["tuned_minus_orig"] is not None]
    drawn, cut = clip_intervals(
        known, "tuned_minus_orig", "low", "high", note=WHISKERS, panel="no panel", from_zero=True
    )
    counted = [row for row in informative_rows(summary) if row["tuned_minus_orig"] is not None]
    gaps = [row["tuned_minus_orig"] for row in counted]
    beyond = sum(row["low"] is not None and row["low"] > 0 for row in counted)
    title = "What tuned states are worth more than pretrained ones in the upper half of the layers"
    if counted:
        title = (f"Fresh heads on tuned states are {format_range(gaps, digits=1)} points above those on pretrained "
                 f"ones in the upper half, beyond chance in {beyond} of {len(counted)} cases")  # fmt: skip
    return Figure(
        name="worth",
        title=title,
        alt="Bars of how much better a fresh head reads tuned than pretrained states, mean over the upper half of the "
        "layers, for each encoder and task, with 95% intervals over seeds",
        spec=bars(drawn, "task", "tuned_minus_orig", x_title="task", y_title="points, tuned minus pretrained states",
                  colour="encoder", colours=encoder_colours([row["encoder"] for row in drawn], results.families),
                  interval=("shown_low", "shown_high")),
        rows=tuple(drawn),
        notes=(_ABOUT, *cut, *note_left_out(summary)),
    )  # fmt: skip
