"""Plans built around the most specialised layer against simple ones, as in Xie et al. 2022."""

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
from frostline.plans.methods._adapters import ACTIVATIONS, INITIALISATIONS
from frostline.plans.strategies import STRATEGIES, best_layer
from frostline.records import Plan
from frostline.records.cost import Cost
from frostline.records.table import Cell, Table, table_of
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._arms import Arm
from frostline.studies._comparisons import pairs_table
from frostline.studies._every_test import for_every_test, split_column
from frostline.studies._options import check_at_least, check_choice, check_pooling
from frostline.studies._quality import quality_table
from frostline.studies._tables import group_done
from frostline.studies.strategies.figures import figures
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs

_UP_TO_MIDDLE = "up to the middle"
_FEW = (1, 2, 3)  # tuned layers of the paper's short plans
_PAPER_WIDTH = 1024  # width of the encoder for which the paper chose its learning rates
_SHORTER = ("glue/mnli", "glue/mnli_mismatched", "glue/mnli_both", "glue/qqp")  # full fine-tuning runs for 10 epochs
_CASE = ("encoder", "task", "method")  # labels that compared arms share
_LIKE_TOP = ("down", "middle", "random")  # kinds of arms that use the rate of as many last layers


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    chosen = [point for point in points if not point.is_candidate]
    # The best layer against last and middle layers, and with or without upper layers.
    compared = [
        (str(Arm(kind="down", layers=count)), str(other))
        for count in _FEW
        for other in (Arm(kind="top", layers=count), Arm(kind="middle", layers=count),
                      Arm(kind="down", layers=count, is_cut=True))
    ]  # fmt: skip
    return [
        quality_table(
            *for_every_test(ask, chosen),
            name="quality",
            title="Quality of each plan",
            labels=("encoder", "task", "arm", "method"),
            case=_CASE,
            more=lambda group: {
                "plans": _list_once(point["plan"] for point in group),
                "learning_rates": _list_once(f"{point.spec.recipe.learning_rate:g}" for point in group),
                "layers": len(group[0].spec.plan.layers),
                **split_column(group),
            },
        ),
        _cost_table(ask, chosen),
        *pairs_table(ask, chosen, compared, case=_CASE),
    ]


def _list_once(values: Iterable[str]) -> str:
    """Return all values that differ between seeds, such as random plans."""
    return "; ".join(dict.fromkeys(values))


def _cost_table(ask: Ask, points: Sequence[Measured]) -> Table:
    """Return parameters, operations and time of every plan."""
    encoders = {encoder.name: encoder for encoder in ask.encoders}

    @cache
    def costs(encoder: str, task: str) -> Costs:
        load = make_workload(
            SharedInputs(encoders[encoder], ask.task(task), max_length=ask.recipe.max_length, keep=False)
        )
        if ask.rows is not None:
            load = replace(load, train=load.train[: max(1, round(ask.rows * load.texts_per_row))])
        return Costs(encoders[encoder].config, load, ask.recipe)

    labels = ("encoder", "task", "plan", "method")
    records: list[Mapping[str, Cell]] = []
    for key, group in group_done(points, labels).items():
        cost: Cost = costs(key[0], key[1]).of(group[0].spec.plan)
        epochs = [point.result.seconds["training"] / point.spec.recipe.epochs for point in group]
        records.append({
            **dict(zip(labels, key, strict=True)),
            "total": cost.total, "trainable": cost.trainable, "latency": cost.latency,
            "epoch_flops": cost.epoch_flops, "epoch_flops_uncached": cost.epoch_flops_uncached,
            "seconds_per_epoch": sum(epochs) / len(epochs),
            "seconds_per_prediction": sum(point.result.seconds["prediction"] for point in group) / len(group),
        })  # fmt: skip
    return table_of("costs", "Cost of each plan", records, notes=[
        "latency: operations of a prediction, relative to the whole encoder; epochs start from cached frozen states, "
        "predictions from a text's tokens",
    ])  # fmt: skip


def plans_of_xie(encoder: Encoder, best: int, seed: int) -> Iterator[tuple[Arm, Plan]]:
    """Yield arms and plans: around the best layer, around the middle one, last, random and all layers."""
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


def _arms(text: str, depth: int) -> Sequence[str] | None:
    """Return the arms of the option; None for all. Any arm that some best layer allows is valid."""
    if text == "all":
        return None
    arms = [Arm(kind="full"), Arm(kind="up"), Arm(kind=_UP_TO_MIDDLE), Arm(kind=_UP_TO_MIDDLE, is_cut=True)]
    arms += [Arm(kind=kind, layers=count) for kind in ("top", "random") for count in _FEW]
    for kind, counts in (("middle", _FEW), ("down", range(1, depth + 1))):
        arms += [Arm(kind=kind, layers=count, is_cut=cut) for count in counts for cut in (False, True)]
    valid = list(map(str, arms))
    names = [name.strip() for name in text.split("+")]
    for name in names:
        if name not in valid:
            kinds = "; choose from full, top-K, middle-K, random-K, down-K, up, and up to the middle"
            raise OptionError(f"study strategies: option arms: unknown {name!r}{did_you_mean(name, valid) or kinds}")
    return names


