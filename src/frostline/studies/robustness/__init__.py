"""Variability with unequal classes, with few rows and in its variants, paper 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from frostline.errors import MeasureError, OptionError
from frostline.files import provenance
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.to_records import as_numbers
from frostline.states.pooled import POOLINGS, Pooling, pooled_states
from frostline.studies import Ask, Point, study
from frostline.studies._limits import at_least
from frostline.studies.robustness.figures import IMBALANCE as IMBALANCE
from frostline.studies.robustness.figures import SCARCITY as SCARCITY
from frostline.studies.robustness.figures import figures
from frostline.studies.robustness.tables import SCORES, tables
from frostline.tasks import Split, Task
from frostline.tasks.splits import row_ranks
from frostline.trials.context import Context, TrialKind

_SHARES_OF_TWO = (0.5, 0.25, 0.1, 0.05)  # of the smaller class
_SHARES_OF_MORE = (0.2, 0.6, 0.8)  # of the first class, besides an equal one; the others are equal to each other
_TWO_CLASSES = (40_000, 20_000, 5_000, 200)  # rows in all
_OF_EACH_CLASS = (20_000, 10_000, 5_000, 1_250, 300)  # where there are more
_LEAST = 2  # rows of a class: one has no spread of its own
_IN_MEMORY = 1 << 30  # bytes of states; beyond it they lie on disk


# What is drawn -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Setting:
    """So many rows of every class.

    Args:
        name: in tables.
        counts: rows of each class, by class number.
    """

    name: str
    counts: tuple[int, ...]


def count_available(task: Task, rows: int | None) -> tuple[int, ...]:
    """How many rows of each class there are to draw from: in proportion, where no more than `rows` are wanted."""
    sizes = Counter(task.train.labels)
    total = len(task.train)
    limit = total if rows is None else min(rows, total)
    return tuple(sizes[number] * limit // total for number in range(len(task.label_names)))


def imbalanced_settings(sizes: Sequence[int], most: int) -> list[Setting]:
    """The paper's shares of classes at a number of rows that all of them can have, the equal one first."""
    classes = len(sizes)
    special = int(np.argmin(sizes)) if classes == 2 else 0
    chosen = _SHARES_OF_TWO if classes == 2 else tuple(dict.fromkeys((1 / classes, *_SHARES_OF_MORE)))
    each = [
        (share, [share if number == special else (1 - share) / (classes - 1) for number in range(classes)])
        for share in chosen
    ]
    rows = min(most, *(int(sizes[number] / shares[number]) for _, shares in each for number in range(classes)))
    rows -= rows % classes
    made = [Setting(name=f"share {share:.3g}", counts=_whole(shares, rows, special)) for share, shares in each]
    return [setting for setting in made if min(setting.counts) >= _LEAST]


