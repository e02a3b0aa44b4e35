"""From tensors to records: an estimate as a `LayerScore`, similarity matrices, and notes for the reader."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.records import LayerScore
from frostline.scoring.reliability import smoothness
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import Score
from frostline.scoring.selection import Rows
from frostline.scoring.uncertainty import Estimate
from frostline.states.cka import cka_matrix
from frostline.states.pooled import Pooling
from frostline.tasks import Split, Task

Matrix = tuple[tuple[float | None, ...], ...]

EXPECTED = "expected by chance"  # name of the chance level that a score computes itself
_TOO_FEW = 1_000
_SIMILARITY_TEXTS = 1_000


def make_record(score: Score, estimate: Estimate, *, seed: int, seconds: float) -> LayerScore:
    """Return an estimate of a score as a record."""
    interval = estimate.interval()
    probability = estimate.probability_of_best(score.better, seed=seed)
    values = as_numbers(estimate.values)
    return LayerScore(
        name=score.name,
        better=score.better,
        values=values,
        low=None if interval is None else as_numbers(interval[0]),
        high=None if interval is None else as_numbers(interval[1]),
        uncertainty=estimate.method,
        probability=None if probability is None else tuple(probability.tolist()),
        tied=tuple(estimate.tied(score.better)),
        smoothness=smoothness(values),
        nulls={} if estimate.chance is None else {EXPECTED: as_numbers(estimate.chance)},
        summary=score.summary,
        paper=score.paper,
        seconds=round(seconds, 3),
    )


def as_numbers(values: Tensor | Iterable[float]) -> tuple[float | None, ...]:
    """Return plain numbers, None where they are undefined."""
    return tuple(None if math.isnan(value) else float(value) for value in values)


def similarity_matrices(evidence: Evidence) -> dict[str, Matrix]:
    """Return the CKA between all layers for the pooling in use and for the first token, on some of the texts."""
    if len(evidence) < 4:
        return {}
    few = torch.arange(len(evidence))[:: -(-len(evidence) // _SIMILARITY_TEXTS)]
    poolings: list[Pooling] = ["first", evidence.pooling]
    return {
        pooling: tuple(as_numbers(row) for row in cka_matrix(evidence.states[pooling][:, few]))
        for pooling in dict.fromkeys(poolings)
    }


def left_out_in_words(left_out: Mapping[str, str]) -> list[str]:
    """Return a sentence for each score that was left out."""
    return [f"{name} left out: {reason}" for name, reason in left_out.items()]


def notes_on(
    encoder: Encoder, task: Task, split: Split, rows: Rows, truncated: int, limit: int, scores: Collection[str]
) -> list[str]:
    """Return sentences on what a reader of the scores should know."""
    notes, count = [], len(split)
    sizes = Counter(split.labels) if task.kind != "regression" else Counter()
    if truncated:
        were = "was" if truncated == 1 else "were"
        notes.append(f"{truncated:,} of {count:,} texts {were} longer than {limit} tokens and cut")
    if count < _TOO_FEW:
        low = "variability is too low, and " if "variability" in scores else ""
        notes.append(f"{count:,} texts are few for width {encoder.width}: {low}the best layer may change with more")
    if task.kind == "classification":
        absent = [name for label, name in enumerate(task.label_names) if label not in sizes]
        if absent:
            notes.append(f"not among the {count:,} texts, so not measured: {', '.join(absent)}")
    if sizes and min(sizes.values()) == 1:
        notes.append("a class has only one text, which has no spread: scores of spread are too low")
    if encoder.depth < 3:
        notes.append(f"{encoder.depth} layers are too few to compute smoothness")
    if rows == "train" and encoder.is_tuned:
        notes.append(
            f"{encoder.name} is a tuned classifier: if it was tuned on these rows, it has memorised them; "
            "measure it on other rows with `rows='validation'`"
        )
    return notes
