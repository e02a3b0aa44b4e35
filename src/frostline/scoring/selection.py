"""What is measured: which scores fit a task, and which rows are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from frostline.errors import MeasureError, OptionError
from frostline.options import as_word, read_options
from frostline.scoring.scores import LAYER_SCORES, Score
from frostline.tasks import Split, Task
from frostline.tasks.splits import sample

Rows = Literal["train", "validation", "test"]

DEFAULT_SCORES = ("variability", "label_similarity", "change", "probe.linear")


def choose_scores(scores: Sequence[str] | str, task: Task, *, stream: bool) -> tuple[list[Score], dict[str, str]]:
    """The scores to compute, and why others are left out.

    One that does not fit is an error if it was asked for by name.
    """
    if isinstance(scores, str) and scores not in ("default", "all"):
        scores = [scores]
    names = LAYER_SCORES.names() if scores == "all" else DEFAULT_SCORES if scores == "default" else scores
    chosen = [LAYER_SCORES[name] for name in dict.fromkeys(names)]
    if not chosen:
        raise OptionError(f"no layer score asked for; known: {', '.join(LAYER_SCORES)}")
    reasons = {}
    for score in chosen:
        if task.kind == "regression" and (score.needs == "classes" or stream):
            reasons[score.name] = "needs classes, and the labels are numbers to predict (unless `kind` says otherwise)"
        elif stream and score.from_moments is None:
            reasons[score.name] = "needs all states and cannot be streamed"
    if reasons and not isinstance(scores, str):
        name, reason = next(iter(reasons.items()))
        raise MeasureError(f"{task.name}: {name} {reason}")
    left = [score for score in chosen if score.name not in reasons]
    if not left:
        raise MeasureError(f"{task.name}: {chosen[0].name} {reasons[chosen[0].name]}, and so do all other scores")
    return left, {name: f"it {reason}" for name, reason in reasons.items()}


def with_options(scores: Sequence[Score], options: Mapping[str, Mapping[str, Any]]) -> list[Score]:
    """The scores, those that have options set computed with them."""
    for name in options:
        if name not in {score.name for score in scores}:
            raise OptionError(f"options of {name!r}: it is not among the scores that are measured")
    found = []
    for score in scores:
        given = options.get(score.name, {})
        told = read_options(f"score {score.name}", score.defaults, given)
        found.append(replace(score, estimate=partial(score.estimate, **told)) if given else score)
    return found


def options_in_words(options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each score whose options are set."""
    return [
        f"{name} with {', '.join(f'{option} {as_word(value)}' for option, value in given.items())}"
        for name, given in options.items()
        if given
    ]


def rows_of(task: Task, rows: Rows) -> Split:
    """The task's split of that name."""
    if rows not in ("train", "validation", "test"):
        raise OptionError(f"rows {rows!r}: must be one of train, validation, test")
    split = task.splits.get(rows)
    if split is None:
        raise OptionError(f"{task.name}: has no {rows} rows")
    return split


def draw_rows(split: Split, examples: int, *, seed: int) -> Split:
    """At most that many rows; a question with its choices counts as many rows as it has choices."""
    per_question = max(map(len, split.choices)) if split.choices else 1
    return sample(split, max(1, examples // per_question), seed=seed).as_rows()