@study(
    paper="Xie et al. 2022",
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
    activation: str = "relu",
    initialisation: str = "normal",
    arms: str = "all",
    score: str = "variability",
    states: str = "mean",
) -> Iterator[Point]:
    """Do plans built around the most specialised layer beat the last layers, the middle layers and full fine-tuning?

    The best layer is the one with the lowest variability on the training rows. Plans tune it and the layers just below
    it (`down`), with the layers above frozen or cut off, or the layers above it (`up`). Baselines are full fine-tuning,
    the last one to three layers, middle layers and random layers.

    Options: `rates`, number of the paper's learning rates that each plan tries, the highest first, of which each seed
    uses the best on validation (they are for encoders of width 1,024; narrower encoders get proportionally higher
    rates; 0 uses the default rate of the plan and encoder); `reuse`, whether plans below the best layer, middle plans
    and random plans use the rate of as many last layers, as in the paper, if those are among the arms, instead of their
    own (all layers up to the best one always have their own); `methods`, joined by +, fine-tuning and adapters by
    default, each compared with its own full tuning; `bottleneck`, width of adapters, 0 for a quarter of the encoder's
    width, as in the paper; `activation` and `initialisation` of adapters, those of the implementation that the paper
    used, He et al. 2022 ('gelu' and 'truncated' are the defaults of `tune`); `arms`, joined by +, or 'all'; `score`,
    layer score that defines the best layer; `states`, how a text's tokens become one vector: the 'mean' of all but the
    first, the 'first', the mean of 'all', or 'released', the mean of ids above 2 as in the released script.
    """
    check_at_least(0, "strategies", rates=rates, bottleneck=bottleneck)
    check_choice("strategies", "activation", activation, list(ACTIVATIONS))
    check_choice("strategies", "initialisation", initialisation, list(INITIALISATIONS))
    chosen_methods = [METHODS[name.strip()] for name in methods.split("+")]
    for encoder, task in ask.pairs():
        chosen_arms = _arms(arms, encoder.depth)
        best = best_layer(ask.scores(encoder, task, [score], pooling=check_pooling("strategies", states)), score)
        for method in chosen_methods:
            adapters: dict[str, int | str] = {
                "bottleneck": bottleneck or max(1, encoder.width // 4),
                "activation": activation,
                "initialisation": initialisation,
            }
            options = {name: value for name, value in adapters.items() if name in method.defaults}
            for seed in range(ask.seeds):
                plans = [
                    (arm, replace(plan, method=method.name, options=options,
                                  embeddings=plan.embeddings and method.name == "full"))
                    for arm, plan in plans_of_xie(encoder, best, seed)
                    if chosen_arms is None or str(arm) in chosen_arms
                ]  # fmt: skip
                yield from _points_of_seed(ask, encoder, task, plans, seed=seed, rates=rates, reuse=reuse, best=best)


def _points_of_seed(
    ask: Ask,
    encoder: Encoder,
    task: Task,
    plans: Sequence[tuple[Arm, Plan]],
    *,
    seed: int,
    rates: int,
    reuse: bool,
    best: int,
) -> Iterator[Point]:
    shared: dict[int, float | None] = {}  # the rate of the last layers, by their number
    for arm, plan in plans:
        is_lower_part = bool(plan.layers) and plan.layers[0] == 1 and plan.layers[-1] == plan.head < encoder.depth
        reuses = reuse and arm.kind in _LIKE_TOP and not is_lower_part and len(plan.layers) in shared
        if reuses and shared[len(plan.layers)] is None:
            continue  # the rate of the last layers is still unknown
        tried = (shared[len(plan.layers)],) if reuses else _tried(ask, plan, encoder, rates)
        labels = {"plan": str(plan), "method": plan.method, "best_layer": best}
        is_shorter = arm.kind == "full" and plan.method == "full" and task.preset in _SHORTER
        epochs = ask.epochs(10 if is_shorter else ask.recipe.epochs)
        points = [
            ask.point(encoder, task, plan, arm=str(arm), seed=seed, learning_rate=rate, epochs=epochs,
                      options={"timed": True}, labels=labels, is_candidate=True)
            for rate in tried
        ]  # fmt: skip
        yield from points
        chosen = ask.best(points)
        if arm.kind == "top" and not (chosen is not None and ask.has_failed(chosen)):
            shared[len(plan.layers)] = None if chosen is None else chosen.spec.recipe.learning_rate
        if chosen is not None:
            yield replace(chosen, is_candidate=False)
