"""The trials of a study at full size, without weights, rows or training.

A command is read by the command line's own parser, the encoders have configurations but no weights, the tasks have the
official numbers of rows but no texts. Layer scores are made up so that the best layer is the paper's, and results so
that of several learning rates the highest is the best; the study itself then yields its trials.
"""

from __future__ import annotations

import shlex
from dataclasses import fields
from functools import cache
from typing import Any
from unittest.mock import patch

import typer
from docs.official_sizes import BEST_LAYERS, ENCODERS, SIZES

from frostline.api._study import StudyOptions
from frostline.cli import app
from frostline.cli.study import StudyFlags
from frostline.costs.flops import weightless_encoder
from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError
from frostline.records import LayerScores, TrialResult, TrialSpec
from frostline.records.encoder_and_task import MeasuredEncoder, MeasuredTask
from frostline.records.layer_scores import LayerScore
from frostline.scoring.scores import LAYER_SCORES
from frostline.studies import STUDIES, Ask, Point, Study
from frostline.tasks import PRESETS, Split, Task
from frostline.tasks.metrics import METRICS, choose_metrics

_VALIDATION_SHARE = 10  # one row in so many is taken from the training rows unless the protocol is the papers'


def read_command(line: str) -> tuple[Study, StudyOptions]:
    """Return the study and the options of a command line such as 'frostline study freeze --seeds 2'."""
    words = shlex.split(line)
    if words[:2] != ["frostline", "study"]:
        raise OptionError(f"{line!r}: is not `frostline study`")
    command = typer.main.get_command(app).commands["study"]  # type: ignore[attr-defined]
    given = command.make_context("frostline study", words[2:]).params
    flags = StudyFlags(**{field.name: given[field.name] for field in fields(StudyFlags)})
    return STUDIES[given["name"]], flags.options()


def points_of(line: str) -> tuple[Point, ...]:
    """Return all points of the study that a command line runs; candidates and chosen ones share trials."""
    chosen, asked = read_command(line)
    return _points(chosen, asked)


def trials_of(line: str) -> dict[str, TrialSpec]:
    """Return the different trials of a command line, by id."""
    return {point.spec.id: point.spec for point in points_of(line)}


def _points(chosen: Study, asked: StudyOptions) -> tuple[Point, ...]:
    with patch("frostline.api._study.load_task", official_task):
        tasks = asked.load_tasks(chosen)
    ask = Ask(
        encoders=tuple(official_encoder(str(name)) for name in asked.encoders),
        tasks=tasks,
        seeds=asked.seeds or chosen.seeds,
        rows=asked.rows,
        recipe=asked.base_recipe(chosen),
        known=_result,
        scores=_scores,
        margin=asked.margin,
        given=asked.given(chosen),
    )
    return tuple(chosen.trials(ask, **chosen.options(asked.options)))


@cache
def official_encoder(name: str) -> Encoder:
    """Return the encoder of this name on the hub, whose weights have shapes only."""
    from transformers import AutoConfig

    if name not in ENCODERS:
        raise OptionError(f"encoder {name}: add its configuration to docs/official_sizes.py")
    model_type, differs = ENCODERS[name]
    encoder = weightless_encoder(AutoConfig.for_model(model_type, **differs))
    encoder.name, encoder.revision = name, f"weights of {name}"
    return encoder


class _SizedTask(Task):
    """A task without texts; its fingerprint is not that of any rows."""

    @property
    def fingerprint(self) -> str:
        return f"rows of {self.name}, {self.protocol}"


def official_task(name: Any, *, protocol: str = "held-out", metric: str | None = None, **_: Any) -> Task:
    """Return the preset with its official numbers of rows, in place of `load_task`."""
    if name not in PRESETS or name not in SIZES:
        raise OptionError(f"task {name}: add its sizes to docs/official_sizes.py")
    preset, size = PRESETS[name], SIZES[name]
    kept = tuple(count - count // _VALIDATION_SHARE * (protocol != "paper") for count in size.train)
    dev, choices = _split(preset.kind, (size.dev,), len(preset.label_names)), len(preset.label_names)
    train = _split(preset.kind, kept, choices)
    inner = _split(preset.kind, (sum(size.train) - sum(kept),), choices) if protocol != "paper" else dev
    asked = choose_metrics(preset.kind, train, n_classes=len(preset.label_names), asked=metric, default=preset.metrics)
    return _SizedTask(
        name=preset.name, kind=preset.kind, label_names=preset.label_names, train=train, validation=inner, test=dev,
        metrics=asked, source="official sizes", tags=preset.tags, preset=preset.name,
        protocol="paper" if protocol == "paper" else "held-out",
    )  # fmt: skip


def _split(kind: str, counts: tuple[int, ...], choices: int) -> Split:
    """Return rows without texts, so many of each class."""
    total = sum(counts)
    labels = tuple(label for label, count in enumerate(counts) for _ in range(count))
    return Split(
        texts=("",) * total,
        choices=(("",) * choices,) * total if kind == "multiple choice" else None,
        labels=tuple(map(float, labels)) if kind == "regression" else labels,
        rows=tuple(range(1, total + 1)),
    )


def _scores(encoder: Encoder, task: Task, names: Any, **_: Any) -> LayerScores:
    """Return layer scores whose best layer is the paper's, or one at two thirds of the depth."""
    best = BEST_LAYERS.get(encoder.name, {}).get(str(task.preset), encoder.depth * 2 // 3)
    scores = {
        name: LayerScore(
            name=name,
            better=LAYER_SCORES[name].better,
            values=tuple(
                (1.0 if LAYER_SCORES[name].better == "low" else -1.0) * abs(layer - best)
                for layer in range(encoder.depth + 1)
            ),
        )
        for name in names
    }
    return LayerScores(
        encoder=MeasuredEncoder(name=encoder.name, revision=encoder.revision, layers=encoder.depth,
                                family=encoder.family.name, width=encoder.width),
        task=MeasuredTask(name=task.name, fingerprint=task.fingerprint, kind=task.kind, labels=task.label_names,
                          metric=task.metrics[0]),
        pooling="mean", rows="train", examples=len(task.train), max_length=512, truncated=0, seed=0, scores=scores,
    )  # fmt: skip


def _result(spec: TrialSpec) -> TrialResult:
    """Return a made-up result: the higher the learning rate, the better, on every split."""
    rate = spec.recipe.learning_rate or 0.0
    metrics = {name: METRICS[name].signed(rate) for name in spec.task.metrics}
    return TrialResult(status="done", metrics={"validation": metrics, "test": metrics})
