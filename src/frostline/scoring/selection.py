"""Selection of scores that suit a task, and of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from frostline.errors import MeasureError, OptionError
from frostline.kernels.batch_layout import Ints
from frostline.options import as_word, read_options
from frostline.scoring.scores import LAYER_SCORES, Score
from frostline.tasks import Split, Task
from frostline.tasks.splits import sample, sampled_rows

Rows = Literal["train", "validation", "test"]

DEFAULT_SCORES = ("variability", "label_similarity", "change", "probe.linear")


def choose_scores(scores: Sequence[str] | str, task: Task, *, stream: bool) -> tuple[list[Score], dict[str, str]]:
    """Return the scores to compute, and why others are left out.

    A score that does not suit the task is an error if it was asked for by name.
    """
    if isinstance(scores, str) and scores not in ("default", "all"):
        scores = [scores]
    names = LAYER_SCORES.names() if scores == "all" else DEFAULT_SCORES if scores == "default" else scores
    chosen = [LAYER_SCORES[name] for name in dict.fromkeys(names)]
    if not chosen:
        raise OptionError(f"no layer score requested; available: {', '.join(LAYER_SCORES)}")
    reasons = {}
    for score in chosen:
        if task.kind == "regression" and (score.needs == "classes" or stream):
            reasons[score.name] = "needs classes, and the labels are numbers (unless `kind` says otherwise)"
        elif stream and score.from_moments is None:
            reasons[score.name] = "needs all states and cannot be streamed"
    if reasons and not isinstance(scores, str):
        name, reason = next(iter(reasons.items()))
        raise MeasureError(f"{task.name}: {name} {reason}")
    suited = [score for score in chosen if score.name not in reasons]
    if not suited:
        raise MeasureError(f"{task.name}: {chosen[0].name} {reasons[chosen[0].name]}, and so do all other scores")
    return suited, {name: f"it {reason}" for name, reason in reasons.items()}


def with_options(scores: Sequence[Score], options: Mapping[str, Mapping[str, Any]]) -> list[Score]:
    """Return the scores with their options set."""
    for name in options:
        if name not in {score.name for score in scores}:
            raise OptionError(f"options of {name!r}: it is not one of the measured scores")
    return [_with(score, options[score.name]) if options.get(score.name) else score for score in scores]


def _with(score: Score, options: Mapping[str, Any]) -> Score:
    values = read_options(f"score {score.name}", score.defaults, options)
    return replace(score, estimate=partial(score.estimate, **values))


def options_in_words(options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each score whose options are set."""
    return [
        f"{name} with {', '.join(f'{option} {as_word(value)}' for option, value in values.items())}"
        for name, values in options.items()
        if values
    ]


def rows_of(task: Task, rows: Rows) -> Split:
    """Return the task's split of this name."""
    if rows not in ("train", "validation", "test"):
        raise OptionError(f"rows {rows!r}: must be one of train, validation, test")
    split = task.splits.get(rows)
    if split is None:
        raise OptionError(f"{task.name}: has no {rows} rows")
    return split


def draw_rows(split: Split, examples: int, *, seed: int) -> Split:
    """Return a sample of at most `examples` rows; a question counts as many rows as it has choices."""
    return sample(split, _most_rows(split, examples), seed=seed).as_rows()


def draw_texts(split: Split, examples: int, *, seed: int) -> Ints:
    """Return the numbers of the texts of `draw_rows`, ascending; each choice of a question is a text."""
    rows = np.array(sampled_rows(split, _most_rows(split, examples), seed=seed), dtype=np.int64)
    if split.choices is None:
        return rows
    counts = np.array([len(choices) for choices in split.choices])
    starts = np.cumsum(counts) - counts
    return np.concatenate([np.arange(starts[row], starts[row] + counts[row]) for row in rows])


def _most_rows(split: Split, examples: int) -> int:
    per_question = max(map(len, split.choices)) if split.choices else 1
    return max(1, examples // per_question)
