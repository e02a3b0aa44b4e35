"""Freezing the lower layers, as in Lee et al. 2019."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from frostline.charts import group_rows
from frostline.encoders.encoder import Encoder
from frostline.encoders.parameter_counts import count_parameters
from frostline.errors import OptionError
from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import ratio_interval, shares_of_ratio, summarise_ratio
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import Pairs, average_by_seed, pair_by_seed, paired_quality
from frostline.studies._every_test import for_every_test, split_column
from frostline.studies._options import check_at_least
from frostline.studies._quality import quality_table
from frostline.studies._released import freeze_by_prefix
from frostline.studies._tables import (
    DRAWS,
    INFORMATIVE,
    constant_quality,
    group_points,
    is_informative,
    judged_split,
    mean_columns,
    quality_in_points,
)
from frostline.studies._unstated import LEE_UNSTATED
from frostline.studies.freeze.figures import KEEPS, figures, most_frozen
from frostline.studies.freeze.reproduces import COUNTERPARTS
from frostline.tasks import Task

_RATES = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)
_SET_ASIDE = "glue/cola"  # keeps 90% at no depth: the paper leaves it out of its operating point


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    once, chosen = ask, [point for point in points if not point.is_candidate]
    ask, judged = for_every_test(ask, chosen)
    full = group_points([point for point in judged if point["frozen"] == 0], ("encoder", "task"))
    learned = {case for case, group in full.items() if is_informative(ask.task(case[1]), group)}
    return [
        quality_table(
            ask,
            judged,
            name="quality",
            title="Quality by the number of frozen layers",
            labels=("encoder", "task", "arm", "frozen"),
            more=lambda group: {"trainable": group[0].result.parameters.get("trainable"), **split_column(group)},
        ),
        _shares(ask, judged, learned),
        _mean_shares(once, chosen, learned),  # a task counts once, however many test splits it has
        _parameters(ask),
    ]


def _shares(ask: Ask, points: Sequence[Measured], learned: Collection[tuple[str, ...]]) -> Table:
    """Return the share of full tuning's quality that each number of frozen layers keeps, by task."""
    depths = {encoder.name: encoder.depth for encoder in ask.encoders}
    by_case = group_points(points, ("encoder", "task", "frozen"))
    records: list[dict[str, Cell]] = []
    for (encoder, name, frozen), group in by_case.items():
        share = _share(ask.task(name), pair_by_seed(group, by_case[encoder, name, 0]))
        if share is not None:
            records.append({"encoder": encoder, "layers": depths[encoder], "task": name, "frozen": frozen, **share,
                            "informative": (encoder, name) in learned, **split_column(group)})  # fmt: skip
    aside = [task.name for task in ask.tasks if task.preset == _SET_ASIDE]
    return table_of(
        "share",
        "Share of full tuning's quality that is kept",
        records,
        notes=[
            "share_of_full: the mean over seeds divided by that of full tuning; above_constant: the same for the part "
            "above the best constant answer, which does not reward chance; majority_share: that answer's own share; "
            "intervals of 95%, over seeds by Student's t and over test rows by a paired bootstrap",
            INFORMATIVE,
            *(_operating_point(encoder, depths[encoder], rows, aside)
              for (encoder,), rows in group_rows(records, "encoder")),
        ],
        settings={"set_aside": aside},
    )  # fmt: skip


def _share(task: Task, pairs: Pairs) -> dict[str, Cell] | None:
    """Return the ratio of means over the common seeds with both intervals; None if full tuning has no quality."""
    ours, full = paired_quality(task, pairs)
    base = sum(full) / len(full) if full else 0.0
    if base <= 0:
        return None
    mean, constant = sum(ours) / len(ours), constant_quality(task)
    columns: dict[str, Cell] = {"seeds": len(pairs), "share_of_full": mean / base}
    columns |= dict.fromkeys(("seeds_low", "seeds_high", "rows_low", "rows_high"))
    if len(pairs) > 1:
        split, rows = judged_split(task)
        ones, others = ([pair[side].result.predictions[split] for pair in pairs] for side in (0, 1))
        over_seeds = summarise_ratio(ours, full)
        over_rows = ratio_interval(rows.labels, ones, others, task.metrics[0], groups=rows.groups, draws=DRAWS)
        columns |= {"seeds_low": over_seeds.low, "seeds_high": over_seeds.high}
        columns |= dict(zip(("rows_low", "rows_high"), over_rows or (None, None), strict=True))
    above = (mean - constant) / (base - constant) if base > constant else None
    return {**columns, "above_constant": above, "majority_share": constant / base}


