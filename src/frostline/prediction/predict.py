"""Predictions of a loaded model for rows, and its metrics on labelled ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from frostline.errors import DataError, did_you_mean
from frostline.prediction.loading import Predictor
from frostline.prediction.rows import predicted_rows
from frostline.progress import Progress, silent
from frostline.records.prediction import Evaluation, PredictedRow
from frostline.tasks import Split, Task
from frostline.tasks.raw_table import listed, show
from frostline.training.loop import judge


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The predictions of a model for texts.

    Args:
        rows: one per text.
        label_names: label names of the model; empty for regression.
        notes: sentences on what was guessed about the data.
    """

    rows: tuple[PredictedRow, ...]
    label_names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> list[Any]:
        """The prediction for every text: a label's name, the position of a choice, or a number."""
        return [row.prediction for row in self.rows]

    @property
    def probabilities(self) -> list[Mapping[str, float]] | None:
        """The probability of every label for every text, or None for regression."""
        return [row.probabilities or {} for row in self.rows] if self.label_names else None


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The metrics of a model on labelled rows, and its predictions.

    Args:
        record: the metrics and what they were computed on.
        rows: one per row, as in `predictions.jsonl`.
    """

    record: Evaluation
    rows: tuple[PredictedRow, ...]

    @property
    def metrics(self) -> Mapping[str, float]:
        """Task metrics by name; the first one decides."""
        return self.record.metrics

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was guessed or assumed."""
        return self.record.notes

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as plain JSON values, without the rows."""
        return self.record.to_json()


def predict_rows(
    model: Predictor, rows: Split, notes: tuple[str, ...], *, is_pair_guessed: bool, progress: Progress = silent
) -> Predictions:
    """Return the predictions for rows.

    Args:
        model: the loaded model.
        rows: rows without labels.
        notes: sentences on what was guessed about them.
        is_pair_guessed: whether a column of second texts was guessed, and may be ignored.
        progress: progress callback.
    """
    if model.kind == "multiple choice" and rows.choices is None:
        raise DataError(f"{model.name}: chooses between answers; name the columns that contain them (`choices`)")
    if model.kind != "multiple choice" and rows.choices is not None:
        rows = replace(rows, choices=None)
    if rows.pairs is not None and is_pair_guessed and model.tuned_on and not model.tuned_on.pairs:
        rows = replace(rows, pairs=None)  # the column was guessed wrongly
        notes = (*notes, f"the second text is not used: {model.name} was tuned on single texts")
    _check_pairs(model, rows)
    outputs = model.outputs(rows, progress=progress)
    predicted = predicted_rows(outputs, rows, model.kind, model.label_names, with_labels=False)
    return Predictions(rows=tuple(predicted), label_names=model.label_names, notes=notes)


def evaluate_split(model: Predictor, task: Task, split: str, *, progress: Progress = silent) -> Evaluated:
    """Return the metrics of a model on the rows of a split, and its predictions.

    Args:
        model: the loaded model.
        task: the task.
        split: train, validation, test or all.
        progress: progress callback.
    """
    rows, notes = in_model_terms(model, task, split)
    _check_pairs(model, rows)
    notes += _note_other_split(model, task, rows, split)
    outputs = model.outputs(rows, progress=progress)
    record = Evaluation(
        model=model.name,
        task=task.name,
        split=split,
        rows=len(rows),
        metrics=judge(outputs, torch.tensor(rows.labels), task.metrics, model.kind),
        notes=(*task.notes, *notes),
    )
    return Evaluated(
        record=record,
        rows=tuple(predicted_rows(outputs, rows, model.kind, model.label_names, with_labels=True)),
    )


def in_model_terms(model: Predictor, task: Task, split: str) -> tuple[Split, tuple[str, ...]]:
    """Return the rows of a split with the model's class numbers as labels, and notes on what was assumed.

    Args:
        model: the model.
        task: the task, whose labels may differ or come in another order.
        split: train, validation, test or all.
    """
    if task.kind != model.kind:
        raise DataError(f"{task.name}: is a {task.kind} task, but {model.name} was tuned for {model.kind}")
    if split != "all" and split not in task.splits:
        raise DataError(f"{task.name}: has no {split} rows; it has {listed(list(task.splits))}")
    rows = _joined(list(task.splits.values())) if split == "all" else task.splits[split]
    if task.kind != "classification":
        return rows, ()
    is_unnamed = all(name == f"LABEL_{number}" for number, name in enumerate(model.label_names))  # as in transformers
    if is_unnamed and len(task.label_names) == len(model.label_names):
        names = ", ".join(task.label_names)
        return rows, (f"{model.name} has no label names: its classes are assumed to be {names}, in this order",)
    number_of = {name: _number(name, model.label_names) for name in task.label_names}
    used = [task.label_names[int(label)] for label in rows.labels]
    unseen = sorted({name for name in used if number_of[name] is None}, key=used.index)
    if unseen:
        first = unseen[0]
        more = f" (and {len(unseen) - 1} more such labels)" if len(unseen) > 1 else ""
        raise DataError(
            f"{task.source}:{rows.rows[used.index(first)]}: label {show(first)}"
            f"{did_you_mean(first, model.label_names)}{more}: is not a label of {model.name}, which has "
            f"{listed(model.label_names, most=20)}; correct the labels or remove those rows"
        )
    return replace(rows, labels=tuple([number_of[name] or 0 for name in used])), ()


def _check_pairs(model: Predictor, rows: Split) -> None:
    """Refuse pairs where the model was tuned on single texts, and the other way round."""
    if model.tuned_on is None:
        return
    pairs = model.tuned_on.pairs
    if pairs and rows.pairs is None and rows.choices is None:
        raise DataError(f"{model.name}: was tuned on pairs of texts; name the column of second texts (`text_pair`)")
    if not pairs and rows.pairs is not None:
        raise DataError(f"{model.name}: was tuned on single texts, but these are pairs; remove `text_pair`")


def _note_other_split(model: Predictor, task: Task, rows: Split, split: str) -> tuple[str, ...]:
    """Return a note if the rows were split differently in tuning, or were not part of it."""
    fingerprint = model.tuned_on and model.tuned_on.fingerprint
    in_all = sum(map(len, task.splits.values()))
    if split == "all" or fingerprint in (None, task.fingerprint) or len(rows) == in_all:
        return ()
    return (
        f"the rows were split differently in tuning: the metrics are of {len(rows):,} of {in_all:,} rows, and if the "
        "model was tuned on this file, it was trained on some of them; for new rows, use `split='all'`",
    )


def _number(name: str, label_names: Sequence[str]) -> int | None:
    """Return the model's number for a label: by its name, or by its name in another case if only one matches."""
    if name in label_names:
        return label_names.index(name)
    same = [number for number, other in enumerate(label_names) if other.casefold() == name.casefold()]
    return same[0] if len(same) == 1 else None


def _joined(splits: Sequence[Split]) -> Split:
    """Return all rows of several splits as one."""
    first = splits[0]
    return Split(
        texts=tuple(text for split in splits for text in split.texts),
        pairs=None if first.pairs is None else tuple(pair for split in splits for pair in split.pairs or ()),
        choices=None if first.choices is None else tuple(each for split in splits for each in split.choices or ()),
        labels=tuple([label for split in splits for label in split.labels]),
        rows=tuple(row for split in splits for row in split.rows),
    )
