"""Layer scores and probes before and after fine-tuning, as in Xie et al. 2022 and Tamkin et al. 2020."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError
from frostline.files import provenance
from frostline.plans.learning_rates import paper_rates
from frostline.progress import Progress
from frostline.records import LayerScores, Plan, TrialResult, TrialSpec
from frostline.scoring.measurement import MeasureOptions, measure_layers
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import Rows, choose_scores
from frostline.scoring.to_records import EXPECTED, left_out_in_words
from frostline.states.pooled import Pooling
from frostline.studies import Ask, Point, study
from frostline.studies._choices import PROBE_EPOCH
from frostline.studies._options import check_at_least, check_choice, check_pooling
from frostline.studies._results import judged_result
from frostline.studies._unstated import XIE_UNSTATED
from frostline.studies._xie import SHORTER_TASKS, USUAL_RATE, choose_on, judged_rows
from frostline.studies._xie import probe_rate as rate_of_probe
from frostline.studies.probing.figures import HELD_OUT, PRETRAINED, TUNED, figures
from frostline.studies.probing.reproduces import COUNTERPARTS
from frostline.studies.probing.tables import tables
from frostline.tasks import Task
from frostline.training.model import as_tuned
from frostline.trials.context import Context, TrialKind
from frostline.trials.run_trial import tune_for

_ROWS = ("validation", "test")
_JUDGED = ("dev", "inner")
# Newer options are part of a trial only if they differ from the behaviour of older trials, which is this.
_BEFORE: Mapping[str, Any] = {
    "probe_rate": USUAL_RATE,
    "choose_on": "inner",
    "states": "mean",
    "judged": "inner",
    "probe_epochs": 10,
    "probe_batch": 32,
    "probe_schedule": "constant",
    "probe_warmup": 0.0,
    "probe_dropout": -1.0,
    "cca_samples": 1,
    "clusters": 10,
}
_RECORDED_BEFORE = ("probe_rate", "choose_on", "states")  # options of older studies, or no options of a study
_ALL = 10**9  # rows
_QUICK_SCORES = "variability,variability.crossfit,cca,rank,information,label_similarity,probe.linear,probe.head"


# The trial -----------------------------------------------------------------------------------------------------------


def _score(context: Context, spec: TrialSpec) -> TrialResult:
    """Return the curves of all scores, for the pretrained encoder or after the plan's fine-tuning."""
    base = TrialResult(status="done", versions=provenance.versions())
    encoder = context.shared(spec).encoder
    if spec.options["tuned"]:
        tuned = tune_for(context, spec)
        base, encoder = judged_result(tuned, {}), as_tuned(tuned.tunable)
    parts, left_out = _measure(encoder, _with_fewer_rows(context, spec), spec, context.progress)
    scores = {name: score for part in parts for name, score in part.scores.items()}
    names = [name for name in _names(spec.options) if name in scores]
    seconds = Counter(base.seconds)
    for part in parts:
        seconds.update(part.seconds)
    values = {
        "curves": {name: list(scores[name].values) for name in names},
        "chance": {name: list(scores[name].nulls[EXPECTED]) for name in names if EXPECTED in scores[name].nulls},
        "examples": parts[0].examples if parts else 0,
        "left_out": left_out_in_words(left_out),
    }
    return replace(base, values=values, seconds=dict(seconds))


def _names(options: Mapping[str, Any]) -> list[str]:
    requested = str(options["scores"])
    return LAYER_SCORES.names() if requested == "all" else [name.strip() for name in requested.split(",")]


def _with_fewer_rows(context: Context, spec: TrialSpec) -> Task:
    """Return the task with the training rows that fine-tuning with the same seed uses."""
    task = context.task(spec)
    if spec.train_rows is None:
        return task
    chosen = context.shared(spec).some_rows(spec.train_rows, seed=spec.recipe.seed)
    return replace(task, train=task.train.take(chosen))


