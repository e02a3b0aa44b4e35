"""Freezing the lower layers, paper 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frostline.charts import Figure, Results, Row, by
from frostline.charts.draw import lines
from frostline.charts.words import POINTS, cut_intervals, set_aside, telling
from frostline.errors import OptionError
from frostline.parameters import count_parameters
from frostline.records import Plan
from frostline.studies import Ask, Measured, Point, study
from frostline.studies.released import frozen_by_prefix
from frostline.studies.tables import grouped, is_informative, majority, quality, quality_table
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
        _parameters(ask),
    ]


def _operating_points(ask: Ask, points: Sequence[Measured]) -> Table:
    """How much of full tuning's quality each depth keeps, and the most layers that may stay frozen."""
    tasks = {task.name: task for task in ask.tasks}
    depths = {encoder.name: encoder.depth for encoder in ask.encoders}
    fine = {
        pair: is_informative(tasks[pair[1]], group)
        for pair, group in grouped([one for one in points if one["frozen"] == 0], ("encoder", "task")).items()
    }
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
                    {"encoder": encoder, "layers": depths[encoder], "task": name, "frozen": frozen,
                     "share_of_full": ratios[name], "informative": fine[encoder, name],
                     "majority_share": majority(tasks[name]) / (sum(full) / len(full))}
                )  # fmt: skip
        # A task that has no ratio keeps nothing that could be shown; one that full tuning does not learn tells nothing.
        counted = [name for name in tasks if not _is_set_aside(name) and fine.get((encoder, name))]
        if counted and all(ratios.get(name, 0.0) >= _KEEPS for name in counted):
            largest[encoder] = max(largest.get(encoder, 0), frozen)
    notes = [f"{encoder}: {count} of {depths[encoder]} layers may stay frozen and every task keeps {_KEEPS:.0%} of "
             "full tuning's quality (CoLA set aside, as in the paper, and tasks that full tuning does not learn)"
             for encoder, count in largest.items()]  # fmt: skip
    return table_of("share", "Share of full tuning's quality that is kept", records, notes=notes)


def _parameters(ask: Ask) -> Table:
    """How many parameters the parts of each encoder have, as the paper's table."""
    records: list[dict[str, Cell]] = []
    for encoder in ask.encoders:
        counts = count_parameters(encoder.config)
        records.append({"encoder": encoder.name, "embeddings": counts.embeddings, "layer": counts.unrolled[0],
                        "layers": encoder.depth, "output": counts.head, "total": counts.total,
                        "layer_share": counts.unrolled[0] / counts.total,
                        "embeddings_share": counts.embeddings / counts.total})  # fmt: skip
    return table_of("parameters", "Parameters by part", records, notes=["output: the pooler of the bare encoder"])


def _is_set_aside(task: str) -> bool:
    """CoLA, of which no depth keeps 90%: the paper leaves it out of its operating point."""
    return task in ("cola", "glue/cola")


def _figures(results: Results) -> list[Figure]:
    shares = results.rows("share")
    wanted = ("encoder", "task", "frozen", "seeds", "mean", "low", "high", "minus_full")
    whole = [{key: row[key] for key in wanted} for row in results.rows("quality") if row["mean"] is not None]
    drawn, cut = cut_intervals(whole, "mean", "low", "high", panel="encoder", limits=POINTS)
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
            notes=("the title counts the tasks that full tuning learns, without CoLA, as in the paper",
                   *set_aside(shares)),
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
        counted = [row for row in telling(rows) if not _is_set_aside(str(row["task"]))]
        names = {row["task"] for row in counted}
        if not names:
            continue
        most = 0
        for (frozen,), group in by(counted, "frozen"):
            if {row["task"] for row in group} == names and min(row["share_of_full"] for row in group) >= _KEEPS:
                most = max(most, frozen)
        said.append(f"{encoder} keeps {_KEEPS:.0%} of its quality with {most} of {rows[0]['layers']} layers frozen")
    return "; ".join(said) or "Share of full tuning's quality by the number of frozen layers"


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
    with which every task keeps 90% of full fine-tuning's quality. RoBERTa trains 10 epochs, as in the paper, others 3.

    Options: `rates`, how many of the paper's learning rates are tried, the highest first; they are for encoders of
    width 768, and narrower ones get higher ones in proportion; `step`, from one N to the next; `frozen_as_released`,
    freeze by the beginning of names as a script did, layers 11 and 12 wherever layer 2 is frozen.
    """
    if not 1 <= rates <= len(_RATES) or step < 1:
        raise OptionError(f"study freeze: rates {rates} must be 1..{len(_RATES)}, and step {step} must be 1 or more")
    for encoder, task in ask.pairs():
        full, depth = Plan.full(encoder.depth), encoder.depth
        epochs = ask.epochs(10 if encoder.family.name == "roberta" else 3)
        tried = list(dict.fromkeys(ask.rate_for(encoder, rate) for rate in _RATES[-rates:]))
        for seed in range(ask.seeds):
            wholes = [
                ask.point(encoder, task, full, arm="full", seed=seed, learning_rate=rate, epochs=epochs,
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
                yield ask.point(encoder, task, plan, arm=arm, seed=seed, learning_rate=rate, epochs=epochs,
                                labels={"frozen": frozen, "rate": "chosen"})  # fmt: skip
