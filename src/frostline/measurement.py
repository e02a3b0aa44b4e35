"""Measure: every layer of one encoder scored for one task, before any tuning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from frostline.checkpoint import load_encoder
from frostline.encoder import Encoder
from frostline.errors import MeasureError, OptionError
from frostline.estimate import Estimate
from frostline.evidence import Evidence
from frostline.nulls import NULLS
from frostline.records import LayerScore, LayerScores
from frostline.scores import LAYER_SCORES, Score
from frostline.similarity import cka_matrix
from frostline.states.pooled import Pooling, pooled_states
from frostline.tasks import Split, Task, load_task
from frostline.tasks.splits import sample
from frostline.trust import agreements, smoothness

Rows = Literal["train", "validation", "test"]
Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much

EXAMPLES = 5_000  # from here on the curves of paper 1 overlap
DEFAULT_SCORES = ("variability", "label_similarity", "change", "probe.linear")
_TOO_FEW = 1_000
_SIMILARITY_TEXTS = 1_000
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
    seed: int = 0,
    memory_limit: int = _MEMORY_LIMIT,
    progress: Progress | None = None,
) -> LayerScores:
    """The layer scores of an encoder for a task.

    Args:
        encoder: an Encoder, a folder, a hub id, or None for the embedded default.
        task: a Task, a file, preset name, hub id, DataFrame or Dataset, or None for the embedded default.
        scores: names of layer scores, or 'default', or 'all'.
        pooling: 'mean' of the tokens except the first, the 'first' token, or the mean of 'all' tokens.
        examples: how many rows to use at most, drawn in proportion to the classes.
        rows: which split; a model that was tuned on the training rows is measured on others, since it knows those.
        max_length: cut texts at this many tokens.
        uncertainty: find intervals too.
        similarity: compare all layers with each other (CKA).
        nulls: what chance gives, for comparison: 'shuffled' labels, a 'random' encoder of the same shape.
        seed: of everything that is drawn.
        memory_limit: bytes of states beyond which they lie on disk.
        progress: told what is being done, and how much of it is done.
    """
    if examples < 2:
        raise OptionError(f"examples {examples}: at least 2 are needed")
    unknown = [null for null in nulls if null not in NULLS]
    if unknown:
        raise OptionError(f"null {unknown[0]!r}: must be one of {', '.join(NULLS)}")
    task = task if isinstance(task, Task) else load_task("movies" if task is None else task, seed=seed)
    chosen, notes = _choose(scores, task)
    encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    tell = progress or (lambda what, done, total: None)

    started = time.perf_counter()
    split = sample(_rows_of(task, rows), examples, seed=seed).as_rows()
    wanted = [pooling, *(score.pooling for score in chosen if score.pooling), *(("first",) if similarity else ())]
    evidence, truncated = _gather(
        encoder,
        task,
        split,
        poolings=list(dict.fromkeys(wanted)),
        max_length=max_length,
        seed=seed,
        memory_limit=memory_limit,
        tell=lambda done, total: tell("running the encoder", done, total),
    )
    passed = time.perf_counter()
    found = {}
    for number, score in enumerate(chosen):
        tell(f"scoring: {score.name}", number, len(chosen))
        found[score.name] = _score(score, evidence, uncertainty=uncertainty)
    for null in nulls:
        tell(f"chance: {null}", 0, 1)
        other = NULLS[null](evidence, poolings=list(evidence.states))
        for score in chosen:
            values = _numbers(_sampled(score, other).values)
            found[score.name] = replace(found[score.name], nulls={**found[score.name].nulls, null: values})
    limit = max_length or encoder.default_length
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
        similarity=_similarity(evidence, pooling) if similarity else {},
        agreement=tuple(one.to_json() for one in agreements({name: one.values for name, one in found.items()})),
        notes=(*task.notes, *notes, *_notes(encoder, evidence, rows, truncated, limit)),
        seconds={"states": round(passed - started, 3), "scores": round(time.perf_counter() - passed, 3)},
    )


def _choose(scores: Sequence[str] | str, task: Task) -> tuple[list[Score], list[str]]:
    """The scores to compute. Asked for by name, one that does not fit the task is an error; otherwise it is left out."""
    if isinstance(scores, str) and scores not in ("default", "all"):
        scores = [scores]
    by_name = not isinstance(scores, str)
    names = LAYER_SCORES.names() if scores == "all" else DEFAULT_SCORES if scores == "default" else scores
    if not names:
        raise OptionError(f"no layer score asked for; known: {', '.join(LAYER_SCORES)}")
    chosen = [LAYER_SCORES[name] for name in dict.fromkeys(names)]
    if task.kind != "regression":
        return chosen, []
    misfits = [score.name for score in chosen if score.needs == "classes"]
    if misfits and by_name:
        raise MeasureError(
            f"{task.name}: {misfits[0]} needs classes to tell apart, and the labels are numbers to predict"
        )
    left = [score for score in chosen if score.name not in misfits]
    return left, [f"left out, since they need classes: {', '.join(misfits)}"] if misfits else []


def _rows_of(task: Task, rows: Rows) -> Split:
    if rows not in ("train", "validation", "test"):
        raise OptionError(f"rows {rows!r}: must be one of train, validation, test")
    split = task.splits.get(rows)
    if split is None:
        raise OptionError(f"{task.name}: has no {rows} rows")
    return split


def _gather(
    encoder: Encoder,
    task: Task,
    split: Split,
    *,
    poolings: Sequence[Pooling],
    max_length: int | None,
    seed: int,
    memory_limit: int,
    tell: Callable[[int, int], None],
) -> tuple[Evidence, int]:
    if task.kind != "regression" and len(set(split.labels)) < 2:
        raise MeasureError(f"{task.name}: the {len(split)} sampled rows are all of one class; raise --examples")
    tokens = encoder.tokenize(split.texts, split.pairs, max_length=max_length)
    states = pooled_states(encoder, tokens, poolings=poolings, progress=tell, memory_limit=memory_limit)
    groups = {group: number for number, group in enumerate(dict.fromkeys(split.groups or ()))}
    numbers = range(len(split)) if split.groups is None else [groups[group] for group in split.groups]
    evidence = Evidence(
        states=states,
        labels=torch.tensor(split.labels),
        groups=torch.tensor(numbers),
        kind=task.kind,
        metric=task.metrics[0],
        pooling=poolings[0],
        seed=seed,
        encoder=encoder,
        tokens=tokens,
        split=split,
    )
    return evidence, tokens.truncated


def _score(score: Score, evidence: Evidence, *, uncertainty: bool) -> LayerScore:
    started = time.perf_counter()
    estimate = _sampled(score, evidence, uncertainty=uncertainty)
    interval = estimate.interval()
    probability = estimate.probability_of_best(score.better, seed=evidence.seed)
    values = _numbers(estimate.values)
    smooth = smoothness(values)
    return LayerScore(
        name=score.name,
        better=score.better,
        values=values,
        low=None if interval is None else _numbers(interval[0]),
        high=None if interval is None else _numbers(interval[1]),
        uncertainty=estimate.method,
        probability=None if probability is None else tuple(probability.tolist()),
        tied=tuple(estimate.tied(score.better)),
        smoothness=None if smooth is None else smooth.to_json(),
        summary=score.summary,
        paper=score.paper,
        seconds=time.perf_counter() - started,
    )


def _sampled(score: Score, evidence: Evidence, *, uncertainty: bool = False) -> Estimate:
    """The score on the evidence, cut to equal classes where the score is defined so."""
    return score.estimate(evidence.balanced() if score.balanced else evidence, uncertainty=uncertainty)


def _numbers(values: Tensor | Iterable[float]) -> tuple[float | None, ...]:
    listed = values.tolist() if isinstance(values, Tensor) else values
    return tuple(value if value == value else None for value in listed)


def _similarity(evidence: Evidence, pooling: Pooling) -> dict[str, tuple[tuple[float | None, ...], ...]]:
    """CKA between all layers for the pooling and for the first token, on some of the texts."""
    if len(evidence) < 4:
        return {}
    few = torch.arange(len(evidence))[:: max(1, -(-len(evidence) // _SIMILARITY_TEXTS))]
    return {
        name: tuple(_numbers(row) for row in cka_matrix(evidence.states[name][:, few]))
        for name in dict.fromkeys(("first", pooling))
    }


def _notes(encoder: Encoder, evidence: Evidence, rows: Rows, truncated: int, limit: int) -> list[str]:
    notes, count = [], len(evidence)
    if truncated:
        notes.append(f"{truncated:,} of {count:,} texts were longer than {limit} tokens and cut")
    if count < _TOO_FEW:
        notes.append(
            f"{count:,} texts are few for width {encoder.width}: variability comes out too low, "
            "and the best layer may change with more"
        )
    if evidence.has_classes and int(torch.unique(evidence.labels, return_counts=True)[1].min()) == 1:
        notes.append("a class has only one text, which has no spread: scores of spread come out too low")
    if rows == "train" and encoder.is_tuned:
        notes.append(
            f"{encoder.name} is a tuned classifier: if it was tuned on these rows, it knows them by heart; "
            "measure it on others with --rows validation"
        )
    return notes
