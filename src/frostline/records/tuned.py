"""A tuned model: what was recorded of it, and how one that only Frostline can load is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from frostline.records._json import FORMAT_VERSION, Number, Record
from frostline.records.encoder_and_task import BaseEncoder, TaskKind, TunedEncoder, TunedTask
from frostline.records.plan import Plan
from frostline.records.recipe import Recipe

# One evaluation while a model is trained; a line of `metrics.jsonl`: step, epoch, loss, learning_rate, seconds, and
# validation_loss and validation_METRIC where there are validation rows.
EvaluationStep = Mapping[str, Number]


@dataclass(frozen=True, kw_only=True)
class Parameters(Record):
    """How many parameters a model has.

    Args:
        total: all that are kept, the head included.
        trainable: those that were trained.
    """

    total: int
    trainable: int


@dataclass(frozen=True, kw_only=True)
class TuningResult(Record):
    """What was recorded of a tuned model.

    Args:
        kind: of file.
        format: of file.
        encoder: that it was tuned from.
        task: that it was tuned for.
        plan: what was tuned.
        recipe: how, with the learning rate that was used.
        parameters: how many there are.
        best: the evaluation that was kept.
        metrics: task metrics by split.
        audit: what changed and what did not, in a sentence.
        notes: everything that is worth knowing, a sentence each.
        seconds: of computing frozen states, training and testing.
    """

    kind: Literal["tuned"] = "tuned"
    format: Literal[1] = FORMAT_VERSION
    encoder: TunedEncoder
    task: TunedTask
    plan: Plan
    recipe: Recipe
    parameters: Parameters
    best: EvaluationStep
    metrics: Mapping[str, Mapping[str, float]]
    audit: str
    notes: tuple[str, ...]
    seconds: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class FrostlineModel(Record):
    """How to put together a model that transformers cannot load: `frostline-model.json`.

    Args:
        kind: of file.
        format: of file.
        base: the encoder that it was tuned from.
        plan: what was tuned.
        recipe: how.
        task: what it predicts.
        labels: the names of the classes, in the order of their numbers; none for regression.
        max_length: texts are cut at this many tokens.
    """

    kind: Literal["tuned model"] = "tuned model"
    format: Literal[1] = FORMAT_VERSION
    base: BaseEncoder
    plan: Plan
    recipe: Recipe
    task: TaskKind
    labels: tuple[str, ...]
    max_length: int
