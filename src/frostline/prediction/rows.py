"""What a model says of rows, in words: predictions by name with their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from frostline.tasks import Split


def in_words(
    outputs: Tensor, split: Split, kind: str, label_names: Sequence[str], *, with_labels: bool
) -> Iterator[dict[str, Any]]:
    """One record per row: its number, text, label, prediction and probabilities; the lines of `predictions.jsonl`.

    Args:
        outputs: (rows, outputs), logits or values.
        split: the rows.
        kind: of task.
        label_names: by class number; by position for multiple choice.
        with_labels: whether the rows' labels mean something.
    """
    for place, said in enumerate(outputs):
        record: dict[str, Any] = {"row": split.rows[place], "text": split.texts[place]}
        if split.pairs is not None:
            record["text_pair"] = split.pairs[place]
        if split.choices is not None:
            record["choices"] = list(split.choices[place])
        names = label_names if split.choices is None else _positions(len(split.choices[place]), label_names)
        if with_labels:
            label = split.labels[place]
            record["label"] = label if kind == "regression" else names[int(label)]
        if kind == "regression":
            record |= {"prediction": float(said[0]), "probabilities": None}
        else:
            shares = said[: len(names)].double().softmax(-1).tolist()
            best = max(range(len(names)), key=shares.__getitem__)
            record |= {"prediction": names[best], "probabilities": dict(zip(names, shares, strict=True))}
        yield record


def _positions(count: int, known: Sequence[str]) -> list[str]:
    """The names of a question's choices; a question may have more of them than any that was trained on."""
    return [known[place] if place < len(known) else str(place) for place in range(count)]
