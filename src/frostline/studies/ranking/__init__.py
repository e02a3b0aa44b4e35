"""The Fisher ranking of layers during fine-tuning, with other rows and other heads, as in Lodha et al. 2023."""

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
from frostline.studies._lodha import FISHER_ROWS, LODHA_METRICS, LODHA_TASKS
from frostline.studies._options import check_at_least, check_choice, read_numbers
from frostline.studies._tables import judged_split
from frostline.studies._unstated import LODHA_UNSTATED
from frostline.studies.ranking.figures import figures
from frostline.studies.ranking.reproduces import COUNTERPARTS
from frostline.studies.ranking.tables import ROWS, TUNING, tables
from frostline.training.execution import tunable_for
from frostline.training.loop import judge, train
from frostline.training.model import Tunable, check_recipe
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs

# The trials ----------------------------------------------------------------------------------------------------------


def _rank_while_tuning(context: Context, spec: TrialSpec) -> TrialResult:
    """Return the Fisher scores of layers at some epochs of one fine-tuning run, always on the same training rows."""
    shared, recipe = context.shared(spec), spec.recipe
    check_recipe(recipe, shared.encoder)
    tunable = tunable_for(shared, spec.plan, recipe)
    rows, validation = shared.examples(tunable, "train"), shared.examples(tunable, "validation")
    if spec.train_rows is not None:
        rows = rows.take(shared.some_rows(spec.train_rows, seed=recipe.seed))
    recipe = replace(recipe, steps=None)  # rankings are taken by epochs
    by_epoch: dict[int, list[float]] = {}

    def rank_layers(step: Step) -> None:
        """Called after every step, when the weights have changed and no gradients are held."""
        context.progress(step)
        epoch, remainder = divmod(step.done, step.total // recipe.epochs)
        if not remainder and epoch in spec.options["epochs"]:
            by_epoch[epoch] = _scores(tunable, shared, spec, seed=recipe.seed)

    rank_layers(Step(stage="training", total=recipe.epochs))
    trained = train(
        tunable,
        rows,
        validation,
        recipe,
        metrics=shared.task.metrics,
        learning_rate=recipe.learning_rate or learning_rate_for(spec.plan, shared.encoder.width),
        progress=rank_layers,
    )
    split, _ = judged_split(shared.task)
    outputs, labels = shared.examples(tunable, split).outputs(tunable), shared.task.splits[split].labels
    return TrialResult(
        status="done",
        metrics={split: judge(outputs, torch.tensor(labels), shared.task.metrics, shared.task.kind)},
        predictions={split: decode_outputs(outputs, shared.task.kind)},
        history=trained.history,
        values={"scores": {str(epoch): scores for epoch, scores in sorted(by_epoch.items())}},
        parameters={"total": trained.audit.total, "trainable": trained.audit.trainable},
        seconds={"training": round(trained.seconds, 3)},
        versions=provenance.versions(),
    )


def _rank_at_start(context: Context, spec: TrialSpec) -> TrialResult:
    """Return the Fisher scores of layers before training, with a head and rows that are drawn independently."""
    shared = context.shared(spec)
    tunable = tunable_for(shared, spec.plan, replace(spec.recipe, seed=int(spec.options["head"])))
    scores = _scores(tunable, shared, spec, seed=spec.recipe.seed)
    return TrialResult(status="done", values={"scores": scores}, versions=provenance.versions())


def _scores(tunable: Tunable, shared: SharedInputs, spec: TrialSpec, *, seed: int) -> list[float]:
    split = str(spec.options.get("fisher_rows", "train"))
    return fisher_scores(
        tunable,
        shared,
        shared.some_rows(int(spec.options["examples"]), seed=seed, of=split).tolist(),
        split=split,
        label=cast(Label, spec.options["label"]),
        norm=cast(Norm, spec.options["norm"]),
        seed=seed,
    )


def fisher_scores(
    tunable: Tunable,
    shared: SharedInputs,
    rows: Sequence[int],
    *,
    split: str = "train",
    label: Label,
    norm: Norm,
    seed: int,
) -> list[float]:
    """Return the Fisher scores of layers 1..L of a model with its own head, in its current state.

    Args:
        tunable: the model; switched to eval mode, otherwise unchanged.
        shared: the inputs of its task.
        rows: indices of rows of the split.
        split: name of the split.
        label: which labels' gradients are squared.
        norm: norm of a layer's part of the diagonal.
        seed: seed of sampled labels.
    """
    tunable.eval()
    texts = shared.task.splits[split].take(rows).as_rows()
    group = {name: number for number, name in enumerate(dict.fromkeys(texts.groups or ()))}
    groups = range(len(texts)) if texts.groups is None else [group[name] for name in texts.groups]
    evidence = Evidence(
        states={},
        labels=torch.tensor(texts.labels),
        groups=torch.tensor(groups),
        kind=shared.task.kind,
        metric=shared.task.metrics[0],
        pooling="mean",
        seed=seed,
        encoder=tunable.encoder,
        tokens=tunable.encoder.tokenize(texts.texts, texts.pairs, max_length=shared.max_length),
    )
    sample = _OwnHead(evidence, tunable, label=label)
    scores = []
    for squares in sample.squares():
        sums = squares.sums[0, 0].double()  # squares of squares exceed the range of single precision
        size = {"frobenius": sums.norm(), "trace": sums.sum(), "mean": sums.mean()}[norm]
        scores.append(float(size) / len(sample))
    return scores[::-1]


class _OwnHead(FisherSample):
    """All rows of the evidence, read by the model's own head instead of a fresh one."""

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
    paper="Lodha et al. 2023",
    reproduces=COUNTERPARTS,
    tables=tables,
    figures=figures,
    tasks=LODHA_TASKS,
    metrics=LODHA_METRICS,
    seeds=2,
    recipe={"batch": 16, "epochs": 10, "weight_decay": 0.01, "warmup": 0.0, "select": "last"},
    unstated=LODHA_UNSTATED,
    selection="Both protocols keep the last epoch, and nothing is chosen: layers are ranked after given epochs.",
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
    fisher_rows: str = "train",
) -> Iterator[Point]:
    """Does the Fisher ranking of layers stay the same during fine-tuning, and with other rows and heads?

    Layers are ranked after some epochs of one full fine-tuning run, always on the same rows and with the current head.
    Before training, layers are also ranked with other numbers of rows, other rows and other heads: the head is then a
    fresh one, and the score depends on it.

    Options: `epochs`, epochs after which layers are ranked, joined by commas, 0 for before training (training ends with
    the last of them or with the recipe); `examples`, number of rows for Fisher scores during training; `rows`, numbers
    of rows before training, at most all rows; `heads` and `draws`, number of fresh heads and of draws of rows, each
    head with each draw; `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders get
    a proportionally higher rate); `label`, whose gradients are squared: 'expected' over all labels as in the paper's
    equation, the 'true' label, one 'sampled' from the model, or the 'logit' as in the released script, which also used
    a single row (`examples=1`) and no attention mask (only the layer score 'fisher.released' omits the mask as well);
    `norm`, norm of a layer's part of the diagonal: 'frobenius' as in the paper, 'trace' or 'mean'; `fisher_rows`,
    'train', or 'validation' as in the paper's text, which takes 100 rows of the validation set (its appendix says that
    the validation sets were also trained on; here the validation rows are a part of the training rows that is not
    trained on, and under `protocol='paper'` the development set).
    """
    check_choice("ranking", "label", label, LABELS)
    check_choice("ranking", "norm", norm, NORMS)
    check_choice("ranking", "fisher_rows", fisher_rows, FISHER_ROWS)
    # Newer options are part of a trial only if they differ from the behaviour of older trials.
    fisher = {"label": label, "norm": norm, **({"fisher_rows": fisher_rows} if fisher_rows != "train" else {})}
    ranked = sorted({epoch for epoch in read_numbers("ranking", "epochs", epochs, least=0)
                     if epoch <= ask.recipe.epochs})  # fmt: skip
    if not ranked:
        raise OptionError(f"study ranking: option epochs {epochs!r} must include one up to the recipe's last, "
                          f"{ask.recipe.epochs}")  # fmt: skip
    check_at_least(1, "ranking", examples=examples, heads=heads, draws=draws)
    for encoder, task in ask.pairs():
        trained = len(task.train) if ask.rows is None else min(ask.rows, len(task.train))
        all_rows = len(task.splits[fisher_rows])
        available = trained if fisher_rows == "train" else all_rows
        for seed in range(ask.seeds):
            yield ask.point(encoder, task, Plan.full(encoder.depth), arm=TUNING, seed=seed, kind="ranking.tuning",
                            options={"epochs": ranked, "examples": min(examples, available), **fisher},
                            epochs=max(1, *ranked), learning_rate=ask.rate_for(encoder, rate),
                            labels={"rows": trained, "head": seed})  # fmt: skip
        for size in sorted({min(count, available) for count in read_numbers("ranking", "rows", rows, least=1)}):
            for head in range(heads):
                for draw in range(draws if size < all_rows else 1):  # there is only one draw of all rows
                    yield ask.point(encoder, task, Plan(layers=(), head=encoder.depth), arm=ROWS, seed=draw,
                                    kind="ranking.start", options={"examples": size, "head": head, **fisher},
                                    epochs=1, labels={"rows": size, "head": head})  # fmt: skip
