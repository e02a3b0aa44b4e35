"""Fisher's ranking of layers during fine-tuning, by rows and by heads, paper 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import torch

from frostline.encoders.heads import FamilyHead
from frostline.errors import OptionError
from frostline.files import provenance
from frostline.plans.learning_rates import learning_rate_for
from frostline.progress import Step
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.scoring.fisher.label_weights import LABELS, Label
from frostline.scoring.fisher.sample import FisherSample
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores.fisher import NORMS, Norm
from frostline.studies import Ask, Point, study
from frostline.studies._limits import at_least
from frostline.studies._tables import judged_split
from frostline.studies.ranking.figures import figures
from frostline.studies.ranking.tables import ROWS, TUNING, tables
from frostline.training.execution import tunable_for
from frostline.training.loop import judge, train
from frostline.training.model import Tunable, check_recipe
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs

# The trials ----------------------------------------------------------------------------------------------------------


def _rank_while_tuning(context: Context, spec: TrialSpec) -> TrialResult:
    """The Fisher scores of layers at some epochs of one run of fine-tuning, on the same training rows each time."""
    shared, recipe = context.shared(spec), spec.recipe
    check_recipe(recipe, shared.encoder)
    tunable = tunable_for(shared, spec.plan, recipe)
    rows, validation = shared.examples(tunable, "train"), shared.examples(tunable, "validation")
    if spec.train_rows is not None:
        rows = rows.take(shared.some_rows(spec.train_rows, seed=recipe.seed))
    wanted = set(spec.options["epochs"])
    recipe = replace(recipe, steps=None)  # it is by epochs that rankings are looked at
    found: dict[int, list[float]] = {}

    def look(step: Step) -> None:
        """Called after every step, when the weights have changed and no gradients are held."""
        context.progress(step)
        epoch, rest = divmod(step.done, step.total // recipe.epochs)
        if not rest and epoch in wanted:
            found[epoch] = _scores(tunable, shared, spec, seed=recipe.seed)

    look(Step(stage="training", total=recipe.epochs))
    trained = train(
        tunable,
        rows,
        validation,
        recipe,
        metrics=shared.task.metrics,
        learning_rate=recipe.learning_rate or learning_rate_for(spec.plan, shared.encoder.width),
        progress=look,
    )
    split, _ = judged_split(shared.task)
    outputs, labels = shared.examples(tunable, split).outputs(tunable), shared.task.splits[split].labels
    return TrialResult(
        status="done",
        metrics={split: judge(outputs, torch.tensor(labels), shared.task.metrics, shared.task.kind)},
        predictions={split: decode_outputs(outputs, shared.task.kind)},
        history=trained.history,
        values={"scores": {str(epoch): scores for epoch, scores in sorted(found.items())}},
        parameters={"total": trained.audit.total, "trainable": trained.audit.trainable},
        seconds={"training": round(trained.seconds, 3)},
        versions=provenance.versions(),
    )


def _rank_at_start(context: Context, spec: TrialSpec) -> TrialResult:
    """The Fisher scores of layers before any training, with a head and rows that are drawn independently."""
    shared = context.shared(spec)
    tunable = tunable_for(shared, spec.plan, replace(spec.recipe, seed=int(spec.options["head"])))
    scores = _scores(tunable, shared, spec, seed=spec.recipe.seed)
    return TrialResult(status="done", values={"scores": scores}, versions=provenance.versions())


def _scores(tunable: Tunable, shared: SharedInputs, spec: TrialSpec, *, seed: int) -> list[float]:
    count = int(spec.options["examples"])
    return fisher_scores(
        tunable,
        shared,
        shared.some_rows(count, seed=seed).tolist(),
        label=cast(Label, spec.options["label"]),
        norm=cast(Norm, spec.options["norm"]),
        seed=seed,
    )


def fisher_scores(
    tunable: Tunable, shared: SharedInputs, rows: Sequence[int], *, label: Label, norm: Norm, seed: int
) -> list[float]:
    """The Fisher score of layers 1..L of a model with its own head, as it is now.

    Args:
        tunable: the model; left as it was, but for being in eval mode.
        shared: the inputs of its task.
        rows: places of training rows.
        label: expected over all labels, true, or sampled.
        norm: of the diagonal.
        seed: of sampled labels.
    """
    tunable.eval()
    split = shared.task.train.take(rows).as_rows()
    group = {name: number for number, name in enumerate(dict.fromkeys(split.groups or ()))}
    groups = range(len(split)) if split.groups is None else [group[name] for name in split.groups]
    evidence = Evidence(
        states={},
        labels=torch.tensor(split.labels),
        groups=torch.tensor(groups),
        kind=shared.task.kind,
        metric=shared.task.metrics[0],
        pooling="mean",
        seed=seed,
        encoder=tunable.encoder,
        tokens=tunable.encoder.tokenize(split.texts, split.pairs, max_length=shared.max_length),
    )
    sample = _OwnHead(evidence, tunable, label=label)
    found = []
    for squares in sample.squares():
        sums = squares.sums[0, 0].double()  # squares of squares span more than single precision holds
        size = {"frobenius": sums.norm(), "trace": sums.sum(), "mean": sums.mean()}[norm]
        found.append(float(size) / len(sample))
    return found[::-1]


class _OwnHead(FisherSample):
    """All rows of the evidence, seen by the model's own head in place of a fresh one."""

    def __init__(self, evidence: Evidence, tunable: Tunable, *, label: Label) -> None:
        super().__init__(evidence, label=label, examples=len(evidence), heads=1, blocks=1)
        self._heads = [cast(FamilyHead, tunable.head)]  # a mean-pooled one is called in the same way
        self._labels = evidence.labels  # a trained head has its classes in the task's order


