"""Layer scores and probes before and after fine-tuning, as in Xie et al. 2022 and Tamkin et al. 2020."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError
from frostline.files import provenance
from frostline.progress import Progress
from frostline.records import LayerScores, Plan, TrialResult, TrialSpec
from frostline.scoring.measurement import EXAMPLES, MeasureOptions, measure_layers
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import Rows
from frostline.scoring.to_records import left_out_in_words
from frostline.states.pooled import Pooling
from frostline.studies import Ask, Point, study
from frostline.studies._options import check_at_least, check_choice, check_pooling
from frostline.studies._results import judged_result
from frostline.studies.probing.figures import HELD_OUT, PRETRAINED, TUNED, figures
from frostline.studies.probing.reproduces import COUNTERPARTS
from frostline.studies.probing.tables import tables
from frostline.tasks import Task
from frostline.training.model import as_tuned
from frostline.trials.context import Context, TrialKind
from frostline.trials.run_trial import tune_for

_ROWS = ("validation", "test")
# Learning rates of the head as a probe: those of Xie et al. 2022, and their usual one for other tasks.
_PROBE_RATES = {"glue/qqp": 3e-4, "glue/sst2": 3e-3}
_PROBE_RATE = 1e-3
_CHOOSE_ON = "inner"
_QUICK_SCORES = "variability,variability.crossfit,cca,rank,information,label_similarity,probe.linear,probe.head"


# The trial -----------------------------------------------------------------------------------------------------------


def _score(context: Context, spec: TrialSpec) -> TrialResult:
    """Return the curves of all scores, for the pretrained encoder or after the plan's fine-tuning."""
    base = TrialResult(status="done", versions=provenance.versions())
    encoder = context.shared(spec).encoder
    if spec.options["tuned"]:
        tuned = tune_for(context, spec)
        base, encoder = judged_result(tuned, {}), as_tuned(tuned.tunable)
    measured = _measure(encoder, _with_fewer_rows(context, spec), spec, context.progress)
    values = {
        "curves": {name: list(score.values) for name, score in measured.scores.items()},
        "examples": measured.examples,
        "left_out": left_out_in_words(measured.left_out),
    }
    return replace(base, values=values, seconds={**base.seconds, **measured.seconds})


def _with_fewer_rows(context: Context, spec: TrialSpec) -> Task:
    """Return the task with the training rows that fine-tuning with the same seed uses."""
    task = context.task(spec)
    if spec.train_rows is None:
        return task
    chosen = context.shared(spec).some_rows(spec.train_rows, seed=spec.recipe.seed)
    return replace(task, train=task.train.take(chosen))


def _measure(encoder: Encoder, task: Task, spec: TrialSpec, progress: Progress) -> LayerScores:
    """Return the requested scores, without those that need more rows."""
    requested = str(spec.options["scores"])
    ask = partial(
        MeasureOptions,
        examples=int(spec.options["examples"]),
        rows=cast(Rows, spec.options["rows"]),
        max_length=spec.recipe.max_length,
        pooling=cast(Pooling, spec.options.get("states", "mean")),
        uncertainty=False,
        similarity=False,
        seed=spec.recipe.seed,
    )
    names = [name.strip() for name in requested.split(",")]
    options: dict[str, dict[str, float | str]] = {
        "probe.head": {
            "learning_rate": float(spec.options.get("probe_rate", _PROBE_RATE)),
            "choose_on": str(spec.options.get("choose_on", _CHOOSE_ON)),
        }
    }
    if requested == "all":
        return measure_layers(encoder, task, ask(scores="all", options=options), progress=progress)

    def measure(*scores: str) -> LayerScores:
        own_options = {name: options[name] for name in scores if name in options}
        return measure_layers(encoder, task, ask(scores=list(scores), options=own_options), progress=progress)

    try:
        return measure(*names)
    except MeasureError:
        return _measure_one_by_one(measure, names)


