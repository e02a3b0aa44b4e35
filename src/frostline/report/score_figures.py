"""Figures of a measurement: layer scores with intervals, and the similarity of layers."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.charts import Figure, Row
from frostline.charts.draw import heatmap, lines
from frostline.records import LayerScore, LayerScores
from frostline.records.layer_ranges import format_ranges

_STATES = {
    "mean": "token means",
    "first": "first tokens",
    "all": "means of all tokens",
    "released": "means of tokens with ids above 2",
}


def curve_figures(scores: LayerScores) -> list[Figure]:
    """Return the curves of all scores; no figure if all values are undefined."""
    drawn = [row for score in scores.scores.values() for row in _rows(score)]
    has_chance = any(row["what"] != "measured" for row in drawn)
    if not drawn:
        return []
    return [
        Figure(
            name="scores",
            title=best_in_words(next(iter(scores.scores.values()))) if scores.scores else "",
            alt="For each layer score a curve over layers 0 to the last, with 95% intervals; the best layer is larger",
            spec=lines(drawn, "layer", "value", x_title="layer", y_title="", dash="what" if has_chance else None,
                       dash_title="", interval=("low", "high"), panel="score", marked="best", independent=True),
            rows=tuple(drawn),
            paper="Xie et al. 2022, figures 3 and 17",
            notes=tuple(f"{best_in_words(score)} ({score.better} is good)" for score in scores.scores.values()),
        )
    ]  # fmt: skip


def similarity_figures(scores: LayerScores) -> list[Figure]:
    """Return the similarity of layers, one matrix for each pooling."""
    figures = []
    for pooling, matrix in scores.similarity.items():
        rows: list[Row] = [
            {"layer": layer, "other": other, "similarity": value}
            for layer, line in enumerate(matrix)
            for other, value in enumerate(line)
            if value is not None
        ]
        figures.append(
            Figure(
                name=f"similarity-{pooling}",
                title=_blocks(rows, _STATES.get(pooling, pooling)),
                alt=f"Heatmap of the similarity (unbiased CKA) of every two layers, {_STATES.get(pooling, pooling)}",
                spec=heatmap(rows, "layer", "other", "similarity", x_title="layer", y_title="layer",
                             value_title="similarity", domain=(0.0, 1.0)),
                rows=tuple(rows),
                paper="Phang et al. 2021, figure 1",
            )
        )  # fmt: skip
    return [figure for figure in figures if figure.rows]


def best_in_words(score: LayerScore) -> str:
    """Return which layer is the best, and which layers cannot be told apart from it."""
    if score.best is None:
        return f"{score.name} is undefined at every layer"
    others = [layer for layer in score.tied if layer != score.best]
    tied = f"; {format_ranges(sorted({*others, score.best}))} cannot be told apart" if others else ""
    return f"Layer {score.best} is the best by {score.name}{tied}"


def _rows(score: LayerScore) -> list[Row]:
    """Return a row for every layer, then the rows of chance levels."""
    rows: list[Row] = [
        {
            "score": score.name,
            "what": "measured",
            "layer": layer,
            "value": value,
            "low": None if score.low is None else score.low[layer],
            "high": None if score.high is None else score.high[layer],
            "best": layer == score.best or layer in score.tied,
        }
        for layer, value in enumerate(score.values)
        if value is not None
    ]
    for null, values in score.nulls.items():
        rows += [
            {
                "score": score.name,
                "what": null,
                "layer": layer,
                "value": value,
                "low": None,
                "high": None,
                "best": False,
            }
            for layer, value in enumerate(values)
            if value is not None
        ]
    return rows


def _blocks(rows: Sequence[Row], states: str) -> str:
    """Return a title on where neighbouring layers differ most."""
    steps = {(row["layer"], row["other"]): row["similarity"] for row in rows if row["other"] == row["layer"] + 1}
    if not steps:
        return f"Similarity of layers, by {states}"
    (below, above), least = min(steps.items(), key=lambda step: step[1])
    return f"By {states}, neighbouring layers differ most between {below} and {above} (similarity {least:.2f})"
