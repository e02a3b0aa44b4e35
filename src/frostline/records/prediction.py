"""What a model says of rows, and how good it is on labelled ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from frostline.records._json import Record


@dataclass(frozen=True, kw_only=True)
class PredictedRow(Record):
    """What a model says of one row; a line of `predictions.jsonl`.

    Args:
        split: that the row is from; None for new texts.
        row: its line or row number in the source, from 1.
        text: of the row; for multiple choice the question.
        text_pair: the second text, or None for single texts.
        choices: the candidates, or None unless the task is multiple choice.
        label: the class's name, the name of the right choice or the value; None where it is not known.
        prediction: the same, as the model has it.
        probabilities: by label; None for regression.
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
    """How good a model is on labelled rows.

    Args:
        kind: of output.
        model: its folder.
        task: its name.
        split: which rows.
        rows: how many.
        metrics: by name; the first one decides.
        notes: what was guessed or assumed, a sentence each.
    """

    kind: Literal["evaluation"] = "evaluation"
    model: str
    task: str
    split: str
    rows: int
    metrics: Mapping[str, float]
    notes: tuple[str, ...] = ()