def _operating_point(encoder: str, depth: int, shares: Sequence[Mapping[str, Cell]], aside: Collection[str]) -> str:
    """Return a note on how many layers can stay frozen, by the means and by both intervals."""
    by_means, shown = (
        most_frozen(shares, columns, aside=aside) for columns in (("share_of_full",), ("seeds_low", "rows_low"))
    )
    if by_means is None:
        return f"{encoder}: full tuning learns none of these tasks (CoLA aside), so there is no share to keep"
    certainty = "one seed cannot show it" if shown is None else f"both intervals show it for {shown}"
    return (f"{encoder}: with {by_means} of {depth} layers frozen every task keeps {KEEPS:.0%} of full tuning's "
            f"quality by its mean; {certainty} (without CoLA, as in the paper, and without tasks that full tuning "
            "does not learn)")  # fmt: skip


def _mean_shares(ask: Ask, points: Sequence[Measured], learned: Collection[tuple[str, ...]]) -> Table:
    """Return the mean share of each seed over the tasks that full tuning learns, CoLA included."""
    by_case = group_points(points, ("encoder", "task", "frozen"))
    records: list[dict[str, Cell]] = []
    for encoder, frozen in dict.fromkeys((encoder, frozen) for encoder, _, frozen in by_case):
        paired = [(task, pair_by_seed(by_case.get((encoder, task.name, frozen), []),
                                      by_case.get((encoder, task.name, 0), [])))
                  for task in ask.tasks if (encoder, task.name) in learned]  # fmt: skip
        # A metric that falls as quality rises, such as a squared error, has no share.
        paired = [(task, pairs) for task, pairs in paired
                  if sum(quality_in_points(full, task) for _, full in pairs) > 0]  # fmt: skip
        raw = average_by_seed([_ratios(task, pairs, above=0.0) for task, pairs in paired])
        above = average_by_seed([_ratios(task, pairs, above=constant_quality(task)) for task, pairs in paired])
        records.append({"encoder": encoder, "frozen": frozen, "tasks": len(paired),
                        **mean_columns("share_of_full", list(raw.values())),
                        **mean_columns("above_constant", list(above.values()))})  # fmt: skip
    return table_of(
        "mean_share",
        "Share of full tuning's quality, mean over the tasks that it learns",
        records,
        notes=["95% intervals over seeds by Student's t, of each seed's mean over tasks"],
    )


def _ratios(task: Task, pairs: Pairs, *, above: float) -> dict[int, float]:
    """Return each seed's contribution to the ratio of means, of the quality above a level."""
    ours, full = ([value - above for value in values] for values in paired_quality(task, pairs))
    return dict(zip((int(point["seed"]) for point, _ in pairs), shares_of_ratio(ours, full), strict=True))


def _parameters(ask: Ask) -> Table:
    """Return the number of parameters in each part of the encoders, like the paper's table."""
    records: list[dict[str, Cell]] = []
    for encoder in ask.encoders:
        counts = count_parameters(encoder.config)
        records.append({"encoder": encoder.name, "embeddings": counts.embeddings, "layer": counts.unrolled[0],
                        "layers": encoder.depth, "output": counts.head, "total": counts.total,
                        "layer_share": counts.unrolled[0] / counts.total,
                        "embeddings_share": counts.embeddings / counts.total})  # fmt: skip
    return table_of("parameters", "Parameters by part", records, notes=["output: the pooler of the bare encoder"])


