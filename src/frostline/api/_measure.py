"""Measure every layer of an encoder for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from frostline.api._arguments import to_encoder, to_task
from frostline.encoders.encoder import Encoder
from frostline.progress import Progress, silent
from frostline.records import LayerScores
from frostline.scoring.measurement import EXAMPLES, MEMORY_LIMIT, MeasureOptions, measure_layers
from frostline.scoring.selection import Rows, choose_scores
from frostline.states.pooled import Pooling
from frostline.tasks import Task


def measure(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    scores: Sequence[str] | Literal["default", "all"] = "default",
    pooling: Pooling = "mean",
    examples: int = EXAMPLES,
    rows: Rows = "train",
    max_length: int | None = None,
    uncertainty: bool = True,
    similarity: bool = True,
    nulls: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    stream: bool = False,
    needs_all: bool | None = None,
    seed: int = 0,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress = silent,
) -> LayerScores:
    """The layer scores of an encoder for a task.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        scores: names of layer scores, or 'default', or 'all'.
        pooling: 'mean' of the tokens except the first, the 'first' token, the mean of 'all' tokens, or 'released', see
            `pooled_states`.
        examples: how many rows to use at most, drawn in proportion to the classes.
        rows: which split; a model that was tuned on the training rows is measured on others, since it knows those.
        max_length: cut texts at this many tokens.
        uncertainty: find intervals too.
        similarity: compare all layers with each other (CKA).
        nulls: what chance gives, for comparison: 'shuffled' labels, a 'random' encoder of the same shape.
        options: of scores, by name, as in {"probe.head": {"learning_rate": 3e-3}}.
        stream: keep sums only and no states, so that any number of rows can be measured; for scores that allow it, and
            without intervals, similarity and nulls.
        needs_all: whether a score that the rows do not allow is an error, or left out with a note; None for an error
            where scores are given by name.
        seed: of everything that is drawn.
        memory_limit: bytes of states beyond which they lie on disk.
        progress: progress callback.

    Example:
        >>> scores = frostline.measure(task="reviews.csv", scores=["variability", "change"])
        >>> scores.depth
        6
        >>> len(scores["variability"].values)  # the embeddings and six layers
        7
    """
    asked = MeasureOptions(
        scores=scores,
        pooling=pooling,
        examples=examples,
        rows=rows,
        max_length=max_length,
        uncertainty=uncertainty,
        similarity=similarity,
        nulls=nulls,
        options=options or {},
        stream=stream,
        needs_all=needs_all,
        seed=seed,
        memory_limit=memory_limit,
    )
    loaded = to_task(task, seed=seed)
    choose_scores(scores, loaded, stream=stream)  # refuses wrong names before the encoder is loaded
    return measure_layers(to_encoder(encoder), loaded, asked, progress=progress)
