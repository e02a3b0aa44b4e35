"""Does the order of pretrained layers matter? Paper 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import torch

from frostline.records import Plan
from frostline.runner.statistics import correlate, holm
from frostline.studies import Ask, Measured, Point, study
from frostline.studies.tables import Cell, Table, grouped, quality, quality_table, table_of


def permutations(depth: int, count: int) -> list[list[int]]:
    """So many different orders of the layers, none of them the usual one; the same for every encoder of that depth."""
    usual, found = list(range(1, depth + 1)), []
    source = torch.Generator().manual_seed(depth)
    for _ in range(100 * count):
        order = (torch.randperm(depth, generator=source) + 1).tolist()
        if order != usual and order not in found:
            found.append(order)
        if len(found) == count:
            break
    return found


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    quality_by_arm = quality_table(
        ask, points, name="quality", title="Quality with shuffled layers",
        labels=("encoder", "task", "arm", "order"),
    )  # fmt: skip
    return [quality_by_arm, _recovered(ask, points), _correlations(ask, points)]


def _means(ask: Ask, points: Sequence[Measured]) -> dict[tuple[str, str], dict[str, float]]:
    """By encoder and task, the mean quality of every arm that has one."""
    tasks = {task.name: task for task in ask.tasks}
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (encoder, task, arm), group in grouped(points, ("encoder", "task", "arm")).items():
        done = [quality(point, tasks[task]) for point in group if point.is_done]
        if done:
            found.setdefault((encoder, task), {})[arm] = sum(done) / len(done)
    return found


def _recovered(ask: Ask, points: Sequence[Measured]) -> Table:
    """How much of the way from random to pretrained layers each order keeps."""
    records: list[Mapping[str, Cell]] = []
    for (encoder, task), means in _means(ask, points).items():
        if {"full", "all new"} <= means.keys() and means["full"] != means["all new"]:
            for arm, mean in means.items():
                if arm not in ("full", "all new"):
                    share = (mean - means["all new"]) / (means["full"] - means["all new"])
                    records.append({"encoder": encoder, "task": task, "arm": arm, "recovered": share})
    return table_of("recovered", "Share of what pretraining gives that shuffled layers keep", records)


def _correlations(ask: Ask, points: Sequence[Measured]) -> Table:
    """Whether the same orders are good on different tasks."""
    means = _means(ask, points)
    records: list[dict[str, Cell]] = []
    for encoder in dict.fromkeys(encoder for encoder, _ in means):
        tasks = [task for name, task in means if name == encoder]
        for one, other in combinations(tasks, 2):
            arms = [arm for arm in means[encoder, one] if arm in means[encoder, other] and arm.startswith("order")]
            columns = [[means[encoder, task][arm] for arm in arms] for task in (one, other)]
            for name, ranks in (("Pearson", False), ("Spearman", True)):
                value, p = correlate(*columns, ranks=ranks)
                records.append({"encoder": encoder, "task": one, "other": other, "correlation": name,
                                "value": value, "p": p, "orders": len(arms)})  # fmt: skip
    known = [p if isinstance(p, float) and p == p else None for p in (record["p"] for record in records)]
    for record, corrected in zip(records, holm(known), strict=True):
        record["p_holm"] = corrected
    if not records:
        records = [{"encoder": encoder, "task": task, "other": None} for encoder, task in means]
    return table_of("correlations", "Agreement between tasks on which orders are good", records)


@study(
    paper="3",
    tables=_tables,
    tasks=("glue/sst2", "glue/qnli", "glue/cola"),
    seeds=3,
    recipe={"batch": 8, "epochs": 3, "head": "mean"},
    quick={"orders": 4},
    quick_seeds=2,
)
def permute(ask: Ask, *, orders: int = 10, rate: float = 2e-5) -> Iterator[Point]:
    """Are pretrained layers worth something in another order?

    The layers are shuffled, in the same ways for every task, and everything is tuned with a mean-pooled linear head; so
    are, for comparison, the intact encoder and one whose layers all start from random weights.

    Options: `orders`, how many; `rate`, the learning rate for encoders of width 768, the paper's unless set; narrower
    ones get a higher one in proportion.
    """
    for encoder, task in ask.pairs():
        depth = encoder.depth
        learning_rate = ask.rate_for(encoder, rate)
        arms: list[tuple[str, str, Mapping[str, object]]] = [
            ("full", "", {}),
            ("all new", "", {"reinitialise": list(range(1, depth + 1))}),
        ]
        for number, order in enumerate(permutations(depth, orders), start=1):
            arms.append((f"order {number}", " ".join(map(str, order)), {"order": order}))
        for arm, shown, surgery in arms:
            for seed in range(ask.seeds):
                yield ask.point(
                    encoder, task, Plan.full(depth), arm=arm, seed=seed, surgery=surgery, learning_rate=learning_rate,
                    labels={"order": shown},
                )  # fmt: skip
