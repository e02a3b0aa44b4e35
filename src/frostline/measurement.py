"""Measure: every layer of one encoder scored for one task, before any tuning."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from frostline.checkpoint import load_encoder
from frostline.encoder import Encoder
from frostline.errors import MeasureError, OptionError
from frostline.records import LayerScore, LayerScores
from frostline.scores import LAYER_SCORES
from frostline.states.pooled import Pooling, Progress, pooled_states
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample

if TYPE_CHECKING:
    from torch import Tensor

EXAMPLES = 5_000  # from here on the curves of paper 1 overlap
TOO_FEW = 1_000
DEFAULT_SCORES = ("variability",)


def measure(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    scores: Sequence[str] = DEFAULT_SCORES,
    pooling: Pooling = "mean",
    examples: int = EXAMPLES,
    max_length: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> LayerScores:
    """The layer scores of an encoder for a task, from training rows only.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        scores: names of layer scores.
        pooling: 'mean' of the tokens except the first, the 'first' token, or the mean of 'all' tokens.
        examples: how many training rows to use at most, drawn in proportion to the classes.
        max_length: cut texts at this many tokens.
        seed: of the draw.
        progress: told how many texts are done.
    """
    if examples < 2:
        raise OptionError(f"examples {examples}: at least 2 are needed")
    chosen = [LAYER_SCORES[name] for name in dict.fromkeys(scores)]
    task = task if isinstance(task, Task) else load_task("movies" if task is None else task, seed=seed)
    if task.kind == "regression":
        raise MeasureError(f"{task.name}: labels are numbers to predict, and variability needs classes to tell apart")
    encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    started = time.perf_counter()
    rows = sample(task.train, examples, seed=seed).as_rows()
    if len(set(rows.labels)) < 2:
        raise MeasureError(f"{task.name}: the {len(rows)} sampled rows are all of one class; raise --examples")
    tokens = encoder.tokenize(rows.texts, rows.pairs, max_length=max_length)
    labels = torch.tensor(rows.labels)
    states = pooled_states(encoder, tokens, pooling=pooling, progress=progress)
    values = {
        score.name: LayerScore(
            name=score.name,
            better=score.better,
            values=_values(score.compute(states, labels)),
            summary=score.summary,
        )
        for score in chosen
    }
    limit = max_length or min(encoder.max_length, 512)
    return LayerScores(
        encoder=encoder.name,
        revision=encoder.revision,
        family=encoder.family.name,
        depth=encoder.depth,
        width=encoder.width,
        task=task.name,
        fingerprint=task.fingerprint,
        kind=task.kind,
        labels=task.label_names,
        metric=task.metrics[0],
        pooling=pooling,
        examples=len(rows),
        max_length=limit,
        truncated=tokens.truncated,
        seed=seed,
        scores=values,
        seconds=time.perf_counter() - started,
        notes=(*task.notes, *_notes(encoder, len(rows), tokens.truncated, limit)),
    )


def _values(scores: Tensor) -> tuple[float | None, ...]:
    return tuple(value if value == value else None for value in scores.tolist())


def _notes(encoder: Encoder, examples: int, truncated: int, limit: int) -> list[str]:
    notes = []
    if truncated:
        notes.append(f"{truncated:,} of {examples:,} texts were longer than {limit} tokens and cut")
    if examples < TOO_FEW:
        notes.append(
            f"{examples:,} texts are few for width {encoder.width}: variability comes out too low, "
            "and the best layer may change with more"
        )
    return notes