@study(
    paper="Lee et al. 2019",
    reproduces=COUNTERPARTS,
    tables=_tables,
    figures=figures,
    tasks=("glue/cola", "glue/sst2", "glue/mrpc", "glue/stsb"),
    seeds=5,
    recipe={"batch": 16, "epochs": 3, "warmup": 0.06, "select": "last"},
    unstated=LEE_UNSTATED,
    selection="Both protocols keep the last epoch, since the paper names no other choice; the learning rate is chosen "
    "on validation rows, a part of the training rows, under `protocol='held-out'`, and on the development set, whose "
    "best results the paper reports, under `protocol='paper'`.",
    before={"rate_per_seed": True},
    varies=("epochs",),
    quick={"rates": 1, "step": 3},
    quick_seeds=2,
)
def freeze(
    ask: Ask, *, rates: int = 5, rate_per_seed: bool = False, step: int = 1, frozen_as_released: bool = False
) -> Iterator[Point]:
    """How many of the lower layers can stay frozen before quality drops?

    The embeddings and the first N layers stay as pretrained, for N = 0 and for N from half of the layers to all of
    them. The learning rate is the best one of full fine-tuning on validation. The operating point is the largest N at
    which every task keeps 90% of full fine-tuning's quality. RoBERTa trains for 10 epochs, as in the paper, other
    encoders for 3. The tasks are those that the paper uses for all its encoders; for BERT-base it also uses the rest of
    GLUE except WNLI.

    Options: `rates`, number of the paper's learning rates to try, the highest first (encoders narrower than 768 get
    proportionally higher rates); `rate_per_seed`, choose the rate for each seed by itself, instead of one for all seeds
    by their mean (the paper chooses one for each task, and does not say over which seeds); `step`, difference between
    successive N; `frozen_as_released`, freeze parameters by the beginning of their names as a released script did, so
    that layers 11 and 12 are frozen wherever layer 2 is.
    """
    check_at_least(1, "freeze", rates=rates, step=step)
    if rates > len(_RATES):
        raise OptionError(f"study freeze: option rates {rates} must be 1..{len(_RATES)}")
    seeds = range(ask.seeds)
    for encoder, task in ask.pairs():
        for together in [[seed] for seed in seeds] if rate_per_seed else [list(seeds)]:
            yield from _points(ask, encoder, task, together, rates=_RATES[-rates:], step=step,
                               as_released=frozen_as_released)  # fmt: skip


def _points(
    ask: Ask,
    encoder: Encoder,
    task: Task,
    seeds: Sequence[int],
    *,
    rates: Sequence[float],
    step: int,
    as_released: bool,
) -> Iterator[Point]:
    """Yield the points of seeds that share one learning rate: the candidates of full tuning, then all plans."""
    full, depth = Plan.full(encoder.depth), encoder.depth
    epochs = ask.epochs(10 if encoder.family.name == "roberta" else 3)
    candidates = {
        rate: [
            ask.point(encoder, task, full, arm="full", seed=seed, learning_rate=rate, epochs=epochs,
                      labels={"frozen": 0}, is_candidate=True)
            for seed in seeds
        ]
        for rate in dict.fromkeys(ask.rate_for(encoder, rate) for rate in rates)
    }  # fmt: skip
    yield from (point for of_rate in candidates.values() for point in of_rate)
    best = ask.best_over_seeds(candidates)
    if best is None:
        return
    for seed in seeds:
        for frozen in dict.fromkeys((0, *range(depth // 2, depth, step), depth)):
            plan = full if not frozen else Plan(layers=tuple(range(frozen + 1, depth + 1)), head=depth)
            yield ask.point(encoder, task, freeze_by_prefix(plan) if as_released else plan,
                            arm=f"{frozen} frozen" if frozen else "full", seed=seed, epochs=epochs,
                            learning_rate=best, labels={"frozen": frozen})  # fmt: skip
