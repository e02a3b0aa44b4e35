"""Variability with unequal classes, with few rows and in its variants, as in Xie et al. 2022."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError
from frostline.files import provenance
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.to_records import as_numbers
from frostline.states.pooled import Pooling, pooled_states
from frostline.studies import Ask, Point, study
from frostline.studies._choices import PROBE_EPOCH
from frostline.studies._options import check_at_least, check_choice, check_pooling, read_numbers
from frostline.studies._xie import PROBE_RECIPE, choose_on, judged_rows, probe_rate
from frostline.studies.robustness.figures import IMBALANCE, SCARCITY, figures
from frostline.studies.robustness.reproduces import COUNTERPARTS
from frostline.studies.robustness.tables import SCORES, tables
from frostline.tasks import Split, Task
from frostline.tasks.splits import row_ranks
from frostline.trials.context import Context, TrialKind

_SHARES_OF_TWO = (0.5, 0.25, 0.1, 0.05)  # shares of the smaller of two classes
_SHARES_OF_MORE = (0.2, 0.6, 0.8)  # shares of the first of several classes, besides an equal one; the others are equal
_TWO_CLASSES = (40_000, 20_000, 5_000, 200)  # total rows with two classes
_OF_EACH_CLASS = (20_000, 10_000, 5_000, 1_250, 300)  # rows of each class with more classes
_LEAST = 2  # rows of a class: a single row has no spread
_IN_MEMORY = 1 << 30  # bytes of states; larger ones are kept on disk

Settings = dict[str, list[int]]  # rows of each class, by class number, for every setting by its name


# Drawing rows -------------------------------------------------------------------------------------------------------


def count_available(task: Task, rows: int | None) -> tuple[int, ...]:
    """Return the available rows of each class, reduced in proportion if there are more than `rows` in total."""
    sizes = Counter(task.train.labels)
    total = len(task.train)
    limit = total if rows is None else min(rows, total)
    return tuple(sizes[number] * limit // total for number in range(len(task.label_names)))


def imbalanced_settings(sizes: Sequence[int], most: int) -> Settings:
    """Return the paper's shares of classes at a number of rows that allows all of them, equal classes first."""
    classes = len(sizes)
    special = int(np.argmin(sizes)) if classes == 2 else 0
    chosen = _SHARES_OF_TWO if classes == 2 else tuple(dict.fromkeys((1 / classes, *_SHARES_OF_MORE)))
    each = [
        (share, [share if number == special else (1 - share) / (classes - 1) for number in range(classes)])
        for share in chosen
    ]
    rows = min(most, *(int(sizes[number] / shares[number]) for _, shares in each for number in range(classes)))
    rows -= rows % classes
    settings = {f"share {share:.3g}": _round(shares, rows, special) for share, shares in each}
    return {name: counts for name, counts in settings.items() if min(counts) >= _LEAST}


