"""Measure: every layer of one encoder scored for one task, before any tuning."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.encoders.tokens import Tokens
from frostline.errors import MeasureError, OptionError
from frostline.records import LayerScore, LayerScores
from frostline.scoring.chance import NULLS
from frostline.scoring.reliability import agreements
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import Score
from frostline.scoring.selection import Rows, choose_scores, draw_rows, options_in_words, rows_of, with_options
from frostline.scoring.streaming import stream_scores
from frostline.scoring.to_records import Matrix, left_out_in_words, notes_on, numbers, record, similarity_matrices
from frostline.scoring.uncertainty import Estimate
from frostline.states.pooled import Pooling, pooled_states
from frostline.tasks import Split, Task, load_task

Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much

EXAMPLES = 5_000  # from here on the curves of paper 1 overlap
_MEMORY_LIMIT = 4 << 30


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
    memory_limit: int = _MEMORY_LIMIT,
    progress: Progress | None = None,
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
        progress: told what is being done, and how much of it is done.
    """
    for name, number, least in (("examples", examples, 2), ("seed", seed, 0), ("max length", max_length or 1, 1)):
        if not isinstance(number, int) or number < least:
            raise OptionError(f"{name} {number!r}: must be a whole number, {least} or more")
    if not isinstance(encoder, Encoder | str | Path | None):
        raise OptionError(f"encoder: must be a folder, a hub id or an Encoder, not a {type(encoder).__name__}")
    for null in nulls:
        if null not in NULLS:
            raise OptionError(f"null {null!r}: must be one of {', '.join(NULLS)}")
    task = task if isinstance(task, Task) else load_task("movies" if task is None else task, seed=seed)
    chosen, left_out = choose_scores(scores, task, stream=stream)
    chosen = with_options(chosen, options or {})
    encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    split = draw_rows(rows_of(task, rows), examples, seed=seed)
    if task.kind != "regression" and len(set(split.labels)) < 2:
        raise MeasureError(f"{task.name}: the {len(split)} sampled rows are all of one class; raise --examples")
    tell = progress or (lambda what, done, total: None)

    started = time.perf_counter()
    matrices: dict[str, Matrix] = {}
    if stream:
        found, truncated = stream_scores(encoder, split, chosen, pooling=pooling, max_length=max_length, tell=tell)
        passed = time.perf_counter()
    else:
        wanted: list[Pooling] = [pooling, *(score.pooling for score in chosen if score.pooling)]
        wanted += ["first"] if similarity else []
        tokens = encoder.tokenize(split.texts, split.pairs, max_length=max_length)
        states = pooled_states(
            encoder,
            tokens,
            poolings=list(dict.fromkeys(wanted)),
            memory_limit=memory_limit,
            progress=lambda done, total: tell("running the encoder", done, total),
        )
        passed = time.perf_counter()
        evidence = _evidence(encoder, task, split, tokens, states, pooling=pooling, seed=seed)
        may_fail = isinstance(scores, str) if needs_all is None else not needs_all
        found, failed = _score_all(chosen, evidence, nulls, uncertainty=uncertainty, may_fail=may_fail, tell=tell)
        left_out, truncated = {**left_out, **failed}, tokens.truncated
        matrices = similarity_matrices(evidence) if similarity else {}
    limit = encoder.default_length if max_length is None else max_length
    return LayerScores(
        encoder={
            "name": encoder.name,
            "revision": encoder.revision,
            "family": encoder.family.name,
            "layers": encoder.depth,
            "width": encoder.width,
        },
        task={
            "name": task.name,
            "fingerprint": task.fingerprint,
            "kind": task.kind,
            "labels": list(task.label_names),
            "metric": task.metrics[0],
        },
        pooling=pooling,
        rows=rows,
        examples=len(split),
        max_length=limit,
        truncated=truncated,
        seed=seed,
        scores=found,
        similarity=matrices,
        agreement=tuple(one.to_json() for one in agreements({name: one.values for name, one in found.items()})),
        left_out=left_out,
        notes=(
            *task.notes,
            *left_out_in_words(left_out),
            *options_in_words(options or {}),
            *notes_on(encoder, task, split, rows, truncated, limit, found),
        ),
        seconds={"states": round(passed - started, 3), "scores": round(time.perf_counter() - passed, 3)},
    )


def _evidence(
    encoder: Encoder,
    task: Task,
    split: Split,
    tokens: Tokens,
    states: dict[Pooling, Tensor],
    *,
    pooling: Pooling,
    seed: int,
) -> Evidence:
    numbers = {group: number for number, group in enumerate(dict.fromkeys(split.groups or ()))}
    groups = range(len(split)) if split.groups is None else [numbers[group] for group in split.groups]
    return Evidence(
        states=states,
        labels=torch.tensor(split.labels),
        groups=torch.tensor(groups),
        kind=task.kind,
        metric=task.metrics[0],
        pooling=pooling,
        seed=seed,
        encoder=encoder,
        tokens=tokens,
        split=split,
    )


def _score_all(
    chosen: Sequence[Score],
    evidence: Evidence,
    nulls: Sequence[str],
    *,
    uncertainty: bool,
    may_fail: bool,
    tell: Progress,
) -> tuple[dict[str, LayerScore], dict[str, str]]:
    """The scores, and why these rows do not allow others, where `may_fail` (they were not asked for)."""
    found: dict[str, LayerScore] = {}
    failed: dict[str, str] = {}
    for number, score in enumerate(chosen):
        tell(f"scoring: {score.name}", number, len(chosen))
        started = time.perf_counter()
        try:
            estimate = _estimate(score, evidence, uncertainty=uncertainty)
        except MeasureError as error:
            if not may_fail:
                raise
            failed[score.name] = str(error)
            continue
        found[score.name] = record(score, estimate, seed=evidence.seed, seconds=time.perf_counter() - started)
    for null in nulls:
        tell(f"chance: {null}", 0, len(chosen))
        chance = NULLS[null](evidence, poolings=list(evidence.states))
        for number, score in enumerate(score for score in chosen if score.name in found):
            tell(f"chance: {null}, {score.name}", number, len(found))
            values = numbers(_estimate(score, chance, uncertainty=False).values)
            found[score.name] = replace(found[score.name], nulls={**found[score.name].nulls, null: values})
    return found, failed


def _estimate(score: Score, evidence: Evidence, *, uncertainty: bool) -> Estimate:
    """The score on the evidence, cut to equal classes where the score is defined so."""
    return score.estimate(evidence.balanced() if score.balanced else evidence, uncertainty=uncertainty)
