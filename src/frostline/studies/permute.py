"""Shuffling the pretrained layers, as in Tamkin et al. 2020."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import torch

from frostline.records import Plan
from frostline.records.table import Cell, Table, table_of
from frostline.stats.intervals import correlate, shares_of_ratio, summarise
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import add_holm, average_by_seed
from frostline.studies._options import check_at_least
from frostline.studies._permutation_figures import figures
from frostline.studies._permute_reproduces import COUNTERPARTS
from frostline.studies._quality import quality_table
from frostline.studies._released import released_recipe
from frostline.studies._tables import group_done, group_points, is_informative, quality_columns, quality_in_points
from frostline.studies._unstated import TAMKIN_UNSTATED

_FEWEST = 3  # trials of a baseline, so that it has a deviation


def permutations(depth: int, count: int) -> list[list[int]]:
    """Return different orders of the layers, without the usual one; the same for every encoder of that depth."""
    source = torch.Generator().manual_seed(depth)
    draws = [tuple((torch.randperm(depth, generator=source) + 1).tolist()) for _ in range(100 * count)]
    return [list(order) for order in dict.fromkeys(draws) if order != tuple(range(1, depth + 1))][:count]


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    return [
        quality_table(
            ask,
            points,
            name="quality",
            title="Quality with shuffled layers",
            labels=("encoder", "task", "arm", "order"),
        ),
        _orders(ask, points),
        _recovered(ask, points),
        *_correlations(ask, points),
    ]


def _orders(ask: Ask, points: Sequence[Measured]) -> Table:
    """Return the mean over orders with its interval, and the two baselines with twice their deviation either way."""
    records: list[Mapping[str, Cell]] = []
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        task = ask.task(name)
        by_arm = {arm: [quality_in_points(point, task) for point in done]
                  for (arm,), done in group_done(group, ("arm",)).items()}  # fmt: skip
        arms = {arm: by_arm.pop(arm) for arm in ("full", "all new") if arm in by_arm}
        if by_arm:  # one value for each order, so that the interval is that over orders
            arms["all orders"] = [sum(values) / len(values) for values in by_arm.values()]
        for arm, values in arms.items():
            columns = quality_columns(values, task)
            mean, deviation = summarise(values).mean, summarise(values).deviation
            reach = None if arm == "all orders" or deviation is None else 2 * deviation
            records.append({"encoder": encoder, "task": name, "arm": arm, "metric": task.metrics[0],
                            "values": len(values), **columns,
                            "below": None if reach is None else mean - reach,
                            "above": None if reach is None else mean + reach})  # fmt: skip
    return table_of("orders", "The mean over orders, and the two baselines", records, notes=[
        "low, high: 95% interval of the mean, over orders for 'all orders' and over trials for the baselines",
        "below, above: the mean minus and plus twice the standard deviation over trials, as drawn around the baselines",
    ])  # fmt: skip


def _recovered(ask: Ask, points: Sequence[Measured]) -> Table:
    """Return the share of pretraining's gain over random layers that each order keeps, and all orders on average."""
    records: list[Mapping[str, Cell]] = []
    for (encoder, name), group in group_points(points, ("encoder", "task")).items():
        task = ask.task(name)
        by_arm = {
            arm: {int(point["seed"]): quality_in_points(point, task) for point in of_arm if point.is_done}
            for (arm,), of_arm in group_points(group, ("arm",)).items()
        }
        full, new = by_arm.pop("full", {}), by_arm.pop("all new", {})
        informative = is_informative(task, [point for point in group if point["arm"] == "full"])
        shares = {arm: _shares(values, full, new) for arm, values in by_arm.items()}
        seeds = [set(values) for values in by_arm.values() if values]
        is_paired = bool(seeds) and bool(set.intersection(*seeds))
        common = average_by_seed([by_seed for by_seed in shares.values() if by_seed])
        mean = common if is_paired else _all_shares(by_arm, full, new)
        for arm, by_seed in (*shares.items(), ("all orders", mean)):
            if by_seed:
                summary = summarise(list(by_seed.values()))
                records.append({"encoder": encoder, "task": name, "arm": arm, "seeds": summary.count,
                                "recovered": summary.mean, "low": summary.low, "high": summary.high,
                                "informative": informative})  # fmt: skip
    return table_of("recovered", "Share of pretraining's gain that shuffled layers keep", records, notes=[
        "mean gain over seeds divided by that of pretraining; missing if pretrained layers do not beat new ones",
    ])  # fmt: skip


def _shares(values: Mapping[int, float], full: Mapping[int, float], new: Mapping[int, float]) -> dict[int, float]:
    """Return each common seed's contribution to the share of the gain; empty if pretraining has no gain."""
    seeds = [seed for seed in values if seed in full and seed in new]
    kept, gains = ([side[seed] - new[seed] for seed in seeds] for side in (values, full))
    return dict(zip(seeds, shares_of_ratio(kept, gains), strict=True)) if sum(gains) > 0 else {}


