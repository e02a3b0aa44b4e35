"""Predictions of a model, and its metrics on labelled rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from frostline.records._json import Record


@dataclass(frozen=True, kw_only=True)
class PredictedRow(Record):
    """The prediction for one row; a line of `predictions.jsonl`.

    Args:
        split: the split of the row; None for new texts.
        row: line or row number in the source, from 1.
        text: the text; for multiple choice the question.
        text_pair: the second text, or None for single texts.
        choices: the choices, or None unless the task is multiple choice.
        label: name of the class, name of the right choice, or value; None if there is no label.
        prediction: the prediction, in the same form.
        probabilities: probabilities by label; None for regression.
    """

    left_out_at_default = ("split", "text_pair", "choices", "label")

    split: str | None = None
    row: int
    text: str
    text_pair: str | None = None
    choices: tuple[str, ...] | None = None
    label: str | int | float | None = None
    prediction: str | int | float
    probabilities: Mapping[str, float] | None


@dataclass(frozen=True, kw_only=True)
class Evaluation(Record):
    """The metrics of a model on labelled rows.

    Args:
        kind: kind of output.
        model: folder of the model.
        task: name of the task.
        split: name of the split.
        rows: number of rows.
        metrics: metrics by name; the first one decides.
        notes: guesses and assumptions, one sentence each.
    """

    kind: Literal["evaluation"] = "evaluation"
    model: str
    task: str
    split: str
    rows: int
    metrics: Mapping[str, float]
    notes: tuple[str, ...] = ()
