"""Measure every layer of one encoder for one task, before any tuning."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError, OptionError
from frostline.kernels.batch_layout import Ints
from frostline.progress import Progress, Step, silent
from frostline.records import LayerScore, LayerScores
from frostline.records.encoder_and_task import MeasuredEncoder, MeasuredTask
from frostline.scoring.chance import NULLS
from frostline.scoring.reliability import agreements
from frostline.scoring.score_inputs import Evidence, group_numbers
from frostline.scoring.scores import Score
from frostline.scoring.selection import (
    Rows,
    choose_scores,
    draw_rows,
    draw_texts,
    options_in_words,
    rows_of,
    with_options,
)
from frostline.scoring.streaming import stream_scores
from frostline.scoring.to_records import (
    Matrix,
    as_numbers,
    left_out_in_words,
    make_record,
    notes_on,
    similarity_matrices,
)
from frostline.scoring.uncertainty import Estimate
from frostline.states.pooled import Pooling, SeenTexts, pooled_states
from frostline.tasks import Split, Task

EXAMPLES = 5_000  # with more, the curves of Xie et al. 2022 hardly change
MEMORY_LIMIT = 4 << 30


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Scores, rows and settings of a measurement; the fields are the arguments of `frostline.measure`.

    Args:
        scores: names of layer scores, or 'default', or 'all'.
        pooling: how a text's tokens become one vector.
        examples: most rows to measure.
        rows: the measured split.
        judged_on: another split, on all rows of which probes are judged, fitted on all measured rows; None for a
            division of the measured rows.
        chosen_on: another split, on all rows of which probes choose their best epoch (it may be `judged_on`); None for
            a tenth of the rows that they are trained on.
        max_length: cut texts at this many tokens.
        uncertainty: compute intervals as well.
        similarity: compare all layers with each other.
        nulls: chance levels to compare with.
        options: options of scores by name.
        stream: use constant memory.
        needs_all: raise where the rows do not allow a score; None raises only for scores given by name.
        seed: seed of everything drawn at random.
        memory_limit: bytes of states in memory; more are kept on disk.
    """

    scores: Sequence[str] | Literal["default", "all"] = "default"
    pooling: Pooling = "mean"
    examples: int = EXAMPLES
    rows: Rows = "train"
    judged_on: Rows | None = None
    chosen_on: Rows | None = None
    max_length: int | None = None
    uncertainty: bool = True
    similarity: bool = True
    nulls: Sequence[str] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stream: bool = False
    needs_all: bool | None = None
    seed: int = 0
    memory_limit: int = MEMORY_LIMIT

    def __post_init__(self) -> None:
        least = {"examples": (self.examples, 2), "seed": (self.seed, 0), "max length": (self.max_length or 1, 1)}
        for name, (number, lowest) in least.items():
            if not isinstance(number, int) or number < lowest:
                raise OptionError(f"{name} {number!r}: must be a whole number, {lowest} or more")
        if self.chosen_on is not None and self.judged_on is None:
            raise OptionError(f"chosen on {self.chosen_on!r}: needs judged_on, the rows on which probes are judged")
        for name, other in (("judged on", self.judged_on), ("chosen on", self.chosen_on)):
            if other == self.rows:
                raise OptionError(f"{name} {other!r}: these are the measured rows; choose another split")
        for null in self.nulls:
            if null not in NULLS:
                raise OptionError(f"null {null!r}: must be one of {', '.join(NULLS)}")


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """The scores of one measurement, and the time at which the states were ready."""

    scores: dict[str, LayerScore]
    truncated: int
    states_ready: float
    matrices: dict[str, Matrix] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def texts_to_see(task: Task, options: MeasureOptions) -> tuple[Ints, list[Pooling]]:
    """Return what a measurement needs of a pass over the measured split: numbers of its texts, and poolings.

    Whoever has such a pass already hands it to `measure_layers`.
    """
    chosen, _ = choose_scores(options.scores, task, stream=options.stream)
    texts = draw_texts(rows_of(task, options.rows), options.examples, seed=options.seed)
    return texts, _poolings(chosen, options)


