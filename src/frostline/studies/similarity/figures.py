"""Figures of the similarity of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import bars, heatmap
from frostline.charts.words import LEVEL, format_range, informative_rows, note_left_out
from frostline.records.layer_ranges import format_ranges

_MATRICES = {"ORIG-ORIG": "pretrained, pretrained", "FT-ORIG": "tuned, pretrained", "FT-FT": "tuned, tuned",
             "FT[1]-FT[2]": "two restarts, both tuned"}  # fmt: skip
_STATES = {"FT-FT": "tuned", "ORIG-ORIG": "pretrained"}  # of both encoders
_ALIKE = 0.9
_CKA = "CKA: 1 if two layers represent the texts alike, up to rotation and scale; 0 if they share nothing"
_ABOUT = "the first of two models is on the vertical axis; the paper calls pretrained models ORIG and tuned ones FT"
_COLUMNS = 3  # panels in a row, if there are many


def figures(results: Results) -> list[Figure]:
    """Return matrices of the first encoder and task, grids over all, pairs of encoders, and the contrast of blocks."""
    defined = [row for row in results.rows("matrices") if row["cka"] is not None]
    own = [row for row in defined if row["encoder"] == row["other"]]
    pairs = [row for row in defined if row["encoder"] != row["other"]]
    blocks = results.rows("blocks")
    grids = _grids(own, blocks) if len({(row["encoder"], row["task"]) for row in own}) > 1 else []
    counted = [_matrices(own), *grids, _contrast(blocks)]
    return [
        *(replace(figure, notes=(*figure.notes, *note_left_out(blocks))) for figure in counted),
        *_across(pairs, results.rows("across")),
    ]


def _squares(
    rows: Sequence[Row], panel: str, *, x_title: str = "layer", y_title: str = "layer", columns: int = 2
) -> dict[str, Any]:
    """Return matrices with the same colours in all figures, so that they can be compared."""
    lowest = min((row["cka"] for row in rows), default=0.0)
    return heatmap(rows, "column", "row", "cka", x_title=x_title, y_title=y_title, value_title="CKA", panel=panel,
                   domain=(min(0.0, lowest), 1.0), columns=columns)  # fmt: skip


def _matrices(rows: Sequence[Row]) -> Figure:
    (encoder, task), drawn = next(group_rows(rows, "encoder", "task"), ((None, None), []))
    words = [{"compared": _MATRICES.get(row["matrix"], row["matrix"]), **row} for row in drawn]
    return Figure(
        name="matrices",
        title=_title_of_matrices(drawn) or f"Similarity of the layers of {encoder} on {task}, before and after tuning",
        alt="Four matrices of the similarity of every layer with every other: of the pretrained encoder, of the tuned "
        "one with the pretrained one, of the tuned one, and of two restarts",
        spec=_squares(words, "compared"),
        rows=tuple(words),
        paper="Phang et al. 2021, figure 1",
        notes=(_CKA, _ABOUT),
    )


def _title_of_matrices(rows: Sequence[Row]) -> str:
    """Return which layers of the tuned model still resemble the pretrained ones, and which one does least."""
    own = {row["row"]: row["cka"] for row in rows if row["matrix"] == "FT-ORIG" and row["row"] == row["column"]}
    if not own:
        return ""
    least = min(own, key=lambda layer: own[layer])
    stay = sorted(layer for layer in own if own[layer] >= _ALIKE)
    furthest = f"layer {least} changes the most (CKA {own[least]:.2f})"
    if not stay:
        return f"Tuning changes every layer; {furthest}"
    if len(stay) == len(own):
        return f"Tuned layers resemble the pretrained ones; {furthest}"
    which = f"layer {stay[0]} resembles its" if len(stay) == 1 else f"layers {format_ranges(stay)} resemble their"
    return f"After tuning {which} pretrained state (CKA {_ALIKE} or more); {furthest}"


def _values(blocks: Sequence[Row], measure: str) -> list[float]:
    return [row["mean"] for row in informative_rows(blocks) if row["measure"] == measure and row["mean"] is not None]


def _grids(rows: Sequence[Row], blocks: Sequence[Row]) -> list[Figure]:
    """Return one matrix for every encoder and task, for each of the three that tuning changes."""

    def title(measure: str, before: str, otherwise: str) -> str:
        values = _values(blocks, measure)
        return f"{before} {format_range(values, digits=2)}" if values else otherwise

    return [
        _grid(rows, "FT-FT", name="tuned", figure=2, title=title(
            "block contrast, tuned", "The CKA of tuned layers is higher within two blocks than between them by",
            "Similarity of the layers of tuned models")),
        _grid(rows, "FT-ORIG", name="tuned-and-pretrained", figure=5, title=title(
            "tuned top layer, most similar pretrained layer",
            "The tuned top layer and its most similar pretrained layer have a CKA of",
            "Similarity of tuned and pretrained layers")),
        _grid(rows, "FT[1]-FT[2]", name="restarts", figure=6, title=title(
            "top layers of two restarts", "The top layers of two restarts have a CKA of",
            "Similarity of the layers of two restarts")),
    ]  # fmt: skip


def _grid(rows: Sequence[Row], matrix: str, *, name: str, figure: int, title: str) -> Figure:
    drawn = [{"case": name_case(row, rows, "encoder", "task"), **row} for row in rows if row["matrix"] == matrix]
    vertical, horizontal = {"FT-FT": ("tuned layer",) * 2, "FT-ORIG": ("tuned layer", "pretrained layer")}.get(
        matrix, ("layer, first start", "layer, second start")
    )
    return Figure(
        name=name,
        title=title,
        alt=f"A matrix of the similarity of layers, {matrix}, for every encoder and task",
        spec=_squares(drawn, "case", x_title=horizontal, y_title=vertical, columns=_COLUMNS),
        rows=tuple(drawn),
        paper=f"Phang et al. 2021, figure {figure}",
        notes=(_ABOUT,),
    )


def _across(rows: Sequence[Row], across: Sequence[Row]) -> list[Figure]:
    """Return a figure for each pair of encoders, with their names on its axes."""
    drawings = []
    for number, ((encoder, other), matrices) in enumerate(group_rows(rows, "encoder", "other"), start=1):
        cases = {row["task"]: name_case(row, matrices, "task") for row in matrices}
        drawn = [
            {"case": ", ".join(filter(None, (cases[row["task"]], _STATES[row["matrix"]]))), **row}
            for row in matrices
            if row["matrix"] in _STATES
        ]
        compared = [row for row in across if (row["encoder"], row["other"]) == (encoder, other)]
        drawings.append(
            Figure(
                name="across" if number == 1 else f"across-{number}",
                title=_title_of_across(encoder, other, compared),
                alt=f"Matrices of the similarity of layers of {encoder} with layers of {other}, tuned and pretrained",
                spec=_squares(drawn, "case", x_title=f"layer of {other}", y_title=f"layer of {encoder}"),
                rows=tuple(drawn),
                paper="Phang et al. 2021, figure 7",
                notes=(f"shown to match: p < {LEVEL:g} in a permutation test over shuffled texts, for all seeds",),
            )
        )
    return drawings


def _title_of_across(encoder: str, other: str, compared: Sequence[Row]) -> str:
    """Return whether early layers of one encoder are shown to match early layers of the other."""
    orders = [row["order_of_matches"] for row in compared if row["order_of_matches"] is not None]
    if not orders:
        return f"Similarity of the layers of {encoder} and {other}"
    shown = sum(row["largest_p"] is not None and row["largest_p"] < LEVEL for row in compared)
    tasks = f" on {shown} of {len(compared)} tasks" if len(compared) > 1 else ""
    verb = "match" if shown else "are not shown to match"
    return (
        f"Layers of {encoder} and {other} {verb} in their order{tasks if shown else ''}: correlation "
        + format_range(orders, digits=2)
    )


def _contrast(blocks: Sequence[Row]) -> Figure:
    columns = ("encoder", "task", "seeds", "mean", "low", "high")
    states = {"block contrast, pretrained": "pretrained", "block contrast, tuned": "tuned"}
    drawn = [
        {"state": states[row["measure"]], **{key: row[key] for key in columns},
         "shown_low": None if row["low"] is None else max(-1.0, row["low"]),
         "shown_high": None if row["high"] is None else min(1.0, row["high"])}
        for row in blocks
        if row["measure"] in states and row["mean"] is not None
    ]  # fmt: skip
    measure = "block contrast, tuned minus pretrained"
    gains = _values(blocks, measure)
    lows = [row["low"] for row in informative_rows(blocks) if row["measure"] == measure and row["low"] is not None]
    raised = sum(gain > 0 for gain in gains)
    title = "Similarity of layers within two blocks minus that between them"
    if gains:
        gain = format_range(gains, digits=2)
        title = (f"Tuning raises the contrast of blocks in {raised} of {len(gains)} cases, beyond chance in "
                 f"{sum(low > 0 for low in lows)}; it changes by {gain}")  # fmt: skip
    return Figure(
        name="contrast",
        title=title,
        alt="Bars of the contrast of two blocks of layers, pretrained and tuned, for every encoder and task, with 95% "
        "intervals over seeds",
        spec=bars(drawn, "task", "mean", x_title="task", y_title="CKA within minus between blocks", colour="state",
                  interval=("shown_low", "shown_high"), panel="encoder"),
        rows=tuple(drawn),
        notes=("contrast: mean CKA within two blocks minus that between them, at the best split, which may change with "
               "tuning", "whiskers: 95% intervals over seeds, within the range of CKA"),
    )  # fmt: skip
