"""The probe on every pretrained layer, next to the curves of tuning, as in figure 2 of Tamkin et al. 2020."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError
from frostline.files import provenance
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.scoring.measurement import MeasureOptions, measure_layers
from frostline.studies import Ask, Point
from frostline.studies._choices import PROBE_EPOCH
from frostline.studies._tables import judged_split
from frostline.tasks import Task
from frostline.trials.context import Context, TrialKind

OF_TEXT, OF_SCRIPT = "probe.linear.paper", "probe.pooler"
_EPOCHS = 40


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """How the probes are trained; Tamkin et al. 2020 state all but the patience of early stopping.

    Args:
        rate: learning rate for encoders of width 768; narrower ones get a proportionally higher rate.
        batch: rows per step.
        rows: number of training rows; 0 for all.
        trials: number of trials of each layer.
        patience: epochs without improvement before a layer stops.
    """

    rate: float
    batch: int
    rows: int
    trials: int
    patience: int


def probe_point(
    ask: Ask, encoder: Encoder, task: Task, asked: ProbeOptions, *, score: str, recipe: Mapping[str, Any]
) -> Point:
    """Return the trial that probes all layers of the pretrained encoder, all trials of a probe at once."""
    unset = replace(ask, recipe=replace(ask.recipe, learning_rate=None))  # that of tuning is not that of probes
    options = {
        "score": score,
        "rate": unset.rate_for(encoder, asked.rate),
        "batch": asked.batch,
        "trials": asked.trials,
        "patience": asked.patience,
    }
    rows = min(asked.rows, ask.rows or asked.rows) if asked.rows else None
    labels = dict.fromkeys(("size", "rows", "first", "last", "kept"))
    return ask.point(encoder, task, Plan(layers=(), head=encoder.depth), arm="probe", seed=0, rows=rows,
                     kind=PROBE.name, options=options, labels=labels, chosen=[PROBE_EPOCH],
                     **{**recipe, "epochs": 1})  # fmt: skip


def _probe(context: Context, spec: TrialSpec) -> TrialResult:
    """Return the task metric of the probe on each of layers 0..L, with its interval over trials."""
    base = TrialResult(status="done", versions=provenance.versions())
    task, name = context.task(spec), str(spec.options["score"])
    if spec.train_rows is not None:
        chosen = context.shared(spec).some_rows(spec.train_rows, seed=spec.recipe.seed)
        task = replace(task, train=task.train.take(chosen))
    encoder = context.encoder(spec.encoder.revision)
    try:
        measured = measure_layers(encoder, task, measure_options(task, spec), progress=context.progress)
    except MeasureError as error:  # too few rows to judge a probe on, or no pretrained pooler
        return replace(base, values={"left_out": str(error)})
    score = measured[name]
    values = {
        "probe": list(score.values),
        "low": None if score.low is None else list(score.low),
        "high": None if score.high is None else list(score.high),
        "examples": measured.examples,
    }
    return replace(base, values=values, seconds=measured.seconds)


def measure_options(task: Task, spec: TrialSpec) -> MeasureOptions:
    """Return the measurement of a probe: fitted on all training rows, judged on the rows that tuning is judged on.

    The epoch is chosen on validation rows; under the protocol 'paper' those are the judged rows.
    """
    held, _ = judged_split(task)
    choices = max(map(len, task.train.choices)) if task.train.choices else 1
    return MeasureOptions(
        scores=[str(spec.options["score"])],
        options={
            str(spec.options["score"]): {
                "learning_rate": float(spec.options["rate"]),
                "batch": int(spec.options["batch"]),
                "trials": int(spec.options["trials"]),
                "patience": int(spec.options["patience"]),
                "epochs": _EPOCHS,
                "intervals": "trials",
            }
        },
        examples=max(2, len(task.train) * choices),
        max_length=spec.recipe.max_length,
        similarity=False,
        seed=spec.recipe.seed,
        judged_on=held,
        chosen_on="validation",
    )


PROBE = TrialKind(name="reinitialise.probe", run=_probe)
