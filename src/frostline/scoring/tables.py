"""Layer scores as a table: one builder for the command line, reports and notebooks."""

from __future__ import annotations

from math import floor, log10

from frostline.records.layer_scores import LayerScore, LayerScores
from frostline.records.table import Table, table_of

BEST, TIED = "◀", "~"
LEGEND = (
    f"(low) or (high): which is good; ± 95% interval; {BEST} the best layer, {TIED} layers that cannot be told apart "
    "from it"
)


def scores_table(scores: LayerScores) -> Table:
    """Return a row for every layer with its value and interval by every score, the best ones marked."""
    title = f"{scores.encoder.name} ({scores.encoder.family}, {scores.depth} layers) on {scores.task.name}"
    rows = [
        {
            "layer": "embeddings" if layer == 0 else str(layer),
            **{f"{name} ({score.better})": _cell(score, layer) for name, score in scores.scores.items()},
        }
        for layer in range(scores.depth + 1)
    ]
    return table_of("scores", title, rows, notes=[LEGEND])


def _cell(score: LayerScore, layer: int) -> str:
    value = score.values[layer]
    if value is None:
        return "undefined"
    places = _places(score)
    low = None if score.low is None else score.low[layer]
    reach = "" if low is None else f" ±{value - low:.{places}f}"
    mark = f" {BEST}" if layer == score.best else f" {TIED}" if layer in score.tied else ""
    return f"{value:.{places}f}{reach}{mark}"


def _places(score: LayerScore) -> int:
    """Return the decimal places that show two digits of the usual interval, or four of the values without one."""
    pairs = zip(score.values, score.low or (), strict=False)
    sizes = [value - low for value, low in pairs if value is not None and low is not None]
    digits = 2 if sizes else 4
    sizes = sizes or [abs(value) for value in score.values if value is not None]
    size = sorted(sizes)[len(sizes) // 2]
    return min(9, max(0, digits - 1 - floor(log10(size)))) if size > 0 else 3
