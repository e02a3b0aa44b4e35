"""Measure every layer of an encoder for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from frostline.api._arguments import to_encoder, to_task
from frostline.encoders.encoder import Encoder
from frostline.kernels.device import computing
from frostline.progress import Progress, silent
from frostline.records import LayerScores
from frostline.scoring.measurement import EXAMPLES, MEMORY_LIMIT, MeasureOptions, measure_layers
from frostline.scoring.selection import Rows, choose_scores
from frostline.states.pooled import Pooling
from frostline.tasks import Task


@computing()
def measure(
    encoder: Encoder | str | Path | None = None,
    task: Task | Any = None,
    *,
    scores: Sequence[str] | Literal["default", "all"] = "default",
    pooling: Pooling = "mean",
    examples: int = EXAMPLES,
    rows: Rows = "train",
    judged_on: Rows | None = None,
    chosen_on: Rows | None = None,
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
    """Return the layer scores of an encoder for a task.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        scores: names of layer scores, or 'default', or 'all'.
        pooling: 'mean' (of all tokens but the first), 'first' (token), 'all' (tokens) or 'released'.
        examples: most rows to use; a stratified sample if there are more.
        rows: the split to measure on; a tuned model has memorised its training rows.
        judged_on: another split to judge probes on, fitted on all measured rows; None for a part of the measured rows.
        chosen_on: another split on which probes choose their epoch; None for a part of the measured rows.
        max_length: cut texts at this many tokens.
        uncertainty: compute intervals as well.
        similarity: compare all layers with each other (CKA).
        nulls: chance levels to compare with: 'shuffled' labels, a 'random' encoder of the same shape.
        options: options of scores by name, as in {"probe.head": {"learning_rate": 3e-3}}.
        stream: use constant memory, for any number of rows; without intervals, similarity and nulls.
        needs_all: raise where the rows do not allow a score; None raises only for scores given by name.
        seed: seed of everything drawn at random.
        memory_limit: bytes of states in memory; more are kept on disk.
        progress: progress callback.

    Example:
        >>> frostline.measure(task="reviews.csv", scores=["variability"]).depth
        6
    """
    of_rows = partial(MeasureOptions, rows=rows, judged_on=judged_on, chosen_on=chosen_on, examples=examples, seed=seed)
    of_states = partial(of_rows, pooling=pooling, max_length=max_length, stream=stream, memory_limit=memory_limit)
    asked = of_states(
        scores=scores,
        options=options or {},
        nulls=nulls,
        uncertainty=uncertainty,
        similarity=similarity,
        needs_all=needs_all,
    )
    loaded = to_task(task, seed=seed)
    choose_scores(scores, loaded, stream=stream)  # refuses wrong names before the encoder is loaded
    return measure_layers(to_encoder(encoder), loaded, asked, progress=progress)