# The study -----------------------------------------------------------------------------------------------------------


@study(
    kinds=[
        TrialKind(name="ranking.tuning", run=_rank_while_tuning),
        TrialKind(name="ranking.start", run=_rank_at_start),
    ],
    paper="2",
    tables=tables,
    figures=figures,
    tasks=("super_glue/cb", "super_glue/wsc", "super_glue/copa", "glue/wnli", "glue/rte"),
    seeds=2,
    recipe={"batch": 16, "epochs": 10, "weight_decay": 0.01, "select": "last"},
    quick={"epochs": "0,1,2", "rows": "25,100", "heads": 2, "draws": 2},
    quick_seeds=2,
)
def ranking(
    ask: Ask,
    *,
    epochs: str = "0,2,5,8,10",
    examples: int = 100,
    rows: str = "25,50,100,400,1600",
    heads: int = 5,
    draws: int = 5,
    rate: float = 5e-5,
    label: str = "expected",
    norm: str = "frobenius",
) -> Iterator[Point]:
    """Does Fisher's ranking of layers stay the same during fine-tuning, and with other rows and heads?

    One run of full fine-tuning is looked at after some epochs, always with the same training rows and the head that the
    run has by then. Before training, the ranking is found again with other numbers of rows, other rows and other heads:
    the head is a fresh one then, and the score depends on it.

    Options: `epochs`, after which layers are ranked, 0 before training, with commas between (training ends with the
    last of them, or where the recipe ends); `examples`, training rows that Fisher is computed on during training;
    `rows`, the numbers of rows before training, cut to those that there are; `heads` and `draws`, how many fresh heads
    and how many draws of rows, each head with each draw; `rate`, the learning rate for encoders of width 768, the
    paper's unless set; narrower ones get a higher one in proportion; `label`, whose gradients are squared: 'expected'
    over all labels as in the paper's equation, the 'true' one, one 'sampled' from the model, or the 'logit' as in the
    paper's script, which also took one row (`examples=1`) and no attention mask (only the layer score
    'fisher.released' leaves that out too); `norm`, of a layer's part of the diagonal: 'frobenius' as in the paper,
    'trace' or 'mean'.
    """
    _check_word("label", label, LABELS)
    _check_word("norm", norm, NORMS)
    said = {"label": label, "norm": norm}
    at = [epoch for epoch in _whole_numbers("epochs", epochs, least=0) if epoch <= ask.recipe.epochs]
    if not at:
        raise OptionError(
            f"study ranking: option epochs {epochs!r} must have one within the recipe's {ask.recipe.epochs}"
        )
    at_least(1, "ranking", examples=examples, heads=heads, draws=draws)
    for encoder, task in ask.pairs():
        plan = Plan.full(encoder.depth)
        have = len(task.train) if ask.rows is None else min(ask.rows, len(task.train))
        for seed in range(ask.seeds):
            options = {"epochs": at, "examples": min(examples, have), **said}
            yield ask.point(encoder, task, plan, arm=TUNING, seed=seed, kind="ranking.tuning", options=options,
                            epochs=max(1, *at), learning_rate=ask.rate_for(encoder, rate),
                            labels={"rows": have, "head": seed})  # fmt: skip
        sizes = dict.fromkeys(min(count, have) for count in _whole_numbers("rows", rows, least=1))
        for size in sizes:
            for head in range(heads):
                for draw in range(draws if size < len(task.train) else 1):  # all rows can be drawn in one way only
                    yield ask.point(encoder, task, Plan(layers=(), head=encoder.depth), arm=ROWS, seed=draw,
                                    kind="ranking.start", options={"examples": size, "head": head, **said},
                                    epochs=1, labels={"rows": size, "head": head})  # fmt: skip


def _check_word(option: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise OptionError(f"study ranking: option {option} {given!r} must be one of {', '.join(known)}")


def _whole_numbers(option: str, given: str, *, least: int) -> list[int]:
    try:
        found = sorted({int(word) for word in given.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < least:
        raise OptionError(f"study ranking: option {option} {given!r} must be whole numbers from {least} with commas")
    return found