def measure_layers(
    encoder: Encoder,
    task: Task,
    options: MeasureOptions | None = None,
    *,
    seen: SeenTexts | None = None,
    progress: Progress = silent,
) -> LayerScores:
    """Return the layer scores of a loaded encoder for a loaded task.

    Args:
        encoder: the encoder.
        task: the task.
        options: scores, rows and settings.
        seen: tokens and pooled states of the texts that `texts_to_see` names, from a pass that has been made; None to
            tokenize and run them now.
        progress: progress callback.
    """
    asked = options or MeasureOptions()
    chosen, left_out = choose_scores(asked.scores, task, stream=asked.stream)
    chosen = with_options(chosen, asked.options)
    split = draw_rows(rows_of(task, asked.rows), asked.examples, seed=asked.seed)
    if task.kind != "regression" and len(set(split.labels)) < 2:
        raise MeasureError(f"{task.name}: the {len(split)} sampled rows are all of one class; raise `examples`")
    started = time.perf_counter()
    if asked.stream:
        scored = _score_streamed(encoder, split, chosen, asked, progress)
    else:
        _check_seen(seen, task, asked)
        scored = _score_states(encoder, task, split, chosen, asked, seen, progress)
    limit = encoder.default_length if asked.max_length is None else asked.max_length
    left_out = {**left_out, **scored.left_out}
    notes = notes_on(encoder, task, split, asked.rows, scored.truncated, limit, scored.scores)
    probes = [score.name for score in chosen if score.is_probe and score.name in scored.scores]
    return LayerScores(
        encoder=_measured_encoder(encoder),
        task=_measured_task(task),
        pooling=asked.pooling,
        rows=asked.rows,
        judged_on=asked.judged_on if probes else None,
        chosen_on=asked.chosen_on if probes else None,
        examples=len(split),
        max_length=limit,
        truncated=scored.truncated,
        seed=asked.seed,
        scores=scored.scores,
        similarity=scored.matrices,
        agreement=tuple(agreements({name: score.values for name, score in scored.scores.items()}, probes)),
        left_out=left_out,
        notes=(*task.notes, *left_out_in_words(left_out), *options_in_words(asked.options), *notes),
        seconds={
            "states": round(scored.states_ready - started, 3),
            "scores": round(time.perf_counter() - scored.states_ready, 3),
        },
    )


def _measured_encoder(encoder: Encoder) -> MeasuredEncoder:
    return MeasuredEncoder(
        name=encoder.name,
        revision=encoder.revision,
        family=encoder.family.name,
        layers=encoder.depth,
        width=encoder.width,
    )


def _measured_task(task: Task) -> MeasuredTask:
    return MeasuredTask(
        name=task.name,
        fingerprint=task.fingerprint,
        kind=task.kind,
        labels=task.label_names,
        metric=task.metrics[0],
    )


def _check_seen(seen: SeenTexts | None, task: Task, asked: MeasureOptions) -> None:
    """Refuse the states of other texts than the measured ones."""
    if seen is not None and not np.array_equal(seen.texts, texts_to_see(task, asked)[0]):
        raise ValueError(f"the {len(seen.texts):,} texts that were seen are not those to be measured")


def _score_streamed(
    encoder: Encoder, split: Split, chosen: Sequence[Score], asked: MeasureOptions, progress: Progress
) -> _Scored:
    scores, truncated = stream_scores(
        encoder, split, chosen, pooling=asked.pooling, max_length=asked.max_length, progress=progress
    )
    return _Scored(scores=scores, truncated=truncated, states_ready=time.perf_counter())


def _poolings(chosen: Sequence[Score], asked: MeasureOptions) -> list[Pooling]:
    """Return the poolings of the measured rows, each once."""
    poolings: list[Pooling] = [asked.pooling, *(score.pooling for score in chosen if score.pooling)]
    poolings += ["first"] if asked.similarity else []
    return list(dict.fromkeys(poolings))