def _all_shares(
    by_arm: Mapping[str, Mapping[int, float]], full: Mapping[int, float], new: Mapping[int, float]
) -> dict[int, float]:
    """Return the contribution of every trial of any order, for orders that have no seed in common."""
    trials = [(value, seed) for values in by_arm.values() for seed, value in values.items()]
    return _shares(
        {number: value for number, (value, _) in enumerate(trials)},
        *({number: side[seed] for number, (_, seed) in enumerate(trials) if seed in side} for side in (full, new)),
    )


def _correlations(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return whether the same orders are good on different tasks; no table with a single task."""
    shuffled = {point["arm"] for point in points if "order" in point.spec.surgery}
    means = {
        (encoder, task, arm): sum(quality_in_points(point, ask.task(task)) for point in group) / len(group)
        for (encoder, task, arm), group in group_done(points, ("encoder", "task", "arm")).items()
    }
    records: list[dict[str, Cell]] = []
    for encoder in dict.fromkeys(encoder for encoder, _, _ in means):
        tasks = dict.fromkeys(task for name, task, _ in means if name == encoder)
        for first, second in combinations(tasks, 2):
            arms = [
                arm
                for name, task, arm in means
                if (name, task) == (encoder, first) and (name, second, arm) in means and arm in shuffled
            ]
            columns = [[means[encoder, task, arm] for arm in arms] for task in (first, second)]
            for name, ranks in (("Pearson", False), ("Spearman", True)):
                value, p = correlate(*columns, ranks=ranks)
                records.append({"encoder": encoder, "task": first, "other": second, "correlation": name,
                                "value": value, "p": p, "orders": len(arms)})  # fmt: skip
    table = table_of(
        "correlations",
        "Agreement between tasks on good orders",
        add_holm(records, ("encoder", "correlation")),
        notes=["p_holm: corrected for the pairs of tasks of one encoder"],
    )
    return [table] if table.rows else []


@study(
    paper="Tamkin et al. 2020",
    tables=_tables,
    figures=figures,
    tasks=("glue/sst2", "glue/qnli", "glue/cola"),
    seeds=1,
    varies=("seeds",),
    recipe={"batch": 8, "epochs": 3, "head": "mean", "warmup": 0.0, "select": "last"},
    unstated=TAMKIN_UNSTATED,
    selection="Both protocols keep the last epoch, as the paper trains for a fixed number; nothing is chosen.",
    quick={"orders": 3, "size": 150},
    quick_recipe={"epochs": 2},
    quick_seeds=2,
    reproduces=COUNTERPARTS,
)
def permute(
    ask: Ask,
    *,
    orders: int = 10,
    size: int = 5000,
    rate: float = 2e-5,
    keep_norms: bool = False,
    as_released: bool = False,
) -> Iterator[Point]:
    """Are pretrained layers still useful in another order?

    The layers are shuffled, in the same ways for every task, and everything is tuned with a mean-pooled linear head.
    The intact encoder and one whose layers all start from random weights are tuned for comparison. As in the paper,
    every order is tuned once, each with training rows of its own. The paper does not say how often it tunes the two
    baselines: here once with the rows of each order, at least three times. With a number of seeds, all arms are tuned
    with these seeds.

    Options: `orders`, number of orders, or all if there are fewer; `size`, maximum number of training rows, the paper's
    by default, 0 for all; `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders
    get a proportionally higher rate); `keep_norms`, as in the study reinitialise; `as_released`, as the released script
    instead of the text, as in the study reinitialise.
    """
    check_at_least(1, "permute", orders=orders)
    check_at_least(0, "permute", size=size)
    rows = min((count for count in (size, ask.rows) if count), default=None)
    drawn = {name: True for name, asked in (("keep_norms", keep_norms), ("as_released", as_released)) if asked}
    recipe = released_recipe(ask) if as_released else {}
    for encoder, task in ask.pairs():
        depth = encoder.depth
        shuffled = permutations(depth, orders)
        arms: list[tuple[str, str, Mapping[str, object], Iterable[int]]] = [
            ("full", "", {}, _baseline_seeds(ask, len(shuffled))),
            ("all new", "", {"reinitialise": list(range(1, depth + 1)), **drawn}, _baseline_seeds(ask, len(shuffled))),
            *((f"order {number}", " ".join(map(str, order)), {"order": order}, _order_seeds(ask, number))
              for number, order in enumerate(shuffled, start=1)),
        ]  # fmt: skip
        for arm, shown, surgery, seeds in arms:
            for seed in seeds:
                yield ask.point(
                    encoder, task, Plan.full(depth), arm=arm, seed=seed, rows=rows, surgery=surgery,
                    labels={"order": shown}, **{"learning_rate": ask.rate_for(encoder, rate), **recipe},
                )  # fmt: skip


def _order_seeds(ask: Ask, number: int) -> Iterable[int]:
    """Return the user's seeds, or the one of the paper's trial with this number."""
    return range(ask.seeds) if "seeds" in ask.given else [number - 1]


def _baseline_seeds(ask: Ask, orders: int) -> Iterable[int]:
    return range(ask.seeds if "seeds" in ask.given else max(_FEWEST, orders))
