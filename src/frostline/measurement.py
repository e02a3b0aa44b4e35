"""Measure: every layer of one encoder scored for one task, before any tuning."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from frostline.states.moments import stream_moments
from frostline.states.pooled import Pooling, pooled_states
from frostline.tasks import Split, Task, load_task
from frostline.tasks.splits import sample
from frostline.tokens import Tokens
from frostline.trust import agreements, smoothness

Rows = Literal["train", "validation", "test"]
Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much
Matrix = tuple[tuple[float | None, ...], ...]

EXAMPLES = 5_000  # from here on the curves of paper 1 overlap
DEFAULT_SCORES = ("variability", "label_similarity", "change", "probe.linear")
_TOO_FEW = 1_000
_SIMILARITY_TEXTS = 1_000
_MEMORY_LIMIT = 4 << 30
_TEXTS_PER_CHUNK = 2_000


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
    stream: bool = False,
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
        stream: keep sums only and no states, so that any number of rows can be measured; for scores that allow it, and
            without intervals, similarity and nulls.
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
    chosen, notes = _choose(scores, task, stream=stream)
    encoder = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    split = _draw(_rows_of(task, rows), examples, seed=seed)
    if task.kind != "regression" and len(set(split.labels)) < 2:
        raise MeasureError(f"{task.name}: the {len(split)} sampled rows are all of one class; raise --examples")
    tell = progress or (lambda what, done, total: None)

    started = time.perf_counter()
    matrices: dict[str, Matrix] = {}
    if stream:
        found, truncated = _stream(encoder, split, chosen, pooling=pooling, max_length=max_length, tell=tell)
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
        found, more = _score_all(
            chosen, evidence, nulls, uncertainty=uncertainty, may_fail=isinstance(scores, str), tell=tell
        )
        notes, truncated = [*notes, *more], tokens.truncated
        matrices = _similarity(evidence) if similarity else {}
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
        notes=(*task.notes, *notes, *_notes(encoder, task, split, rows, truncated, limit)),
        seconds={"states": round(passed - started, 3), "scores": round(time.perf_counter() - passed, 3)},
    )


def _choose(scores: Sequence[str] | str, task: Task, *, stream: bool) -> tuple[list[Score], list[str]]:
    """The scores to compute; one that does not fit is an error if it was asked for by name, and left out if not."""
    if isinstance(scores, str) and scores not in ("default", "all"):
        scores = [scores]
    names = LAYER_SCORES.names() if scores == "all" else DEFAULT_SCORES if scores == "default" else scores
    chosen = [LAYER_SCORES[name] for name in dict.fromkeys(names)]
    if not chosen:
        raise OptionError(f"no layer score asked for; known: {', '.join(LAYER_SCORES)}")
    reasons = {}
    for score in chosen:
        if task.kind == "regression" and (score.needs == "classes" or stream):
            reasons[score.name] = "needs classes, and the labels are numbers to predict (unless --kind says otherwise)"
        elif stream and score.from_moments is None:
            reasons[score.name] = "needs all states and cannot be streamed"
    if reasons and not isinstance(scores, str):
        name, reason = next(iter(reasons.items()))
        raise MeasureError(f"{task.name}: {name} {reason}")
    left = [score for score in chosen if score.name not in reasons]
    if not left:
        raise MeasureError(f"{task.name}: {chosen[0].name} {reasons[chosen[0].name]}, and so do all other scores")
    return left, [f"{name} left out: it {reason}" for name, reason in reasons.items()]


def _rows_of(task: Task, rows: Rows) -> Split:
    if rows not in ("train", "validation", "test"):
        raise OptionError(f"rows {rows!r}: must be one of train, validation, test")
    split = task.splits.get(rows)
    if split is None:
        raise OptionError(f"{task.name}: has no {rows} rows")
    return split


def _draw(split: Split, examples: int, *, seed: int) -> Split:
    """At most that many rows; a question with its choices counts as many rows as it has choices."""
    per_question = max(map(len, split.choices)) if split.choices else 1
    return sample(split, max(1, examples // per_question), seed=seed).as_rows()


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
) -> tuple[dict[str, LayerScore], list[str]]:
    """The scores, and a note for each that these rows do not allow, where `may_fail` (they were not asked for)."""
    found: dict[str, LayerScore] = {}
    notes = []
    for number, score in enumerate(chosen):
        tell(f"scoring: {score.name}", number, len(chosen))
        started = time.perf_counter()
        try:
            estimate = _estimate(score, evidence, uncertainty=uncertainty)
        except MeasureError as error:
            if not may_fail:
                raise
            notes.append(f"{score.name} left out: {error}")
            continue
        found[score.name] = _record(score, estimate, seed=evidence.seed, seconds=time.perf_counter() - started)
    for null in nulls:
        tell(f"chance: {null}", 0, len(chosen))
        chance = NULLS[null](evidence, poolings=list(evidence.states))
        for number, score in enumerate(score for score in chosen if score.name in found):
            tell(f"chance: {null}, {score.name}", number, len(found))
            values = _numbers(_estimate(score, chance, uncertainty=False).values)
            found[score.name] = replace(found[score.name], nulls={**found[score.name].nulls, null: values})
    return found, notes


def _stream(
    encoder: Encoder,
    split: Split,
    chosen: Sequence[Score],
    *,
    pooling: Pooling,
    max_length: int | None,
    tell: Progress,
) -> tuple[dict[str, LayerScore], int]:
    """The scores from sums over all rows, and how many texts were cut."""
    labels = torch.unique(torch.tensor(split.labels), return_inverse=True)[1]
    truncated = 0

    def chunks() -> Iterator[tuple[Tokens, Tensor]]:
        nonlocal truncated
        for start in range(0, len(split), _TEXTS_PER_CHUNK):
            part = split.take(range(start, min(start + _TEXTS_PER_CHUNK, len(split))))
            tokens = encoder.tokenize(part.texts, part.pairs, max_length=max_length)
            truncated += tokens.truncated
            yield tokens, labels[start : start + len(part)]

    moments = stream_moments(
        encoder,
        chunks(),
        classes=int(labels.max()) + 1,
        pooling=pooling,
        progress=lambda done: tell("running the encoder", done, len(split)),
    )
    found = {}
    for score in chosen:
        if score.from_moments is not None:
            found[score.name] = _record(score, Estimate(values=score.from_moments(moments)), seed=0, seconds=0.0)
    return found, truncated


def _estimate(score: Score, evidence: Evidence, *, uncertainty: bool) -> Estimate:
    """The score on the evidence, cut to equal classes where the score is defined so."""
    return score.estimate(evidence.balanced() if score.balanced else evidence, uncertainty=uncertainty)


def _record(score: Score, estimate: Estimate, *, seed: int, seconds: float) -> LayerScore:
    interval = estimate.interval()
    probability = estimate.probability_of_best(score.better, seed=seed)
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
        seconds=seconds,
    )


def _numbers(values: Tensor | Iterable[float]) -> tuple[float | None, ...]:
    listed = values.tolist() if isinstance(values, Tensor) else values
    return tuple(value if value == value else None for value in listed)


def _similarity(evidence: Evidence) -> dict[str, Matrix]:
    """CKA between all layers for the pooling asked for and for the first token, on some of the texts."""
    if len(evidence) < 4:
        return {}
    few = torch.arange(len(evidence))[:: -(-len(evidence) // _SIMILARITY_TEXTS)]
    poolings: list[Pooling] = ["first", evidence.pooling]
    return {
        pooling: tuple(_numbers(row) for row in cka_matrix(evidence.states[pooling][:, few]))
        for pooling in dict.fromkeys(poolings)
    }


def _notes(encoder: Encoder, task: Task, split: Split, rows: Rows, truncated: int, limit: int) -> list[str]:
    notes, count = [], len(split)
    sizes = Counter(split.labels) if task.kind != "regression" else Counter()
    if truncated:
        were = "was" if truncated == 1 else "were"
        notes.append(f"{truncated:,} of {count:,} texts {were} longer than {limit} tokens and cut")
    if count < _TOO_FEW:
        notes.append(
            f"{count:,} texts are few for width {encoder.width}: variability comes out too low, "
            "and the best layer may change with more"
        )
    if task.kind == "classification":
        absent = [name for label, name in enumerate(task.label_names) if label not in sizes]
        if absent:
            notes.append(f"not among the {count:,} texts, so not measured: {', '.join(absent)}")
    if sizes and min(sizes.values()) == 1:
        notes.append("a class has only one text, which has no spread: scores of spread come out too low")
    if encoder.depth < 3:
        notes.append(f"{encoder.depth} layers are too few for a smoothness")
    if rows == "train" and encoder.is_tuned:
        notes.append(
            f"{encoder.name} is a tuned classifier: if it was tuned on these rows, it knows them by heart; "
            "measure it on others with --rows validation"
        )
    return notes