def _measure_one_by_one(measure: Callable[..., LayerScores], names: Sequence[str]) -> LayerScores:
    """Return the scores that these rows allow: one that needs more rows must not prevent the others."""
    measured: list[LayerScores] = []
    left_out: dict[str, str] = {}
    for name in names:
        try:
            measured.append(measure(name))
        except MeasureError as error:
            left_out[name] = str(error)
    if not measured:
        raise MeasureError(left_out_in_words(left_out)[0])
    scores = {name: score for layer_scores in measured for name, score in layer_scores.scores.items()}
    return replace(measured[0], scores=scores, left_out=left_out)


# The study -----------------------------------------------------------------------------------------------------------


@study(
    kinds=[TrialKind(name="probing", run=_score)],
    paper="Xie et al. 2022 and Tamkin et al. 2020",
    reproduces=COUNTERPARTS,
    tables=tables,
    figures=figures,
    tasks=("glue/cola", "glue/mnli", "glue/mrpc", "glue/qnli", "glue/qqp", "glue/sst2"),
    seeds=5,
    recipe={"batch": 8, "epochs": 20, "warmup": 0.06, "dropout": 0.1},
    quick={"scores": _QUICK_SCORES},
    quick_recipe={"epochs": 2},
    quick_seeds=2,
)
def probing(
    ask: Ask,
    *,
    scores: str = "all",
    examples: int = EXAMPLES,
    held_out: str = "validation",
    probe_rate: float = 0.0,
    states: str = "mean",
) -> Iterator[Point]:
    """Do layers with good scores probe well, and does the best layer move up with fine-tuning?

    Every layer score and two probes, an exact linear one and the family's own head, are measured at every layer: for
    the pretrained encoder on training rows, and for the fully fine-tuned one on held-out rows, since it has memorised
    the training rows. The pretrained encoder is also measured on the same held-out rows, so that any shift is due to
    fine-tuning. Unless the recipe sets it, the learning rate is the highest one of Xie et al. 2022, scaled to the
    encoder's width.

    Options: `scores`, 'all' or names joined by commas, at least one probe among them for the table of agreement (scores
    that need more rows are left out); `examples`, maximum number of measured rows; `held_out`, rows on which the tuned
    encoder is measured, 'validation' or 'test'; `probe_rate`, learning rate of the head as a probe, by default that of
    Xie et al. 2022 (1e-3, on QQP 3e-4, on SST-2 3e-3); `states`, how a text's tokens become one vector: the 'mean' of
    all but the first, the 'first', the mean of 'all', or 'released', the mean of ids above 2 as in the released script.
    Under the protocol 'paper' the head's epoch is chosen on the rows that it is judged on.
    """
    for name in () if scores == "all" else scores.split(","):
        LAYER_SCORES[name.strip()]
    check_at_least(2, "probing", examples=examples)
    check_choice("probing", "held_out", held_out, _ROWS)
    check_at_least(0, "probing", probe_rate=probe_rate)  # 0 for the paper's
    arms: Mapping[str, tuple[str, bool]] = {
        PRETRAINED: ("train", False),
        HELD_OUT: (held_out, False),
        TUNED: (held_out, True),
    }
    for encoder, task in ask.pairs():
        # The highest rate of Xie et al. 2022 for full fine-tuning, which is for a width of 1,024.
        rate = ask.recipe.learning_rate or round(2e-5 * 1024 / encoder.width, 7)
        # Newer options are part of a trial only if they differ from the behaviour of older trials.
        later = {
            name: value
            for name, value, before in (
                ("probe_rate", probe_rate or _PROBE_RATES.get(task.preset or "", _PROBE_RATE), _PROBE_RATE),
                ("choose_on", "held-out" if task.protocol == "paper" else _CHOOSE_ON, _CHOOSE_ON),
                ("states", check_pooling("probing", states), "mean"),
            )
            if value != before
        }
        for seed in range(ask.seeds):
            for arm, (rows, is_tuned) in arms.items():
                yield ask.point(
                    encoder,
                    task,
                    Plan.full(encoder.depth) if is_tuned else Plan(layers=(), head=encoder.depth),
                    arm=arm,
                    seed=seed,
                    kind="probing",
                    options={"scores": scores, "examples": examples, "rows": rows, "tuned": is_tuned, **later},
                    learning_rate=rate,
                    epochs=ask.recipe.epochs if is_tuned else 1,
                )