def _measure(
    encoder: Encoder, task: Task, spec: TrialSpec, progress: Progress
) -> tuple[list[LayerScores], dict[str, str]]:
    """Return the requested scores without those that need more rows, and why those are left out.

    Probes that are judged on the development set are fitted on training rows, whatever rows the other scores are
    measured on. The pretrained encoder's are in the trial on training rows.
    """
    option = {**_BEFORE, **spec.options}
    suited, reasons = choose_scores("all", task, stream=False)
    names = [score.name for score in suited if score.name in _names(spec.options)]
    left_out = {name: reason for name, reason in reasons.items() if name in _names(spec.options)}
    rows = cast(Rows, option["rows"])
    ask = partial(
        MeasureOptions,
        examples=int(option["examples"]) or _ALL,
        max_length=spec.recipe.max_length,
        pooling=cast(Pooling, option["states"]),
        uncertainty=False,
        similarity=False,
        needs_all=False,
        seed=spec.recipe.seed,
    )

    def measure(chosen: Sequence[str], **given: Any) -> LayerScores:
        options = {name: values for name, values in _score_options(option).items() if name in chosen}
        return measure_layers(encoder, task, ask(scores=chosen, options=options, **given), progress=progress)

    if option["judged"] == "inner":
        parts = [measure(names, rows=rows)]
    else:
        probes = [name for name in names if LAYER_SCORES[name].is_probe]
        others = [name for name in names if name not in probes]
        judged = judged_rows(task)
        if rows == "train":
            parts = [measure(names, rows=rows, **judged)]
        else:
            parts = [measure(others, rows=rows)] if others else []
            parts += [measure(probes, rows="train", **judged)] if probes and option["tuned"] else []
    for part in parts:
        left_out |= part.left_out
    if names and parts and not any(part.scores for part in parts):
        raise MeasureError(left_out_in_words(left_out)[0])
    return parts, left_out


