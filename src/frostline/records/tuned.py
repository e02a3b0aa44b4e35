"""A tuned model: its record, and the description from which Frostline loads a model that transformers cannot."""

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
    """The numbers of parameters of a model.

    Args:
        total: parameters that are kept, including the head.
        trainable: parameters that were trained.
    """

    total: int
    trainable: int


@dataclass(frozen=True, kw_only=True)
class TuningResult(Record):
    """The record of a tuned model.

    Args:
        kind: kind of file.
        format: version of the file format.
        encoder: the encoder that it was tuned from.
        task: the task that it was tuned for.
        plan: the plan.
        recipe: the recipe, with the learning rate that was used.
        parameters: numbers of parameters.
        best: the evaluation of the kept epoch.
        metrics: task metrics by split.
        audit: what changed and what did not, in one sentence.
        notes: remarks for the reader, one sentence each.
        seconds: time of computing frozen states, training and testing.
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
    """The description of a model that only Frostline can load: `frostline-model.json`.

    Args:
        kind: kind of file.
        format: version of the file format.
        base: the encoder that it was tuned from.
        plan: the plan.
        recipe: the recipe.
        task: kind of task.
        labels: class names in the order of the class numbers; empty for regression.
        max_length: number of tokens to which texts are truncated.
    """

    kind: Literal["tuned model"] = "tuned model"
    format: Literal[1] = FORMAT_VERSION
    base: BaseEncoder
    plan: Plan
    recipe: Recipe
    task: TaskKind
    labels: tuple[str, ...]
    max_length: int
