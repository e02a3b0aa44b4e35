"""Tuning the layers with the most Fisher information, paper 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from frostline.records import Plan
from frostline.strategies import STRATEGIES
from frostline.studies import Ask, Measured, Point, study
from frostline.studies.released import frozen_by_prefix
from frostline.studies.tables import Cell, Table, grouped, quality, quality_table, table_of

_ALL = (
    "glue/qnli", "glue/sst2", "glue/cola", "glue/mrpc", "glue/rte", "glue/wnli", "glue/stsb", "glue/qqp", "glue/mnli",
    "super_glue/cb", "super_glue/copa", "super_glue/multirc", "super_glue/wic", "super_glue/wsc", "super_glue/boolq",
)  # fmt: skip
_BEST = "top-k, k by validation"


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    tags = {task.name: ", ".join(task.tags) for task in ask.tasks}

    def more(group: Sequence[Measured]) -> Mapping[str, Cell]:
        return {"layers": "; ".join(dict.fromkeys(point["layers"] for point in group)), "tags": tags[group[0]["task"]]}

    table = quality_table(ask, points, name="quality", title="Quality by the layers that are tuned", more=more)
    return [table, _relative(ask, points)]


def _relative(ask: Ask, points: Sequence[Measured]) -> Table:
    """Points above or below full tuning for each arm, a row per task."""
    tasks = {task.name: task for task in ask.tasks}
    records: list[Mapping[str, Cell]] = []
    for (encoder, name), group in grouped(points, ("encoder", "task")).items():
        full = {
            point["seed"]: quality(point, tasks[name]) for point in group if point["arm"] == "full" and point.is_done
        }
        record: dict[str, Cell] = {"encoder": encoder, "task": name, "tags": ", ".join(tasks[name].tags)}
        for (arm,), mine in grouped(group, ("arm",)).items():
            gaps = [
                quality(one, tasks[name]) - full[one["seed"]] for one in mine if one.is_done and one["seed"] in full
            ]
            if arm != "full":
                record[arm] = sum(gaps) / len(gaps) if gaps else None
        records.append(record)
    return table_of("relative", "Points above or below full tuning", records)


@study(
    paper="2",
    tables=_tables,
    tasks=_ALL,
    seeds=2,
    recipe={"batch": 16, "epochs": 10, "weight_decay": 0.01},
    quick={"most": 2},
    quick_seeds=1,
)
def surgical(
    ask: Ask, *, most: int = 5, rate: float = 5e-5, score: str = "fisher", frozen_as_released: bool = False
) -> Iterator[Point]:
    """Is it enough to tune the few layers with the most Fisher information?

    Layers are ranked by their Fisher information on the training rows; the best 1 to `most` of them are tuned, wherever
    they lie, and for comparison the worst one, as many random ones, as many of the last ones, and all. How many are
    taken is also chosen on validation. Quality is given as points above or below full tuning, and tasks carry the
    linguistic features and kinds of shift that the paper discusses.

    Options: `most`, layers at most; `rate`, the learning rate for encoders of width 768, the paper's unless set;
    narrower ones get a higher one in proportion; `score`, the layer score that ranks layers: 'fisher' as the paper
    says, 'fisher.released' as its script took it, or any other; `frozen_as_released`, freeze by the beginning of names
    as a script did, layers 11 and 12 wherever layer 2 is frozen.
    """
    for encoder, task in ask.pairs():
        scores, depth = ask.scores(encoder, task, [score]), encoder.depth
        counts = range(1, min(most, depth - 1) + 1)
        learning_rate = ask.rate_for(encoder, rate)
        for seed in range(ask.seeds):
            arms = {"full": Plan.full(depth)}
            arms |= {
                f"top-{k}": STRATEGIES["fisher-top-k"].plan(depth, scores, {"k": k, "score": score}) for k in counts
            }
            arms |= {"bottom-1": STRATEGIES["fisher-bottom-k"].plan(depth, scores, {"k": 1, "score": score})}
            arms |= {f"random-{k}": STRATEGIES["random-k"].plan(depth, None, {"k": k}, seed=seed) for k in counts}
            arms |= {f"last-{k}": STRATEGIES["top-k"].plan(depth, None, {"k": k}) for k in counts}
            if frozen_as_released:
                arms = {arm: frozen_by_prefix(plan) for arm, plan in arms.items()}
            points = {
                arm: ask.point(encoder, task, plan, arm=arm, seed=seed, learning_rate=learning_rate,
                               labels={"layers": "+".join(map(str, plan.layers))})
                for arm, plan in arms.items()
            }  # fmt: skip
            yield from points.values()
            best = ask.best([points[f"top-{k}"] for k in counts])
            if best is not None:
                yield Point(spec=best.spec, labels={**best.labels, "arm": _BEST})