def _score_options(option: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of scores from those of a trial."""
    probe = {name: option[f"probe_{name}"] for name in ("epochs", "batch", "schedule", "warmup", "dropout")}
    return {
        "probe.head": {**probe, "learning_rate": float(option["probe_rate"]), "choose_on": option["choose_on"]},
        "cca": {"samples": option["cca_samples"]},
        "information": {"clusters": option["clusters"]},
    }


# The study -----------------------------------------------------------------------------------------------------------


@study(
    kinds=[TrialKind(name="probing", run=_score)],
    paper="Xie et al. 2022 and Tamkin et al. 2020",
    reproduces=COUNTERPARTS,
    tables=tables,
    figures=figures,
    tasks=("glue/cola", "glue/mnli", "glue/mrpc", "glue/qnli", "glue/qqp", "glue/sst2"),
    seeds=5,
    recipe={"batch": 8, "epochs": 20, "warmup": 0.06, "dropout": 0.1, "select": "best"},
    unstated=XIE_UNSTATED,
    selection="The best epoch is kept, of a tuned encoder and of the head as a probe, and the learning rate is chosen, "
    "on other rows than those that are judged under `protocol='held-out'`, and on the judged rows, as in Xie et al. "
    "2022, under `protocol='paper'`.",
    # Options that older studies did not record; what they did is known.
    before={**{name: value for name, value in _BEFORE.items() if name not in _RECORDED_BEFORE}, "rates": 1},
    varies=("epochs",),
    quick={"scores": _QUICK_SCORES, "rates": 1},
    quick_recipe={"epochs": 2},
    quick_seeds=2,
)
def probing(
    ask: Ask,
    *,
    scores: str = "all",
    examples: int = 0,
    held_out: str = "validation",
    judged: str = "dev",
    probe_rate: float = 0.0,
    probe_epochs: int = 20,
    probe_batch: int = 8,
    probe_schedule: str = "linear",
    probe_warmup: float = 0.06,
    probe_dropout: float = 0.1,
    cca_samples: int = 2,
    clusters: int = 10,
    rates: int = 5,
    states: str = "mean",
) -> Iterator[Point]:
    """Do layers with good scores probe well, and does the best layer move up with fine-tuning?

    Every layer score and two probes, an exact linear one and the family's own head, are measured at every layer.
    Scores of the pretrained encoder are measured on training rows, those of the fully fine-tuned one on held-out
    rows, since it has memorised the training rows; the pretrained encoder is also measured on the same held-out
    rows, so that any shift is due to fine-tuning. As in Xie et al. 2022, the probes of both encoders are fitted on
    the training rows and judged on the development set; the head's best epoch is chosen on validation rows that are
    part of neither, and under the protocol 'paper' on the development set itself. Full fine-tuning takes 20 epochs,
    on MNLI and QQP 10.

    Options: `scores`, 'all' or names joined by commas, at least one probe among them for the table of agreement
    (scores that need more rows are left out); `examples`, maximum number of measured rows, which probes are fitted
    on, 0 for all; `held_out`, rows on which the tuned encoder's scores are measured, 'validation' or 'test';
    `judged`, rows on which probes are judged: 'dev' as in the paper, or 'inner', the cautious form: a probe is
    fitted on four fifths of the rows that the scores are measured on, of which a tenth chooses the epoch, and
    judged on the last fifth, so that it reads no other rows and a tuned encoder is not probed on rows that it has
    memorised; `probe_rate`, highest learning rate of the head as a probe, 0 for that of Xie et al. 2022 (1e-3, on
    QQP 3e-4, on SST-2 3e-3); `probe_epochs`, `probe_batch`, `probe_schedule` ('linear' or 'constant'),
    `probe_warmup` and `probe_dropout` (below 0 for the encoder's own), the rest of its recipe; `cca_samples`,
    number of samples of CCA, two in the paper; `clusters`, number of clusters of `information`, which the paper
    does not state; `rates`, number of the paper's five learning rates of full fine-tuning to try, the highest
    first, of which the best one on validation, by its mean over seeds, is used (encoders narrower than 768 get
    proportionally higher rates); `states`, how a text's tokens become one vector: the 'mean' of all but the first,
    the 'first', the mean of 'all', or 'released', the mean of ids above 2 as in the released script.
    """
    given: dict[str, Any] = {
        "states": states,
        "judged": judged,
        "probe_epochs": probe_epochs,
        "probe_batch": probe_batch,
        "probe_schedule": probe_schedule,
        "probe_warmup": probe_warmup,
        "probe_dropout": probe_dropout,
        "cca_samples": cca_samples,
        "clusters": clusters,
    }
    _check(given, scores=scores, examples=examples, held_out=held_out, probe_rate=probe_rate, rates=rates)
    for encoder, task in ask.pairs():
        newer = {"probe_rate": probe_rate or rate_of_probe(task), "choose_on": choose_on(task), **given}
        options = {"scores": scores, "examples": examples}
        options |= {name: value for name, value in newer.items() if value != _BEFORE[name]}
        yield from _points(ask, encoder, task, options, held_out=held_out, rates=rates)


def _check(
    given: Mapping[str, Any], *, scores: str, examples: int, held_out: str, probe_rate: float, rates: int
) -> None:
    """Raise if an option is not one of its values."""
    for name in () if scores == "all" else scores.split(","):
        LAYER_SCORES[name.strip()]
    check_choice("probing", "held_out", held_out, _ROWS)
    check_choice("probing", "judged", given["judged"], _JUDGED)
    check_choice("probing", "probe_schedule", given["probe_schedule"], ("linear", "constant"))
    check_pooling("probing", given["states"])
    check_at_least(0, "probing", probe_rate=probe_rate, probe_warmup=given["probe_warmup"])  # rate 0 for the paper's
    positive = {name: given[name] for name in ("probe_epochs", "probe_batch", "cca_samples")}
    check_at_least(1, "probing", **positive, rates=rates)
    check_at_least(2, "probing", clusters=given["clusters"])
    if examples:
        check_at_least(2, "probing", examples=examples)


def _points(
    ask: Ask, encoder: Encoder, task: Task, options: Mapping[str, Any], *, held_out: str, rates: int
) -> Iterator[Point]:
    """Yield the pretrained encoder's points, and the tuned one's with the rate that is best over all seeds."""
    full, head = Plan.full(encoder.depth), Plan(layers=(), head=encoder.depth)
    tried = list(dict.fromkeys(ask.rate_for(encoder, rate) for rate in paper_rates(full, encoder.depth)[-rates:]))
    epochs, seeds = ask.epochs(10 if task.preset in SHORTER_TASKS else ask.recipe.epochs), range(ask.seeds)
    chosen = [PROBE_EPOCH] if "probe.head" in _names(options) else []
    for seed in seeds:
        for arm, rows in ((PRETRAINED, "train"), (HELD_OUT, held_out)):
            recipe: dict[str, Any] = {"learning_rate": tried[-1], "epochs": 1}  # nothing is trained
            own = {**options, "rows": rows, "tuned": False}
            has_probes = rows == "train" or options.get("judged", "inner") == "inner"
            yield ask.point(encoder, task, head, arm=arm, seed=seed, kind="probing", options=own,
                            chosen=chosen if has_probes else [], **recipe)  # fmt: skip
    make = partial(ask.point, encoder, task, full, arm=TUNED, epochs=epochs)
    candidates = {rate: [make(seed=seed, learning_rate=rate, is_candidate=True) for seed in seeds] for rate in tried}
    rate: float | None = tried[-1]
    if len(tried) > 1:
        yield from (point for of_rate in candidates.values() for point in of_rate)
        rate = ask.best_over_seeds(candidates)
    for seed in seeds if rate is not None else ():  # else the rate is still unknown
        own = {**options, "rows": held_out, "tuned": True}
        yield make(seed=seed, kind="probing", options=own, learning_rate=rate, chosen=chosen)