def _round(shares: Sequence[float], rows: int, special: int) -> list[int]:
    """Return whole numbers that add up to `rows`; the special class gets its share, the others are nearly equal."""
    own, others = round(shares[special] * rows), len(shares) - 1
    counts = [(rows - own + index) // others for index in range(others)]
    return [*counts[:special], own, *counts[special:]]


def scarce_settings(sizes: Sequence[int], wanted: Sequence[int]) -> Settings:
    """Return equal classes with these total numbers of rows, or as many as there are, the largest first."""
    classes, smallest = len(sizes), min(sizes)
    each = dict.fromkeys(min(rows // classes, smallest) for rows in sorted(wanted, reverse=True))
    return {f"{count * classes} rows": [count] * classes for count in each if count >= _LEAST}


def draw_rows(split: Split, counts: Sequence[int], *, seed: int) -> list[int]:
    """Return the indices of rows with these counts of classes, in source order; small draws are part of large ones."""
    ranks = row_ranks(split, f"draw {seed}", tell_copies_apart=True)
    shuffled = sorted(range(len(split)), key=ranks.__getitem__)
    by_class = ([row for row in shuffled if split.labels[row] == number] for number in range(len(counts)))
    return sorted(row for rows, count in zip(by_class, counts, strict=True) for row in rows[:count])


# The trial -----------------------------------------------------------------------------------------------------------


def _score(context: Context, spec: TrialSpec) -> TrialResult:
    """Return the curves of all variants in all settings, from one pass over the rows that any of them needs."""
    encoder, task = context.shared(spec).encoder, context.task(spec)
    train = task.train
    counts: Mapping[str, Sequence[int]] = spec.options["settings"]
    most = [max(column) for column in zip(*counts.values(), strict=True)]
    pool = draw_rows(train, most, seed=spec.recipe.seed)
    rows = train.take(pool)
    index_of = {row: index for index, row in enumerate(pool)}
    tokens = encoder.tokenize(rows.texts, rows.pairs, max_length=spec.recipe.max_length)
    poolings: Sequence[Pooling] = spec.options["states"]
    states = pooled_states(encoder, tokens, poolings=poolings, memory_limit=_IN_MEMORY)
    others = _other_rows(encoder, task, spec)
    curves: dict[str, dict[str, list[float | None]]] = {}
    probes: dict[str, list[float | None]] = {}
    for name, of_setting in counts.items():
        chosen = [index_of[row] for row in draw_rows(train, of_setting, seed=spec.recipe.seed)]
        curves[name] = {}
        for pooling in poolings:
            evidence = _evidence(rows.take(chosen), states[pooling][:, torch.tensor(chosen)], pooling, spec)
            for score in SCORES:
                estimate = LAYER_SCORES[score].estimate(evidence, uncertainty=False)
                curves[name][f"{score}, {pooling}"] = list(as_numbers(estimate.values))
            if pooling not in probes:  # the first setting is the reference: equal classes, the most rows
                probes[pooling] = _probe(replace(evidence, encoder=encoder), others, spec)
    return TrialResult(status="done", values={"curves": curves, "probes": probes}, versions=provenance.versions())


def _other_rows(encoder: Encoder, task: Task, spec: TrialSpec) -> dict[str, dict[Pooling, Evidence]]:
    """Return the encoder's view of the rows that choose the epoch of the paper's probe and judge it, by pooling."""
    if spec.options.get("probe", "linear") == "linear":
        return {}
    splits = judged_rows(task)
    poolings: Sequence[Pooling] = spec.options["states"]
    others: dict[str, dict[Pooling, Evidence]] = {}
    for part, name in (("held", splits["judged_on"]), ("check", splits["chosen_on"])):
        if name is not None:
            rows = task.splits[name]
            tokens = encoder.tokenize(rows.texts, rows.pairs, max_length=spec.recipe.max_length)
            states = pooled_states(encoder, tokens, poolings=poolings, memory_limit=_IN_MEMORY)
            others[part] = {pooling: _evidence(rows, states[pooling], pooling, spec) for pooling in poolings}
    return others


def _probe(evidence: Evidence, others: Mapping[str, Mapping[Pooling, Evidence]], spec: TrialSpec) -> list[float | None]:
    """Return the probe's quality by layer; undefined if there are too few rows.

    The head of Xie et al. 2022 is fitted on these rows and judged on the development set; the linear probe divides
    these rows.
    """
    name, options = "probe.linear", dict[str, Any]()
    if others:
        by_part = {part: of_part[evidence.pooling] for part, of_part in others.items()}
        evidence = replace(evidence, check=by_part.get("check"), held=by_part["held"])
        name = "probe.head"
        own = {"learning_rate": spec.options["probe_rate"], "choose_on": spec.options["choose_on"]}
        options = {**PROBE_RECIPE, **own}
    try:
        return list(as_numbers(LAYER_SCORES[name].estimate(evidence, uncertainty=False, **options).values))
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
    paper="Xie et al. 2022",
    reproduces=COUNTERPARTS,
    tables=tables,
    figures=figures,
    tasks=("glue/sst2", "glue/mnli"),
    seeds=5,
    selection="No encoder is trained; the best epoch of the probe is chosen on validation rows, a part of the training "
    "rows, under `protocol='held-out'`, and on the development set, as in the paper, under `protocol='paper'`.",
    before={"probe": "linear"},
    quick={"sizes": "300,100,50"},
    quick_seeds=2,
)
def robustness(
    ask: Ask, *, imbalance_rows: int = 0, sizes: str = "paper", states: str = "mean+first", probe: str = "head"
) -> Iterator[Point]:
    """Does variability stay the same with unequal classes and with few rows?

    Unequal classes: the smaller of two classes has a half, a quarter, a tenth and a twentieth of the rows; the first of
    three or more has its equal share, 20%, 60% and 80%, and the others are equal. Few rows: equal classes with fewer
    and fewer rows. Each seed draws its own rows for every setting. Each draw compares the mean of tokens with the first
    token, the paper's formula with that of neural collapse, and plain with cross-fitted estimates, by the smoothness of
    the curve (zeta), its distance from that of equal classes and the most rows, and its correlation with the paper's
    probe: the family's own head, fitted on the draw's rows with equal classes and judged on the development set. The
    encoder is not trained.

    Options: `imbalance_rows`, number of rows with unequal classes, at most as many as the rarest class allows (0 for
    the paper's 20,000 with two classes, and 10,000 for each of more); `sizes`, numbers of rows of the settings with few
    rows, joined by commas, or 'paper' (two classes: 40,000 to 200; more: 20,000 to 300 of each), at most all rows;
    `states`, how a text's tokens become one vector, joined by +: the 'mean' of all but the first, the 'first', the mean
    of 'all', or 'released', the mean of ids above 2 as in the released script; `probe`, 'head', or 'linear' for an
    exact linear probe inside the draw's own rows.
    """
    check_choice("robustness", "probe", probe, ("head", "linear"))
    chosen = [] if sizes == "paper" else read_numbers("robustness", "sizes", sizes, least=4, also="paper")
    poolings = [check_pooling("robustness", pooling) for pooling in states.split("+")]
    check_at_least(0, "robustness", imbalance_rows=imbalance_rows)
    for encoder, task in ask.pairs():
        if task.kind != "classification":
            raise MeasureError(
                f"{task.name}: study robustness needs classes, but its kind is {task.kind}; choose another task"
            )
        available, classes = count_available(task, ask.rows), len(task.label_names)
        paper = _TWO_CLASSES if classes == 2 else [size * classes for size in _OF_EACH_CLASS]
        arms = {
            IMBALANCE: imbalanced_settings(available, imbalance_rows or (20_000 if classes == 2 else 10_000 * classes)),
            SCARCITY: scarce_settings(available, chosen or paper),
        }
        if not all(arms.values()):
            raise MeasureError(
                f"{task.name}: a class has only {min(available)} rows, too few for smaller draws; choose a larger task"
            )
        # Older trials have the linear probe; newer options are part of a trial only if they differ from it.
        paper_probe = {"probe": probe, "probe_rate": probe_rate(task), "choose_on": choose_on(task)}
        newer = paper_probe if probe == "head" else {}
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
                    options={"settings": settings, "states": poolings, **newer},
                    chosen=[PROBE_EPOCH] if probe == "head" else [],
                )
