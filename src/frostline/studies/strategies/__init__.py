"""Plans built around the most specialised layer against simple ones, paper 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from frostline.costs.cost import Costs
from frostline.costs.workload import make_workload
from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError, did_you_mean
from frostline.plans.learning_rates import learning_rate_for, paper_rates
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES, best_layer
from frostline.records import Plan
from frostline.records.cost import Cost
from frostline.records.table import Cell, Table, table_of
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._arms import Arm
from frostline.studies._comparisons import pairs_table
from frostline.studies._limits import at_least
from frostline.studies._quality import quality_table
from frostline.studies._released import one_pooling
from frostline.studies.strategies.figures import figures
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs

_UP_TO_MIDDLE = "up to the middle"
_FEW = (1, 2, 3)  # layers that the paper's short plans tune
_PAPER_WIDTH = 1024  # of the encoder that the paper's learning rates are for
_SHORTER = ("glue/mnli", "glue/qqp")  # on which full fine-tuning has 10 epochs
_LIKE_TOP = ("down", "middle", "random")  # kinds of arms that take the rate of as many of the last layers


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    chosen = [point for point in points if not point.is_candidate]
    quality = quality_table(
        ask,
        chosen,
        name="quality",
        title="Quality of each plan",
        labels=("encoder", "task", "arm", "method"),
        case=("encoder", "task", "method"),
        more=lambda group: {
            "plans": _listed(point["plan"] for point in group),
            "learning_rates": _rates_of(group),
            "layers": len(group[0].spec.plan.layers),
        },
    )
    pairs = pairs_table(ask, chosen, _pairs(), case=("encoder", "task", "method"))
    return [quality, _cost_table(ask, chosen), *pairs]


def _pairs() -> list[tuple[str, str]]:
    """Around the best layer against the last and the middle ones, and with the layers above it against without."""
    found = []
    for count in _FEW:
        ours = Arm(kind="down", layers=count)
        others = (replace(ours, kind="top"), replace(ours, kind="middle"), replace(ours, is_cut=True))
        found += [(str(ours), str(other)) for other in others]
    return found


def _rates_of(group: Sequence[Measured]) -> str:
    return _listed(f"{point.spec.recipe.learning_rate:g}" for point in group)


def _listed(values: Iterable[str]) -> str:
    """Those that differ between seeds, such as random plans, all of them."""
    return "; ".join(dict.fromkeys(values))


def _cost_table(ask: Ask, points: Sequence[Measured]) -> Table:
    """Parameters, arithmetic and time of every plan, once."""
    encoders = {encoder.name: encoder for encoder in ask.encoders}
    tasks = {task.name: task for task in ask.tasks}

    @cache
    def costs(encoder: str, task: str) -> Costs:
        load = make_workload(SharedInputs(encoders[encoder], tasks[task], max_length=ask.recipe.max_length, keep=False))
        if ask.rows is not None:
            load = replace(load, train=load.train[: max(1, round(ask.rows * load.texts_per_row))])
        return Costs(encoders[encoder].config, load, ask.recipe)

    records: dict[tuple[str, ...], Mapping[str, Cell]] = {}
    for point in points:
        key = (point["encoder"], point["task"], point["plan"], point["method"])
        if key in records or not point.is_done:
            continue
        cost: Cost = costs(point["encoder"], point["task"]).of(point.spec.plan)
        labels = ("encoder", "task", "plan", "method")
        same = [one for one in points if one.is_done and key == tuple(one[label] for label in labels)]
        epochs = [one.result.seconds["training"] / one.spec.recipe.epochs for one in same]
        records[key] = {
            "encoder": key[0], "task": key[1], "plan": key[2], "method": key[3],
            "total": cost.total, "trainable": cost.trainable, "latency": cost.latency,
            "epoch_flops": cost.epoch_flops, "epoch_flops_uncached": cost.epoch_flops_uncached,
            "seconds_per_epoch": sum(epochs) / len(epochs),
            "seconds_per_prediction": sum(one.result.seconds["prediction"] for one in same) / len(same),
        }  # fmt: skip
    note = (
        "latency: arithmetic of a prediction, relative to the whole encoder; epochs start from cached frozen states, "
        "predictions from a text's tokens"
    )
    return table_of("costs", "What each plan costs", records.values(), notes=[note])


def plans_of_paper_1(encoder: Encoder, best: int, seed: int) -> Iterator[tuple[Arm, Plan]]:
    """Arms and plans: around the best layer, around the middle one, the last layers, random ones, all."""
    depth = encoder.depth
    yield Arm(kind="full"), Plan.full(depth)
    few = [count for count in _FEW if count < depth]
    for count in few:
        yield Arm(kind="top", layers=count), Plan.span(depth - count + 1, depth, depth)
    for bottom in dict.fromkeys((1, *(best - count + 1 for count in few if count <= best))):
        count = best - bottom + 1
        yield Arm(kind="down", layers=count), Plan.whole_or_span(bottom, best, depth, depth=depth)
        if best < depth:
            yield Arm(kind="down", layers=count, is_cut=True), Plan.span(bottom, best, best)
    if best < depth:
        yield Arm(kind="up"), Plan.span(best + 1, depth, depth)
        middle = (best + 1 + depth) // 2
        if best < middle < depth:
            yield Arm(kind=_UP_TO_MIDDLE), Plan.span(best + 1, middle, depth)
            yield Arm(kind=_UP_TO_MIDDLE, is_cut=True), Plan.span(best + 1, middle, middle)
    for count in few:
        for cut in (False, True):
            plan = STRATEGIES["middle"].plan(depth, None, {"layers": count, "keep_top": not cut})
            if not (cut and plan.head == depth):
                yield Arm(kind="middle", layers=count, is_cut=cut), plan
        yield Arm(kind="random", layers=count), STRATEGIES["random-k"].plan(depth, None, {"k": count}, seed=seed)


def _tried(ask: Ask, plan: Plan, encoder: Encoder, rates: int) -> tuple[float, ...]:
    if ask.recipe.learning_rate is not None:
        return (ask.recipe.learning_rate,)
    if rates < 1:
        return (learning_rate_for(plan, encoder.width),)
    return tuple(float(f"{rate * max(1, _PAPER_WIDTH / encoder.width):.3g}")
                 for rate in paper_rates(plan, encoder.depth)[-rates:])  # fmt: skip


def _methods(given: str) -> list[str]:
    names = [name.strip() for name in given.split("+")]
    for name in names:
        METHODS[name]
    return names


def _arms(given: str, depth: int) -> Sequence[str] | None:
    """The arms that are wanted; all if None. Which there are depends on the best layer, so every one that could be."""
    if given == "all":
        return None
    arms = [Arm(kind="full"), Arm(kind="up"), Arm(kind=_UP_TO_MIDDLE), Arm(kind=_UP_TO_MIDDLE, is_cut=True)]
    arms += [Arm(kind=kind, layers=count) for kind in ("top", "random") for count in _FEW]
    for kind, counts in (("middle", _FEW), ("down", range(1, depth + 1))):
        arms += [Arm(kind=kind, layers=count, is_cut=cut) for count in counts for cut in (False, True)]
    known = list(map(str, arms))
    names = [name.strip() for name in given.split("+")]
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known) or (
                "; there are full, top-K, middle-K, random-K, down-K, up, and up to the middle"
            )
            raise OptionError(f"study strategies: option arms: unknown {name!r}{meant}")
    return names


@study(
    paper="1",
    tables=_tables,
    figures=figures,
    tasks=("glue/cola", "glue/mnli", "glue/mrpc", "glue/qnli", "glue/qqp", "glue/sst2"),
    seeds=5,
    recipe={"batch": 8, "epochs": 20},
    varies=("epochs",),
    quick={"rates": 0, "methods": "full", "arms": "full+top-1+top-2+down-1+down-2+middle-2"},
    quick_recipe={"epochs": 3},
)
def strategies(
    ask: Ask,
    *,
    rates: int = 5,
    reuse: bool = True,
    methods: str = "full+houlsby",
    bottleneck: int = 0,
    arms: str = "all",
    score: str = "variability",
    states: str = "mean",
) -> Iterator[Point]:
    """Do plans built around the most specialised layer beat the last layers, the middle ones and full fine-tuning?

    The best layer is the one with the lowest variability on the training rows. Plans tune it and the ones just below it
    (`down`), with the layers above frozen or cut off, or the layers above it (`up`). Baselines: full fine-tuning, the
    last one to three layers, the middle ones, random ones.

    Options: `rates`, how many of the paper's learning rates each plan tries, the highest first (0: one that suits the
    plan and the encoder); they are for encoders of width 1,024, and narrower ones get higher ones in proportion; the
    best on validation counts, seed by seed; `reuse`, plans below the best layer, middle and random ones take the rate
    of as many of the last layers, as in the paper, where those are among the arms, and all layers up to the best one
    have rates of their own; without it every plan tries its own; `methods`, joined by +, fine-tuning and adapters
    unless set, each compared with its own full tuning; `bottleneck` of adapters, 0 for a quarter of the width, as the
    paper has it; `arms`, joined by +, or all; `score`, the layer score that says which layer is the best; `states`,
    what of a text it looks at: the 'mean' of all tokens but the first, the 'first', 'all', or 'released', the ids above
    2 as the script has it.
    """
    at_least(0, "strategies", rates=rates, bottleneck=bottleneck)
    chosen_methods = _methods(methods)
    for encoder, task in ask.pairs():
        wanted = _arms(arms, encoder.depth)
        best = best_layer(ask.scores(encoder, task, [score], pooling=one_pooling("strategies", states)), score)
        for method in chosen_methods:
            for seed in range(ask.seeds):
                tuned_by = _Method(method, encoder, bottleneck)
                yield from _of_seed(ask, encoder, task, best, tuned_by, seed, rates, wanted, reuse=reuse)


class _Method:
    """How the layers of a plan train, with adapters as wide as was asked."""

    def __init__(self, name: str, encoder: Encoder, bottleneck: int) -> None:
        self.name = name
        has_one = "bottleneck" in METHODS[name].defaults
        self.options = {"bottleneck": bottleneck or max(1, encoder.width // 4)} if has_one else {}

    def of(self, plan: Plan) -> Plan:
        """The plan tuned this way."""
        return replace(plan, method=self.name, options=self.options, embeddings=plan.embeddings and self.name == "full")


def _of_seed(
    ask: Ask,
    encoder: Encoder,
    task: Task,
    best: int,
    method: _Method,
    seed: int,
    rates: int,
    wanted: Sequence[str] | None,
    *,
    reuse: bool,
) -> Iterator[Point]:
    shared: dict[int, float | None] = {}  # by the number of tuned layers, the rate of the last ones
    for arm, full_plan in plans_of_paper_1(encoder, best, seed):
        if wanted is not None and str(arm) not in wanted:
            continue
        plan = method.of(full_plan)
        is_lower_part = bool(plan.layers) and plan.layers[0] == 1 and plan.layers[-1] == plan.head < encoder.depth
        reuses = reuse and arm.kind in _LIKE_TOP and not is_lower_part and len(plan.layers) in shared
        if reuses and shared[len(plan.layers)] is None:
            continue  # the rate of the last layers is not known yet
        tried = (shared[len(plan.layers)],) if reuses else _tried(ask, plan, encoder, rates)
        labels = {"plan": str(plan), "method": method.name, "best_layer": best}
        is_shorter = arm.kind == "full" and method.name == "full" and task.preset in _SHORTER
        epochs = ask.epochs(10 if is_shorter else ask.recipe.epochs)
        points = [
            ask.point(encoder, task, plan, arm=str(arm), seed=seed, learning_rate=rate, epochs=epochs,
                      options={"timed": True}, labels=labels, is_candidate=True)
            for rate in tried
        ]  # fmt: skip
        yield from points
        found = ask.best(points)
        if arm.kind == "top" and not (found is not None and ask.has_failed(found)):
            shared[len(plan.layers)] = None if found is None else found.spec.recipe.learning_rate
        if found is not None:
            yield replace(found, is_candidate=False)
