"""Freezing the lower layers, paper 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frostline.charts import Figure, Results, Row, by
from frostline.charts.draw import lines
from frostline.charts.words import cut_intervals
from frostline.records import Plan
from frostline.studies import Ask, Measured, Point, study
from frostline.studies.released import frozen_by_prefix
from frostline.studies.tables import grouped, majority, quality, quality_table
from frostline.table import Cell, Table, table_of

_RATES = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)
_KEEPS = 0.9  # of full tuning's quality: the paper's operating point


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    chosen = [point for point in points if point["rate"] == "chosen"]
    return [
        quality_table(
            ask,
            chosen,
            name="quality",
            title="Quality by the number of frozen layers",
            labels=("encoder", "task", "arm", "frozen"),
            more=lambda group: {"trainable": group[0].result.parameters.get("trainable")},
        ),
        _operating_points(ask, chosen),
    ]


def _operating_points(ask: Ask, points: Sequence[Measured]) -> Table:
    """How much of full tuning's quality each depth keeps, and the most layers that may stay frozen."""
    tasks = {task.name: task for task in ask.tasks}
    records: list[dict[str, Cell]] = []
    largest: dict[str, int] = {}
    for (encoder, frozen), group in grouped(points, ("encoder", "frozen")).items():
        ratios = {}
        for (name,), mine in grouped([one for one in group if one.is_done], ("task",)).items():
            base = [one for one in points if (one["encoder"], one["task"], one["frozen"]) == (encoder, name, 0)]
            full = [quality(one, tasks[name]) for one in base if one.is_done]
            if full and sum(full) > 0:
                kept = [quality(one, tasks[name]) for one in mine]
                ratios[name] = (sum(kept) / len(kept)) / (sum(full) / len(full))
                records.append(
                    {"encoder": encoder, "task": name, "frozen": frozen, "share_of_full": ratios[name],
                     "majority_share": majority(tasks[name]) / (sum(full) / len(full))}
                )  # fmt: skip
        counted = {name: ratio for name, ratio in ratios.items() if "cola" not in name.lower()}
        if counted and min(counted.values()) >= _KEEPS:
            largest[encoder] = max(largest.get(encoder, 0), frozen)
    notes = [f"{encoder}: {count} layers may stay frozen and every task keeps {_KEEPS:.0%} of full tuning's quality "
             "(CoLA set aside, as in the paper)" for encoder, count in largest.items()]  # fmt: skip
    return table_of("share", "Share of full tuning's quality that is kept", records, notes=notes)


def _figures(results: Results) -> list[Figure]:
    shares = results.rows("share")
    wanted = ("encoder", "task", "frozen", "seeds", "mean", "low", "high", "minus_full")
    whole = [{key: row[key] for key in wanted} for row in results.rows("quality") if row["mean"] is not None]
    drawn, cut = cut_intervals(whole, "mean", "low", "high", panel="encoder")
    levels = [{"level": _KEEPS, "name": "90%", "encoder": encoder} for (encoder,), _ in by(shares, "encoder")]
    return [
        Figure(
            name="share",
            title=_found(shares),
            alt="Curves of the share of full tuning's quality over the number of frozen layers, with a line at 90%",
            spec=lines(shares, "frozen", "share_of_full", x_title="frozen layers", y_title="share of full tuning",
                       colour="task", panel="encoder", levels=levels),
            rows=tuple(shares),
            paper="paper 5, figure 1",
        ),
        Figure(
            name="quality",
            title="Quality by the number of frozen layers",
            alt="Curves of quality over the number of frozen layers for each task, with 95% intervals over seeds",
            spec=lines(drawn, "frozen", "mean", x_title="frozen layers", y_title="quality in points", colour="task",
                       interval=("shown_low", "shown_high"), panel="encoder"),
            rows=tuple(drawn),
            notes=cut,
        ),
    ]  # fmt: skip


def _found(shares: Sequence[Row]) -> str:
    """How many layers may stay frozen, for every encoder."""
    said = []
    for (encoder,), rows in by(shares, "encoder"):
        counted = [row for row in rows if "cola" not in str(row["task"]).lower()]
        kept = {frozen: min(row["share_of_full"] for row in group) for (frozen,), group in by(counted, "frozen")}
        most = max((frozen for frozen, share in kept.items() if share >= _KEEPS), default=0)
        said.append(f"{encoder} keeps {_KEEPS:.0%} of its quality with {most} of {max(kept, default=0)} layers frozen")
    return "; ".join(said)


@study(
    paper="5",
    tables=_tables,
    figures=_figures,
    tasks=("glue/cola", "glue/sst2", "glue/mrpc", "glue/stsb"),
    seeds=5,
    recipe={"batch": 16, "epochs": 3},
    quick={"rates": 1, "step": 3},
    quick_seeds=2,
)
def freeze(ask: Ask, *, rates: int = 5, step: int = 1, frozen_as_released: bool = False) -> Iterator[Point]:
    """How many of the lower layers can stay frozen before quality drops?

    The embeddings and the first N layers stay as pretrained, for N = 0 and N from half of the layers to all of them.
    The learning rate is the one that suits full fine-tuning best on validation. The operating point is the largest N
    with which every task keeps 90% of full fine-tuning's quality.

    Options: `rates`, how many of the paper's learning rates are tried, the highest first; they are for encoders of
    width 768, and narrower ones get higher ones in proportion; `step`, from one N to the next; `frozen_as_released`,
    freeze by the beginning of names as a script did, layers 11 and 12 wherever layer 2 is frozen.
    """
    for encoder, task in ask.pairs():
        full, depth = Plan.full(encoder.depth), encoder.depth
        tried = list(dict.fromkeys(ask.rate_for(encoder, rate) for rate in _RATES[-rates:]))
        for seed in range(ask.seeds):
            wholes = [
                ask.point(encoder, task, full, arm="full", seed=seed, learning_rate=rate,
                          labels={"frozen": 0, "rate": f"{rate:g}"})
                for rate in tried
            ]  # fmt: skip
            yield from wholes
            best = ask.best(wholes)
            if best is None:
                continue
            rate = best.spec.recipe.learning_rate
            for frozen in (0, *range(depth // 2, depth + 1, step)):
                plan = full if not frozen else Plan(layers=tuple(range(frozen + 1, depth + 1)), head=depth)
                plan = frozen_by_prefix(plan) if frozen_as_released else plan
                arm = "full" if not frozen else f"{frozen} frozen"
                yield ask.point(encoder, task, plan, arm=arm, seed=seed, learning_rate=rate,
                                labels={"frozen": frozen, "rate": "chosen"})  # fmt: skip
