"""Plans built around the most specialised layer against simple ones, as in Xie et al. 2022."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean

from frostline.costs.cost import Costs
from frostline.costs.workload import make_workload
from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError, did_you_mean
from frostline.plans.learning_rates import learning_rate_for, paper_rates
from frostline.plans.methods import METHODS, Method
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
from frostline.studies._tables import group_done, judged_split
from frostline.studies._unstated import XIE_UNSTATED
from frostline.studies._xie import SHORTER_TASKS
from frostline.studies.strategies.figures import figures
from frostline.studies.strategies.reproduces import COUNTERPARTS
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.step_timing import STEPS

_UP_TO_MIDDLE = "up to the middle"
_FEW = (1, 2, 3)  # tuned layers of the paper's short plans
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
            **_timed_epochs(group),
            "seconds_per_prediction": sum(point.result.seconds["prediction"] for point in group) / len(group),
            "seconds_of_inference": _inference_seconds(ask.task(key[1]), group),
        })  # fmt: skip
    return table_of("costs", "Cost of each plan", records, notes=[
        "latency: operations of a prediction, relative to the whole encoder; epochs start from cached frozen states, "
        "predictions from a text's tokens; seconds of inference: on all judged rows, from those of a few",
        *([f"seconds per epoch, cached and uncached: the mean of {STEPS} training steps on the same batches, times the "
           "steps of an epoch; uncached, every step runs through the frozen layers as well"]
          if any(record["seconds_per_epoch_uncached"] is not None for record in records) else []),
    ])  # fmt: skip


def _timed_epochs(group: Sequence[Measured]) -> dict[str, Cell]:
    """Return the seconds of an epoch from the cache and without it, from a few steps; None if they were not timed."""
    timed: list[Mapping[str, float]] = [point.result.values.get("epoch_seconds", {}) for point in group]
    seconds = {way: [one[way] for one in timed if way in one] for way in ("cached", "uncached")}
    return {f"seconds_per_epoch_{way}": fmean(values) if values else None for way, values in seconds.items()}


def _inference_seconds(task: Task, group: Sequence[Measured]) -> float:
    """Return the seconds of predicting all judged rows, each text through all kept layers."""
    return len(judged_split(task)[1].as_rows()) * fmean(point.result.seconds["prediction"] for point in group)


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
    if rates < 1:
        return (ask.recipe.learning_rate or learning_rate_for(plan, encoder.width),)
    tried = paper_rates(plan, encoder.depth)[-rates:]
    return tuple(dict.fromkeys(ask.rate_for(encoder, rate) for rate in tried))


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
    reproduces=COUNTERPARTS,
    tables=_tables,
    figures=figures,
    tasks=("glue/cola", "glue/mnli", "glue/mrpc", "glue/qnli", "glue/qqp", "glue/sst2"),
    seeds=5,
    recipe={"batch": 8, "epochs": 20, "warmup": 0.06, "dropout": 0.1, "select": "best"},
    unstated=XIE_UNSTATED,
    selection="The best epoch is kept and the learning rate is chosen on validation rows, a part of the training rows, "
    "under `protocol='held-out'`, and both on the development set, as in the paper, under `protocol='paper'`.",
    before={
        "rate_per_seed": True,
        "examples": 5000,
        "timed_uncached": False,
        "activation": "gelu",
        "initialisation": "truncated",
    },
    varies=("epochs",),
    quick={"rates": 0, "methods": "full", "arms": "full+top-1+top-2+down-1+down-2+middle-2", "timed_uncached": False},
    quick_recipe={"epochs": 3},
)
def strategies(
    ask: Ask,
    *,
    rates: int = 5,
    rate_per_seed: bool = False,
    reuse: bool = True,
    methods: str = "full+houlsby",
    bottleneck: int = 0,
    activation: str = "relu",
    initialisation: str = "normal",
    arms: str = "all",
    score: str = "variability",
    states: str = "mean",
    examples: int = 0,
    timed_uncached: bool = True,
) -> Iterator[Point]:
    """Do plans built around the most specialised layer beat the last layers, the middle layers and full fine-tuning?

    The best layer is the one with the lowest variability on the training rows. Plans tune it and the layers just below
    it (`down`), with the layers above frozen or cut off, or the layers above it (`up`). Baselines are full fine-tuning,
    the last one to three layers, middle layers and random layers.

    Options: `rates`, number of the paper's learning rates that each plan tries, the highest first (encoders narrower
    than 768 get proportionally higher rates; 0 uses the default rate of the plan and encoder); `rate_per_seed`, choose
    the rate for each seed by itself, instead of one for all seeds by their mean on validation (the paper chooses one
    for each task and plan, and does not say over which seeds); `reuse`, whether plans below the best layer, middle
    plans and random plans use the rate of as many last layers, as in the paper, if those are among the arms, instead of
    their own (all layers up to the best one always have their own); `methods`, joined by +, fine-tuning and adapters by
    default, each compared with its own full tuning; `bottleneck`, width of adapters, 0 for a quarter of the encoder's
    width, as in the paper; `activation` and `initialisation` of adapters, those of the implementation that the
    paper used, He et al. 2022 ('gelu' and 'truncated' are the defaults of `tune`); `arms`, joined by +, or 'all';
    `score`, layer score that defines the best layer; `states`, how a text's tokens become one vector: the 'mean' of
    all but the first, the 'first', the mean of 'all', or 'released', the mean of ids above 2 as in the released
    script; `examples`, number of training rows from which the best layer is measured, 0 for all of them as in the paper
    (scores that cannot be computed as a stream take at most 5,000); `timed_uncached`, time a few steps of every trial
    with and without the cache of frozen states, for the table of costs.
    """
    check_at_least(0, "strategies", rates=rates, bottleneck=bottleneck, examples=examples)
    check_choice("strategies", "activation", activation, list(ACTIVATIONS))
    check_choice("strategies", "initialisation", initialisation, list(INITIALISATIONS))
    chosen_methods = [METHODS[name.strip()] for name in methods.split("+")]
    seeds = range(ask.seeds)
    timed = {"timed": True, **({"timed_uncached": True} if timed_uncached else {})}
    for encoder, task in ask.pairs():
        chosen_arms = _arms(arms, encoder.depth)
        scores = ask.scores(encoder, task, [score], pooling=check_pooling("strategies", states), examples=examples)
        best = best_layer(scores, score)
        adapters: dict[str, int | str] = {
            "bottleneck": bottleneck or max(1, encoder.width // 4),
            "activation": activation,
            "initialisation": initialisation,
        }
        for method in chosen_methods:
            plans = {seed: _plans_with(method, adapters, encoder, best, chosen_arms, seed=seed) for seed in seeds}
            for together in [[seed] for seed in seeds] if rate_per_seed else [list(seeds)]:
                arms_together = {seed: plans[seed] for seed in together}
                yield from _points(ask, encoder, task, arms_together, rates=rates, reuse=reuse, best=best, timed=timed)


def _plans_with(
    method: Method,
    adapters: Mapping[str, int | str],
    encoder: Encoder,
    best: int,
    arms: Sequence[str] | None,
    *,
    seed: int,
) -> dict[Arm, Plan]:
    """Return the plans of the arms with a method; those of adapters with their options."""
    options = {name: value for name, value in adapters.items() if name in method.defaults}
    return {
        arm: replace(plan, method=method.name, options=options, embeddings=plan.embeddings and method.name == "full")
        for arm, plan in plans_of_xie(encoder, best, seed)
        if arms is None or str(arm) in arms
    }


def _points(
    ask: Ask,
    encoder: Encoder,
    task: Task,
    plans: Mapping[int, Mapping[Arm, Plan]],
    *,
    rates: int,
    reuse: bool,
    best: int,
    timed: Mapping[str, bool],
) -> Iterator[Point]:
    """Yield the points of seeds that have one learning rate per arm; `plans` has the arms of each seed."""
    shared: dict[int, float | None] = {}  # the rate of the last layers, by their number
    for arm, plan in next(iter(plans.values())).items():  # only random plans differ between seeds, not in their number
        is_lower_part = bool(plan.layers) and plan.layers[0] == 1 and plan.layers[-1] == plan.head < encoder.depth
        reuses = reuse and arm.kind in _LIKE_TOP and not is_lower_part and len(plan.layers) in shared
        if reuses and shared[len(plan.layers)] is None:
            continue  # the rate of the last layers is still unknown
        tried = (shared[len(plan.layers)],) if reuses else _tried(ask, plan, encoder, rates)
        is_shorter = arm.kind == "full" and plan.method == "full" and task.preset in SHORTER_TASKS
        epochs = ask.epochs(10 if is_shorter else ask.recipe.epochs)
        points = {
            rate: [
                ask.point(encoder, task, of_seed[arm], arm=str(arm), seed=seed, learning_rate=rate, epochs=epochs,
                          options=timed, is_candidate=True,
                          labels={"plan": str(of_seed[arm]), "method": plan.method, "best_layer": best})
                for seed, of_seed in plans.items()
            ]
            for rate in tried
        }  # fmt: skip
        yield from (point for of_rate in points.values() for point in of_rate)
        rate = ask.best_over_seeds(points)
        if arm.kind == "top" and not (rate is not None and all(map(ask.has_failed, points[rate]))):
            shared[len(plan.layers)] = rate
        if rate is not None:
            yield from (replace(point, is_candidate=False) for point in points[rate])
