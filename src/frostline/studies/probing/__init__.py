"""Layer scores next to probes, before and after fine-tuning, papers 1 and 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError, OptionError
from frostline.files import provenance
from frostline.progress import Progress
from frostline.records import LayerScores, Plan, TrialResult, TrialSpec
from frostline.scoring.measurement import EXAMPLES, MeasureOptions, measure_layers
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import Rows
from frostline.scoring.to_records import left_out_in_words
from frostline.states.pooled import Pooling
from frostline.studies import Ask, Point, study
from frostline.studies._limits import at_least
from frostline.studies._released import one_pooling
from frostline.studies._tables import judged_split
from frostline.studies.probing.figures import HELD_OUT as HELD_OUT
from frostline.studies.probing.figures import PRETRAINED as PRETRAINED
from frostline.studies.probing.figures import TUNED as TUNED
from frostline.studies.probing.figures import figures
from frostline.studies.probing.tables import tables
from frostline.tasks import Task
from frostline.training.model import as_tuned
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import result_of
from frostline.trials.run_trial import tune_for

_ROWS = ("validation", "test")
# Of the head's probe: paper 1's for its tasks, and what most of them have for any other.
_PROBE_RATES = {"glue/qqp": 3e-4, "glue/sst2": 3e-3}
_PROBE_RATE = 1e-3
_CHOOSE_ON = "inner"
_QUICK_SCORES = "variability,variability.crossfit,cca,rank,information,label_similarity,probe.linear,probe.head"


# The trial -----------------------------------------------------------------------------------------------------------


def _score(context: Context, spec: TrialSpec) -> TrialResult:
    """The curves of all scores, for the encoder as it is or after the plan's fine-tuning."""
    base = TrialResult(status="done", versions=provenance.versions())
    encoder = context.shared(spec).encoder
    if spec.options["tuned"]:
        tuned = tune_for(context, spec)
        split, _ = judged_split(tuned.task)
        base, encoder = result_of(tuned), as_tuned(tuned.tunable)
        base = replace(base, predictions={split: base.predictions[split]})
    found = _measured(encoder, _with_fewer_rows(context, spec), spec, context.progress)
    values = {
        "curves": {name: list(score.values) for name, score in found.scores.items()},
        "examples": found.examples,
        "left_out": left_out_in_words(found.left_out),
    }
    return replace(base, values=values, seconds={**base.seconds, **found.seconds})


def _with_fewer_rows(context: Context, spec: TrialSpec) -> Task:
    """The task with the training rows that fine-tuning with the same seed learns from."""
    task = context.task(spec)
    if spec.train_rows is None:
        return task
    chosen = context.shared(spec).some_rows(spec.train_rows, seed=spec.recipe.seed)
    return replace(task, train=task.train.take(chosen))


def _measured(encoder: Encoder, task: Task, spec: TrialSpec, progress: Progress) -> LayerScores:
    """The scores asked for, without those that these rows do not allow."""
    wanted = str(spec.options["scores"])
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
    names = [name.strip() for name in wanted.split(",")]
    options: dict[str, dict[str, float | str]] = {
        "probe.head": {
            "learning_rate": float(spec.options.get("probe_rate", _PROBE_RATE)),
            "choose_on": str(spec.options.get("choose_on", _CHOOSE_ON)),
        }
    }
    if wanted == "all":
        return measure_layers(encoder, task, ask(scores="all", options=options), progress=progress)
    try:
        asked = ask(scores=names, options={name: given for name, given in options.items() if name in names})
        return measure_layers(encoder, task, asked, progress=progress)
    except MeasureError:
        return _one_by_one(
            lambda name, given: measure_layers(encoder, task, ask(scores=[name], options=given), progress=progress),
            names,
            options,
        )


def _one_by_one(
    ask: Callable[..., LayerScores], names: Sequence[str], options: Mapping[str, Mapping[str, float | str]]
) -> LayerScores:
    """The scores that can be had: one that needs more rows must not take the others with it."""
    found: list[LayerScores] = []
    left_out: dict[str, str] = {}
    for name in names:
        try:
            found.append(ask(name, {name: options[name]} if name in options else {}))
        except MeasureError as error:
            left_out[name] = str(error)
    if not found:
        raise MeasureError(left_out_in_words(left_out)[0])
    scores = {name: score for one in found for name, score in one.scores.items()}
    return replace(found[0], scores=scores, left_out=left_out)


# The study -----------------------------------------------------------------------------------------------------------


@study(
    kinds=[TrialKind(name="probing", run=_score)],
    paper="1 and 3",
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

    Every layer score and two probes, an exact linear one and the family's own head, at every layer: of the pretrained
    encoder on training rows, and of the fully fine-tuned one on rows that it was not tuned on, since it knows those by
    heart. The pretrained encoder is measured on the same held-out rows too, so that what moves is due to fine-tuning.
    Unless the recipe has a learning rate, it is the highest of the paper's, made to suit the encoder's width.

    Options: `scores`, all of them, or names with commas between (the probes among them, for there to be an agreement);
    those that need more rows than there are get left out; `examples`, rows that are measured at most; `held_out`, the
    rows on which the tuned encoder is measured, validation or test; `probe_rate`, the learning rate of the head that is
    trained as a probe, the paper's unless set (1e-3, on QQP 3e-4, on SST-2 3e-3); `states`, what of a text scores and
    probes look at: the 'mean' of all tokens but the first, the 'first', 'all', or 'released', the ids above 2 as the
    script has it. Under the protocol 'paper' that probe's epoch is the one that is best on the rows it is judged on.
    """
    for name in () if scores == "all" else scores.split(","):
        LAYER_SCORES[name.strip()]
    at_least(2, "probing", examples=examples)
    if held_out not in _ROWS:
        raise OptionError(f"study probing: option held_out {held_out!r} must be one of {', '.join(_ROWS)}")
    at_least(0, "probing", probe_rate=probe_rate)  # 0 is the paper's
    arms: Mapping[str, tuple[str, bool]] = {
        PRETRAINED: ("train", False),
        HELD_OUT: (held_out, False),
        TUNED: (held_out, True),
    }
    for encoder, task in ask.pairs():
        # The highest of the paper's rates for full fine-tuning, which are for a width of 1,024.
        rate = ask.recipe.learning_rate or round(2e-5 * 1024 / encoder.width, 7)
        # Options that came later are part of a trial where they differ from what trials did before.
        later = {
            name: value
            for name, value, before in (
                ("probe_rate", probe_rate or _PROBE_RATES.get(task.preset or "", _PROBE_RATE), _PROBE_RATE),
                ("choose_on", "held-out" if task.protocol == "paper" else _CHOOSE_ON, _CHOOSE_ON),
                ("states", one_pooling("probing", states), "mean"),
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
