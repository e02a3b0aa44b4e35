"""Predictions for rows by label name, with their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from frostline.records.prediction import PredictedRow
from frostline.tasks import Split


def predicted_rows(
    outputs: Tensor, split: Split, kind: str, label_names: Sequence[str], *, with_labels: bool, name: str | None = None
) -> Iterator[PredictedRow]:
    """Yield the predictions for every row: the lines of `predictions.jsonl`.

    Args:
        outputs: (rows, outputs), logits or values.
        split: the rows.
        kind: kind of task.
        label_names: names by class number; by position for multiple choice.
        with_labels: whether the rows have labels.
        name: name of the split, if it is one.
    """
    for index, values in enumerate(outputs):
        choices = None if split.choices is None else split.choices[index]
        names = label_names
        if choices is not None:  # a question may have more choices than any that was trained on
            names = [*label_names, *map(str, range(len(label_names), len(choices)))][: len(choices)]
        label = split.labels[index]
        prediction: str | float = float(values[0])
        probabilities = None
        if kind != "regression":
            shares = values[: len(names)].double().softmax(-1).tolist()
            prediction = names[max(range(len(names)), key=shares.__getitem__)]
            probabilities = dict(zip(names, shares, strict=True))
        yield PredictedRow(
            split=name,
            row=split.rows[index],
            text=split.texts[index],
            text_pair=None if split.pairs is None else split.pairs[index],
            choices=choices,
            label=None if not with_labels else label if kind == "regression" else names[int(label)],
            prediction=prediction,
            probabilities=probabilities,
        )