def _whole(shares: Sequence[float], rows: int, special: int) -> tuple[int, ...]:
    """Whole numbers of rows that add up to `rows`; the one class gets its share, the others are as equal as can be."""
    own = round(shares[special] * rows)
    others = len(shares) - 1
    given = iter([(rows - own + place) // others for place in range(others)])
    return tuple(own if number == special else next(given) for number in range(len(shares)))


def scarce_settings(sizes: Sequence[int], wanted: Sequence[int]) -> list[Setting]:
    """Equal classes in these numbers of rows as far as there are so many, the largest first."""
    classes, smallest = len(sizes), min(sizes)
    each = dict.fromkeys(min(rows // classes, smallest) for rows in sorted(wanted, reverse=True))
    return [Setting(name=f"{count * classes} rows", counts=(count,) * classes) for count in each if count >= _LEAST]


def draw_rows(split: Split, counts: Sequence[int], *, seed: int) -> list[int]:
    """Places of so many rows of each class in source order; more rows of a class hold those that fewer give."""
    ranks = row_ranks(split, f"draw {seed}", tell_copies_apart=True)
    shuffled = sorted(range(len(split)), key=ranks.__getitem__)
    by_class = ([row for row in shuffled if split.labels[row] == number] for number in range(len(counts)))
    return sorted(row for rows, count in zip(by_class, counts, strict=True) for row in rows[:count])


# The trial -----------------------------------------------------------------------------------------------------------


def _score(context: Context, spec: TrialSpec) -> TrialResult:
    """The curves of all variants in all settings, from one pass over the rows that any of them needs."""
    encoder, train = context.shared(spec).encoder, context.task(spec).train
    counts: Mapping[str, Sequence[int]] = spec.options["settings"]
    most = [max(column) for column in zip(*counts.values(), strict=True)]
    pool = draw_rows(train, most, seed=spec.recipe.seed)
    rows = train.take(pool)
    place = {row: number for number, row in enumerate(pool)}
    tokens = encoder.tokenize(rows.texts, rows.pairs, max_length=spec.recipe.max_length)
    poolings: Sequence[Pooling] = spec.options["states"]
    states = pooled_states(encoder, tokens, poolings=poolings, memory_limit=_IN_MEMORY)
    curves: dict[str, dict[str, list[float | None]]] = {}
    probes: dict[str, list[float | None]] = {}
    for name, of_setting in counts.items():
        chosen = [place[row] for row in draw_rows(train, of_setting, seed=spec.recipe.seed)]
        curves[name] = {}
        for pooling in poolings:
            evidence = _evidence(rows.take(chosen), states[pooling][:, torch.tensor(chosen)], pooling, spec)
            for score in SCORES:
                found = LAYER_SCORES[score].estimate(evidence, uncertainty=False)
                curves[name][f"{score}, {pooling}"] = list(as_numbers(found.values))
            if pooling not in probes:  # the first setting is the reference: equal classes, the most rows
                probes[pooling] = _probe(evidence)
    return TrialResult(status="done", values={"curves": curves, "probes": probes}, versions=provenance.versions())


def _probe(evidence: Evidence) -> list[float | None]:
    """The linear probe's quality by layer; nothing where there are too few rows to judge it on."""
    try:
        return list(as_numbers(LAYER_SCORES["probe.linear"].estimate(evidence, uncertainty=False).values))
    except MeasureError:
        return [None] * len(evidence.states[evidence.pooling])


def _evidence(rows: Split, states: Tensor, pooling: Pooling, spec: TrialSpec) -> Evidence:
    group = {name: number for number, name in enumerate(dict.fromkeys(rows.groups or ()))}
    groups = range(len(rows)) if rows.groups is None else [group[name] for name in rows.groups]
    return Evidence(
        states={pooling: states},
        labels=torch.tensor(rows.labels),
        groups=torch.tensor(groups),
        kind="classification",
        metric=spec.task.metrics[0],
        pooling=pooling,
        seed=spec.recipe.seed,
    )


# The study -----------------------------------------------------------------------------------------------------------


@study(
    kinds=[TrialKind(name="robustness", run=_score)],
    paper="1",
    tables=tables,
    figures=figures,
    tasks=("glue/sst2", "glue/mnli"),
    seeds=5,
    quick={"sizes": "300,100,50"},
    quick_seeds=2,
)
def robustness(
    ask: Ask, *, imbalance_rows: int = 0, sizes: str = "paper", states: str = "mean+first"
) -> Iterator[Point]:
    """Does variability stay the same with unequal classes and with few rows?

    Unequal classes: of two, the smaller one has a half, a quarter, a tenth and a twentieth of the rows; of three or
    more, the first one has its equal share, 20%, 60% and 80%, and the others are equal. Few rows: equal classes in ever
    smaller numbers. Every setting is drawn anew with each seed, and everything is computed in each draw: the means of
    tokens against the first token, the paper's formula against that of neural collapse, and plain against cross-fitted;
    how smooth the curve is (zeta), how near that of equal classes and the most rows, and how well it predicts a linear
    probe. The encoder is not trained.

    Options: `imbalance_rows`, how many there are when classes are unequal (0 for the paper's 20,000 with two classes
    and 10,000 for each with more), or as many as the rarest class allows; `sizes`, the numbers of rows when they are
    few, with commas between, or 'paper' (two classes: 40,000 to 200; more: 20,000 to 300 of each); what the data do not
    have is cut; `states`, how a text's tokens become one vector, joined by +: the 'mean' of all but the first, the
    'first', the mean of 'all', or 'released', the mean of ids above 2 as in the paper's script.
    """
    wanted, poolings = _read_sizes(sizes), states.split("+")
    for pooling in poolings:
        if pooling not in POOLINGS:
            raise OptionError(f"study robustness: option states {pooling!r} must be one of {', '.join(POOLINGS)}")
    at_least(0, "robustness", imbalance_rows=imbalance_rows)
    for encoder, task in ask.pairs():
        if task.kind != "classification":
            raise MeasureError(f"{task.name}: study robustness needs classes, and this is {task.kind}")
        have, classes = count_available(task, ask.rows), len(task.label_names)
        paper = _TWO_CLASSES if classes == 2 else [size * classes for size in _OF_EACH_CLASS]
        arms = {
            IMBALANCE: imbalanced_settings(have, imbalance_rows or (20_000 if classes == 2 else 10_000 * classes)),
            SCARCITY: scarce_settings(have, wanted or paper),
        }
        if not all(arms.values()):
            raise MeasureError(f"{task.name}: a class has only {min(have)} rows, too few to be divided any further")
        for seed in range(ask.seeds):
            for arm, settings in arms.items():
                yield ask.point(
                    encoder,
                    task,
                    Plan(layers=(), head=encoder.depth),
                    arm=arm,
                    seed=seed,
                    kind="robustness",
                    epochs=1,
                    options={
                        "settings": {setting.name: list(setting.counts) for setting in settings},
                        "states": poolings,
                    },
                )


def _read_sizes(given: str) -> list[int]:
    """The numbers, or none for the paper's."""
    if given == "paper":
        return []
    try:
        found = [int(word) for word in given.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 4:
        raise OptionError(f"study robustness: option sizes {given!r} must be 'paper' or numbers from 4 with commas")
    return found
