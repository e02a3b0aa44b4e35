"""Freezing the lower layers, paper 5."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from frostline.charts import group_rows
from frostline.encoders.parameter_counts import count_parameters
from frostline.errors import OptionError
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import ratio_interval, shares_of_ratio, summarise_ratio
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import Pairs, pair_by_seed
from frostline.studies._limits import at_least
from frostline.studies._quality import quality_table
from frostline.studies._released import freeze_by_prefix
from frostline.studies._tables import (
    DRAWS,
    constant_quality,
    group_points,
    informative_note,
    is_informative,
    judged_split,
    mean_columns,
    quality_in_points,
)
from frostline.studies.freeze.figures import KEEPS, figures, most_frozen
from frostline.tasks import Task

_RATES = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)
_SET_ASIDE = "glue/cola"  # of which no depth keeps 90%: the paper leaves it out of its operating point


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    chosen = [point for point in points if not point.is_candidate]
    tasks = {task.name: task for task in ask.tasks}
    full = group_points([point for point in chosen if point["frozen"] == 0], ("encoder", "task"))
    learned = {case for case, mine in full.items() if is_informative(tasks[case[1]], mine)}
    return [
        quality_table(
            ask,
            chosen,
            name="quality",
            title="Quality by the number of frozen layers",
            labels=("encoder", "task", "arm", "frozen"),
            more=lambda group: {"trainable": group[0].result.parameters.get("trainable")},
        ),
        _shares(ask, chosen, learned),
        _mean_shares(ask, chosen, learned),
        _parameters(ask),
    ]


def _shares(ask: Ask, points: Sequence[Measured], learned: Collection[tuple[str, ...]]) -> Table:
    """How much of full tuning's quality each number of frozen layers keeps, by task."""
    tasks = {task.name: task for task in ask.tasks}
    depths = {encoder.name: encoder.depth for encoder in ask.encoders}
    by_case = group_points(points, ("encoder", "task", "frozen"))
    records: list[dict[str, Cell]] = []
    for (encoder, name, frozen), group in by_case.items():
        task, full = tasks[name], by_case[encoder, name, 0]
        found = _share(task, pair_by_seed(group, full))
        if found is not None:
            records.append({"encoder": encoder, "layers": depths[encoder], "task": name, "frozen": frozen, **found,
                            "informative": (encoder, name) in learned})  # fmt: skip
    aside = [task.name for task in ask.tasks if task.preset == _SET_ASIDE]
    notes = [
        "share_of_full: the mean over seeds divided by full tuning's; above_constant: the same of what lies above the "
        "best constant answer, which flatters chance less; majority_share: what that answer itself has of full "
        "tuning's; intervals over seeds by Student's t, over rows by a paired bootstrap over test rows, both 95%",
        informative_note(),
        *(
            _operating_point(encoder, depths[encoder], mine, aside)
            for (encoder,), mine in group_rows(records, "encoder")
        ),
    ]
    title = "Share of full tuning's quality that is kept"
    return table_of("share", title, records, notes=notes, settings={"set_aside": aside})


def _share(task: Task, pairs: Pairs) -> dict[str, Cell] | None:
    """The ratio of means over the seeds that both have, with both intervals; None where full tuning has no quality."""
    ours, full = ([quality_in_points(pair[side], task) for pair in pairs] for side in (0, 1))
    base = sum(full) / len(full) if full else 0.0
    if base <= 0:
        return None
    constant = constant_quality(task)
    seen: dict[str, Cell] = {"seeds": len(pairs), "share_of_full": sum(ours) / len(ours) / base}
    seen |= dict.fromkeys(("seeds_low", "seeds_high", "rows_low", "rows_high"))
    if len(pairs) > 1:
        split, rows = judged_split(task)
        ones, others = ([pair[side].result.predictions[split] for pair in pairs] for side in (0, 1))
        over_seeds = summarise_ratio(ours, full)
        over_rows = ratio_interval(rows.labels, ones, others, task.metrics[0], groups=rows.groups, draws=DRAWS)
        seen |= {"seeds_low": over_seeds.low, "seeds_high": over_seeds.high}
        seen |= dict(zip(("rows_low", "rows_high"), over_rows or (None, None), strict=True))
    above = (sum(ours) / len(ours) - constant) / (base - constant) if base > constant else None
    return {**seen, "above_constant": above, "majority_share": constant / base}


def _operating_point(encoder: str, depth: int, shares: Sequence[Mapping[str, Cell]], aside: Collection[str]) -> str:
    """How many layers may stay frozen, by the means and with what both intervals show."""
    by_means, shown = (
        most_frozen(shares, columns, aside=aside) for columns in (("share_of_full",), ("seeds_low", "rows_low"))
    )
    if by_means is None:
        return f"{encoder}: full tuning learns none of these tasks (CoLA set aside): there is no share to keep"
    seen = "with one seed nothing is shown" if shown is None else f"both intervals show it for {shown}"
    return (f"{encoder}: {by_means} of {depth} layers may stay frozen and every task keeps {KEEPS:.0%} of full "
            f"tuning's quality by its mean; {seen} (CoLA set aside, as in the paper, and tasks that full tuning does "
            "not learn)")  # fmt: skip


