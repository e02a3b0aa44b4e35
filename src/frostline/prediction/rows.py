"""What a model says of rows, in words: predictions by name with their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from frostline.records.prediction import PredictedRow
from frostline.tasks import Split


def predicted_rows(
    outputs: Tensor, split: Split, kind: str, label_names: Sequence[str], *, with_labels: bool, name: str | None = None
) -> Iterator[PredictedRow]:
    """Yield what a model says of every row: the lines of `predictions.jsonl`.

    Args:
        outputs: (rows, outputs), logits or values.
        split: the rows.
        kind: of task.
        label_names: by class number; by position for multiple choice.
        with_labels: whether the rows' labels mean something.
        name: of the split, where it is one.
    """
    for place, values in enumerate(outputs):
        choices = None if split.choices is None else split.choices[place]
        names = label_names if choices is None else _positions(len(choices), label_names)
        label = split.labels[place]
        prediction: str | float = float(values[0])
        probabilities = None
        if kind != "regression":
            shares = values[: len(names)].double().softmax(-1).tolist()
            prediction = names[max(range(len(names)), key=shares.__getitem__)]
            probabilities = dict(zip(names, shares, strict=True))
        yield PredictedRow(
            split=name,
            row=split.rows[place],
            text=split.texts[place],
            text_pair=None if split.pairs is None else split.pairs[place],
            choices=choices,
            label=None if not with_labels else label if kind == "regression" else names[int(label)],
            prediction=prediction,
            probabilities=probabilities,
        )


def _positions(count: int, known: Sequence[str]) -> list[str]:
    """The names of a question's choices; a question may have more of them than any that was trained on."""
    return [known[place] if place < len(known) else str(place) for place in range(count)]