def _score_states(
    encoder: Encoder,
    task: Task,
    split: Split,
    chosen: Sequence[Score],
    asked: MeasureOptions,
    seen: SeenTexts | None,
    progress: Progress,
) -> _Scored:
    poolings = _poolings(chosen, asked)
    others = _other_rows(encoder, task, chosen, asked, progress)
    evidence = replace(
        _look(encoder, task, split, poolings, asked, progress, seen=seen),
        check=others.get(asked.chosen_on),
        held=others.get(asked.judged_on),
    )
    ready = time.perf_counter()
    scores, left_out = _score_all(
        chosen,
        evidence,
        asked.nulls,
        uncertainty=asked.uncertainty,
        may_fail=isinstance(asked.scores, str) if asked.needs_all is None else not asked.needs_all,
        progress=progress,
    )
    matrices = similarity_matrices(evidence) if asked.similarity else {}
    truncated = 0 if evidence.tokens is None else evidence.tokens.truncated
    return _Scored(scores=scores, truncated=truncated, states_ready=ready, matrices=matrices, left_out=left_out)


def _look(
    encoder: Encoder,
    task: Task,
    split: Split,
    poolings: Sequence[Pooling],
    asked: MeasureOptions,
    progress: Progress,
    *,
    seen: SeenTexts | None = None,
) -> Evidence:
    """Return the encoder's view of rows, of which those that were seen are not run again."""
    if seen is None:
        tokens, states = encoder.tokenize(split.texts, split.pairs, max_length=asked.max_length), {}
    else:
        tokens, states = seen.tokens, {name: seen.states[name] for name in poolings if name in seen.states}
    if missing := [name for name in dict.fromkeys(poolings) if name not in states]:
        states |= pooled_states(encoder, tokens, poolings=missing, memory_limit=asked.memory_limit, progress=progress)
    return Evidence(
        states=states,
        labels=torch.tensor(split.labels),
        groups=group_numbers(split),
        kind=task.kind,
        metric=task.metrics[0],
        pooling=asked.pooling,
        seed=asked.seed,
        encoder=encoder,
        tokens=tokens,
        split=split,
    )


def _other_rows(
    encoder: Encoder, task: Task, chosen: Sequence[Score], asked: MeasureOptions, progress: Progress
) -> dict[Rows | None, Evidence]:
    """Return the encoder's view of the splits on which probes are checked and judged, besides the measured one."""
    poolings = [score.pooling or asked.pooling for score in chosen if score.is_probe]
    if not poolings:
        return {}
    return {
        name: _look(encoder, task, rows_of(task, name).as_rows(), poolings, asked, progress)
        for name in dict.fromkeys((asked.judged_on, asked.chosen_on))
        if name is not None
    }


def _score_all(
    chosen: Sequence[Score],
    evidence: Evidence,
    nulls: Sequence[str],
    *,
    uncertainty: bool,
    may_fail: bool,
    progress: Progress,
) -> tuple[dict[str, LayerScore], dict[str, str]]:
    """Return the scores, and why others failed on these rows, where `may_fail` (they were not asked for by name)."""
    scores: dict[str, LayerScore] = {}
    failed: dict[str, str] = {}
    for number, score in enumerate(chosen):
        progress(Step(stage="scoring", detail=score.name, done=number, total=len(chosen)))
        started = time.perf_counter()
        try:
            estimate = _estimate(score, evidence, uncertainty=uncertainty)
        except MeasureError as error:
            if not may_fail:
                raise
            failed[score.name] = str(error)
            continue
        scores[score.name] = make_record(score, estimate, seed=evidence.seed, seconds=time.perf_counter() - started)
    for null in nulls:
        progress(Step(stage="chance levels", detail=null, total=len(chosen)))
        chance = NULLS[null](evidence, poolings=list(evidence.states))
        for number, score in enumerate(score for score in chosen if score.name in scores):
            progress(Step(stage="chance levels", detail=f"{null}, {score.name}", done=number, total=len(scores)))
            try:
                values = as_numbers(_estimate(score, chance, uncertainty=False).values)
            except MeasureError:  # a random encoder lacks what the score needs, such as a pretrained pooler
                continue
            scores[score.name] = replace(scores[score.name], nulls={**scores[score.name].nulls, null: values})
    return scores, failed


def _estimate(score: Score, evidence: Evidence, *, uncertainty: bool) -> Estimate:
    """Return the score on the evidence, class-balanced where the score is defined so."""
    return score.estimate(evidence.balanced() if score.balanced else evidence, uncertainty=uncertainty)