def _mean_shares(ask: Ask, points: Sequence[Measured], learned: Collection[tuple[str, ...]]) -> Table:
    """The mean share over the tasks that full tuning learns, CoLA among them, of each seed."""
    tasks = {task.name: task for task in ask.tasks}
    by_case = group_points(points, ("encoder", "task", "frozen"))
    records: list[dict[str, Cell]] = []
    for encoder, frozen in dict.fromkeys((encoder, frozen) for encoder, _, frozen in by_case):
        raw: list[dict[int, float]] = []  # by task and seed, what each seed adds to the ratio of means
        above: list[dict[int, float]] = []
        for name, task in tasks.items():
            pairs = pair_by_seed(by_case.get((encoder, name, frozen), []), by_case.get((encoder, name, 0), []))
            # What has no share: a metric that falls as quality rises, such as a squared error.
            if (encoder, name) in learned and sum(quality_in_points(other, task) for _, other in pairs) > 0:
                raw.append(_ratios(task, pairs, above=0.0))
                above.append(_ratios(task, pairs, above=constant_quality(task)))
        records.append({"encoder": encoder, "frozen": frozen, "tasks": len(raw),
                        **mean_columns("share_of_full", _over_tasks(raw)),
                        **mean_columns("above_constant", _over_tasks(above))})  # fmt: skip
    notes = ["intervals of 95% over seeds by Student's t, of each seed's mean over tasks"]
    return table_of(
        "mean_share", "Share of full tuning's quality, mean over tasks that it learns", records, notes=notes
    )


def _ratios(task: Task, pairs: Pairs, *, above: float) -> dict[int, float]:
    """By seed what it adds to the ratio of means, of what lies above some quality."""
    ours, full = ([quality_in_points(pair[side], task) - above for pair in pairs] for side in (0, 1))
    return dict(zip((int(one["seed"]) for one, _ in pairs), shares_of_ratio(ours, full), strict=True))


def _over_tasks(by_task: Sequence[Mapping[int, float]]) -> list[float]:
    """Of each seed that all tasks have, the mean over them."""
    seeds = sorted(set.intersection(*(set(of_task) for of_task in by_task))) if by_task else []
    return [sum(of_task[seed] for of_task in by_task) / len(by_task) for seed in seeds]


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


@study(
    paper="5",
    tables=_tables,
    figures=figures,
    tasks=("glue/cola", "glue/sst2", "glue/mrpc", "glue/stsb"),
    seeds=5,
    recipe={"batch": 16, "epochs": 3},
    varies=("epochs",),
    quick={"rates": 1, "step": 3},
    quick_seeds=2,
)
def freeze(ask: Ask, *, rates: int = 5, step: int = 1, frozen_as_released: bool = False) -> Iterator[Point]:
    """How many of the lower layers can stay frozen before quality drops?

    The embeddings and the first N layers stay as pretrained, for N = 0 and N from half of the layers to all of them.
    The learning rate is the one that suits full fine-tuning best on validation, chosen for every seed by itself. The
    operating point is the largest N with which every task keeps 90% of full fine-tuning's quality. RoBERTa trains 10
    epochs, as in the paper, others 3. The tasks are those that the paper has for all its encoders; for BERT-base it has
    the rest of GLUE too, but WNLI.

    Options: `rates`, how many of the paper's learning rates are tried, the highest first; they are for encoders of
    width 768, and narrower ones get higher ones in proportion; `step`, from one N to the next; `frozen_as_released`,
    freeze by the beginning of names as a script did, layers 11 and 12 wherever layer 2 is frozen.
    """
    at_least(1, "freeze", rates=rates, step=step)
    if rates > len(_RATES):
        raise OptionError(f"study freeze: option rates {rates} must be 1..{len(_RATES)}")
    for encoder, task in ask.pairs():
        full, depth = Plan.full(encoder.depth), encoder.depth
        epochs = ask.epochs(10 if encoder.family.name == "roberta" else 3)
        tried = list(dict.fromkeys(ask.rate_for(encoder, rate) for rate in _RATES[-rates:]))
        for seed in range(ask.seeds):
            wholes = [
                ask.point(encoder, task, full, arm="full", seed=seed, learning_rate=rate, epochs=epochs,
                          labels={"frozen": 0}, is_candidate=True)
                for rate in tried
            ]  # fmt: skip
            yield from wholes
            best = ask.best(wholes)
            if best is None:
                continue
            rate = best.spec.recipe.learning_rate
            for frozen in dict.fromkeys((0, *range(depth // 2, depth, step), depth)):
                plan = full if not frozen else Plan(layers=tuple(range(frozen + 1, depth + 1)), head=depth)
                plan = freeze_by_prefix(plan) if frozen_as_released else plan
                arm = "full" if not frozen else f"{frozen} frozen"
                yield ask.point(encoder, task, plan, arm=arm, seed=seed, learning_rate=rate, epochs=epochs,
                                labels={"frozen": frozen})  # fmt: skip
