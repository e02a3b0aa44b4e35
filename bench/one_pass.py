"""Measuring and freezing in one pass next to two, and measuring 77 and 150 classes next to 2. `make bench-one-pass`

    python bench/one_pass.py [ROWS]

Prints a table and, as the last line, one flat JSON object of ratios. Texts are those of the embedded movies, on the
embedded encoder. Two passes: rows are tokenized and run for the scores, then tokenized and run again for the frozen
states of all layers. One pass does both at once; scores and cached bytes are compared first. Classes are made up: a
text has the class of the nearest of as many texts, in the last layer's states. All sides run in one process, taking
turns, with one thread, by the processor's time, each with an empty cache.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from sides import race, row, take_turns

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.records import LayerScores, Recipe
from frostline.records.budget import Budget
from frostline.search.planning import Inputs, measure_for_plans, states_of_any_plan
from frostline.states.frozen import StatesAt
from frostline.states.pooled import pooled_states
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample

ROWS, ROUNDS = 1000, 3
CLASSES = (2, 77, 150)


def with_classes(task: Task, encoder: Encoder, classes: int) -> Task:
    """The training texts with made-up classes."""
    states = pooled_states(encoder, encoder.tokenize(task.train.texts))["mean"][-1]
    centres = states[torch.randperm(len(states), generator=torch.Generator().manual_seed(classes))[:classes]]
    _, labels = torch.unique(torch.cdist(states, centres).argmin(1), return_inverse=True)
    train = replace(task.train, labels=tuple(labels.tolist()))
    names = tuple(str(label) for label in range(int(labels.max()) + 1))
    return replace(task, label_names=names, train=train, validation=None, test=None)


def with_empty_cache(work: Callable[[], object]) -> dict[str, bytes]:
    """Do the work with an empty cache; the bytes that it leaves there, by entry."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FROSTLINE_CACHE"] = folder
        work()
        return {path.parent.name: path.read_bytes() for path in Path(folder).rglob("states.bin")}


def two_passes(inputs: Inputs, keep: list[StatesAt], *, score: bool) -> LayerScores | None:
    """Scores, or pooled states alone, from a pass of their own; then frozen states."""
    if score:
        scores = measure_for_plans(inputs)
    else:
        scores = None
        pooled_states(inputs.encoder, inputs.encoder.tokenize(inputs.task.train.texts), poolings=["mean", "first"])
    inputs.shared().freeze(keep, ["train"])
    return scores


def one_pass(inputs: Inputs, keep: list[StatesAt], *, score: bool) -> LayerScores | None:
    """Scores, or pooled states alone, and frozen states."""
    if score:
        return measure_for_plans(inputs, shared=inputs.shared(), keep=keep)
    inputs.shared().pass_over("train", keep=keep)
    return None


def check_same(inputs: Inputs, keep: list[StatesAt]) -> None:
    """Refuse to time what does not give the same scores and the same bytes."""
    measured: list[dict[str, tuple[float | None, ...]]] = []

    def scores_of(way: Callable[..., LayerScores | None]) -> None:
        scores = way(inputs, keep, score=True)
        assert scores is not None
        measured.append({name: score.values for name, score in scores.scores.items()})

    files = [with_empty_cache(partial(scores_of, way)) for way in (two_passes, one_pass)]
    assert measured[0] == measured[1], "the scores differ"
    assert files[0] == files[1] and len(files[0]) == len(keep), "the frozen states differ"


def compare_passes(inputs: Inputs) -> dict[str, float]:
    """How many times faster one pass is, with scores and without."""
    keep = states_of_any_plan(inputs.costs(inputs.shared()), inputs.encoder.depth)
    check_same(inputs, keep)
    ratios = {}
    for key, name, score in (
        ("passes", "tokens, pooled and frozen states", False),
        ("measuring_and_freezing", "the same with all scores", True),
    ):
        ways = [partial(way, inputs, keep, score=score) for way in (one_pass, two_passes)]
        result = race(*[partial(with_empty_cache, way) for way in ways], rounds=ROUNDS, clock=time.process_time)
        row(name, *result)
        ratios[f"{key}_one_vs_two"] = result[2]
    return ratios


def compare_classes(by_classes: dict[int, Inputs]) -> dict[str, float]:
    """How many times the seconds of two classes more classes take."""
    arms = {str(classes): partial(measure_for_plans, inputs) for classes, inputs in by_classes.items()}
    seconds = take_turns(arms, rounds=ROUNDS, clock=time.process_time)
    two, ratios = seconds["2"], {}
    for name, times in seconds.items():
        ratio = statistics.median(some / fewest for some, fewest in zip(times, two, strict=True))
        print(f"{f'measuring {name} classes':58s} {statistics.median(times):9.3f} s {ratio:21.2f} x", flush=True)
        if times is not two:
            ratios[f"classes_{name}_vs_2"] = ratio
    return ratios


def main() -> None:
    """Run both comparisons."""
    torch.set_num_threads(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    encoder, movies = load_encoder(), load_task("movies")
    task = replace(movies, train=sample(movies.train, rows))
    by_classes = {
        classes: Inputs(
            encoder=encoder,
            task=with_classes(task, encoder, classes),
            recipe=Recipe(threads=1),
            budget=Budget(),
        )
        for classes in CLASSES
    }
    print(f"{len(task.train):,} rows, 1 thread\n{'':58s} {'one pass':>11s} {'two passes':>11s} {'ratio':>9s}")
    ratios = compare_passes(by_classes[2]) | compare_classes(by_classes)
    print(json.dumps({name: round(ratio, 3) for name, ratio in ratios.items()}))


if __name__ == "__main__":
    main()
