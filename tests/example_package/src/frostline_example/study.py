"""A study: trials, and a table of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frostline.charts import Figure, Results
from frostline.records import Plan
from frostline.records.table import Table, table_of
from frostline.studies import Ask, Measured, Point, study


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    rows = [
        {"task": point["task"], "layer": point["layer"], "seed": point["seed"], **point.result.metrics["test"]}
        for point in points
        if point.is_done
    ]
    return [table_of("layers", "Quality by the layer that is tuned", rows)]


def _figures(results: Results) -> list[Figure]:
    return []


@study(paper="an example", name="one-layer", tables=_tables, figures=_figures, tasks=["glue/cola"], seeds=2)
def one_layer(ask: Ask, *, rate: float = 2e-5) -> Iterator[Point]:
    """How good is an encoder of which a single layer is tuned?

    Options: `rate`, the learning rate.
    """
    for encoder, task in ask.pairs():
        for layer in range(1, encoder.depth + 1):
            plan = Plan.span(layer, layer, encoder.depth)
            for seed in range(ask.seeds):
                yield ask.point(
                    encoder,
                    task,
                    plan,
                    arm=f"layer {layer}",
                    seed=seed,
                    labels={"layer": layer},
                    learning_rate=ask.rate_for(encoder, rate),
                )
