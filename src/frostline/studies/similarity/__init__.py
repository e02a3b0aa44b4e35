"""How alike layers are before and after tuning, paper 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.records.table import Cell, Table, table_of
from frostline.states.cka import cka_matrix
from frostline.states.pooled import pooled_states
from frostline.stats.intervals import correlate, paired_p
from frostline.studies import Ask, Measured, Point, study
from frostline.studies._comparisons import correct_known
from frostline.studies._limits import at_least
from frostline.studies._phang import PHANG_RECIPE, PHANG_TASKS
from frostline.studies._tables import group_points, is_informative, judged_split, quality_in_points, summary_columns
from frostline.studies.similarity.figures import figures
from frostline.tasks import Split, Task, sample
from frostline.tasks.metrics import METRICS
from frostline.training.dataset import tokenize_split
from frostline.training.model import as_tuned
from frostline.training.result import Tuned
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import result_of
from frostline.trials.run_trial import tune_for

_FEWEST = 4  # texts that the unbiased form of CKA is defined for
_RESTART = 1_000  # added to a seed for the second of two restarts: no study has so many seeds

_QUALITY, _MOVED = "quality of the tuned model", "block contrast, tuned minus pretrained"
_CKAS = ("tuned top layer, most similar pretrained layer", "top layers of two restarts")

Matrix = list[list[float | None]]  # rows and columns are layers 1..L; None where it is undefined


def _similarity(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune twice, then compare all layers of both and of the pretrained encoder."""
    tuned = tune_for(context, spec)
    again = replace(spec, recipe=replace(spec.recipe, seed=spec.recipe.seed + _RESTART))
    original = _states(context.encoder(spec.encoder.revision), spec, tuned.task)
    first = _states(as_tuned(tuned.tunable), spec, tuned.task)
    second = _states(as_tuned(tune_for(context, again, test=False).tunable), spec, tuned.task)
    pairs = {
        "ORIG-ORIG": (original, None),
        "FT-ORIG": (first, original),
        "FT-FT": (first, None),
        "FT[1]-FT[2]": (first, second),
    }
    unbiased = not spec.options["biased"]
    found = {name: _plain(cka_matrix(one, other, unbiased=unbiased)) for name, (one, other) in pairs.items()}
    return _recorded(tuned, found)


def _across(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune two encoders, then compare the layers of one with those of the other."""
    other = context.encoder(spec.options["other"])
    theirs = replace(
        spec,
        encoder=other.ref,
        plan=Plan.full(other.depth),
        recipe=replace(spec.recipe, learning_rate=spec.options["other_rate"]),
    )
    tuned = tune_for(context, spec)
    one = _states(as_tuned(tuned.tunable), spec, tuned.task)
    two = _states(as_tuned(tune_for(context, theirs, test=False).tunable), spec, tuned.task)
    originals = [_states(encoder, spec, tuned.task) for encoder in (context.encoder(spec.encoder.revision), other)]
    unbiased = not spec.options["biased"]
    matrix = cka_matrix(one, two, unbiased=unbiased)
    order = order_of_matches(matrix)
    chance = orders_by_chance(one, two, draws=spec.options["permutations"], unbiased=unbiased, seed=spec.recipe.seed)
    found = {
        "FT-FT": _plain(matrix),
        "ORIG-ORIG": _plain(cka_matrix(*originals, unbiased=unbiased)),
        "order": order,
        "p": (1 + sum(drawn >= order for drawn in chance)) / (1 + len(chance)),
    }
    return _recorded(tuned, found)


def _recorded(tuned: Tuned, values: Mapping[str, Any]) -> TrialResult:
    split, _ = judged_split(tuned.task)
    found = result_of(tuned)
    return replace(found, predictions={split: found.predictions[split]}, values=values)


def _states(encoder: Encoder, spec: TrialSpec, task: Task) -> Tensor:
    """(layers 1..L, texts, width): first tokens of held-out rows. State 0 is the same for all of them."""
    tokens, _ = tokenize_split(encoder, held_out(task, spec.options["texts"]), max_length=spec.recipe.max_length)
    return pooled_states(encoder, tokens, poolings=("first",))["first"][1:]


def held_out(task: Task, count: int) -> Split:
    """Rows of so many texts of those that are reported on, the same for every seed and encoder.

    A question with its choices is as many texts as it has choices; the matrices of all texts by all texts grow with the
    square of their number.
    """
    rows = judged_split(task)[1]
    choices = 1 if rows.choices is None else max(map(len, rows.choices))
    return sample(rows, max(1, count // choices))


def _plain(matrix: Tensor) -> Matrix:
    return [[None if value != value else value for value in row] for row in matrix.tolist()]


def order_of_matches(matrix: Tensor) -> float:
    """Spearman's correlation of each layer with the one that is most like it; 0 where all have the same match."""
    defined = matrix[~matrix.isnan().any(1)]
    places = [float(place) for place in defined.argmax(1).tolist()]
    found, _ = correlate(list(range(len(places))), places, ranks=True)
    return 0.0 if np.isnan(found) else found


def orders_by_chance(one: Tensor, two: Tensor, *, draws: int, unbiased: bool, seed: int) -> list[float]:
    """The order of matches when the texts of one side are shuffled, so that nothing corresponds.

    Centring commutes with shuffling: the texts-by-texts matrices are made once, and each draw only moves their rows.
    """
    grams, others = _centred_grams(one, unbiased=unbiased), _centred_grams(two, unbiased=unbiased)
    lengths = others.flatten(1).norm(dim=1)
    source = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        order = torch.as_tensor(source.permutation(grams.shape[1]))
        moved = grams[:, order][:, :, order].flatten(1)
        found.append(order_of_matches(moved @ others.flatten(1).T / lengths))
    return found


def _centred_grams(states: Tensor, *, unbiased: bool) -> Tensor:
    """(layers, texts, texts): products of states whose inner products are HSIC up to a factor."""
    near = states - states.mean(1, keepdim=True)
    grams = near @ near.transpose(1, 2)
    if not unbiased:
        return grams
    count = grams.shape[1]
    grams.diagonal(dim1=1, dim2=2).zero_()
    sums = grams.sum(2) / (count - 2)
    total = sums.sum(1)[:, None, None] / (count - 1)
    grams = grams - sums[:, :, None] - sums[:, None, :] + total
    grams.diagonal(dim1=1, dim2=2).zero_()
    return grams


def block_contrast(matrix: Sequence[Sequence[float | None]]) -> tuple[float, int] | None:
    """How much more alike layers are within two blocks than between them, at the best split, and the lower block's top.

    Pairs of different layers count, once each; None where no split leaves a pair on both sides.
    """
    depth = len(matrix)
    pairs = [(a, b, value) for a, b in combinations(range(depth), 2) if (value := matrix[a][b]) is not None]
    found = []
    for top in range(1, depth):
        within = [value for a, b, value in pairs if (a < top) == (b < top)]
        between = [value for a, b, value in pairs if (a < top) != (b < top)]
        if within and between:
            found.append((sum(within) / len(within) - sum(between) / len(between), top))
    return max(found, key=lambda one: one[0]) if found else None


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    tasks = {task.name: task for task in ask.tasks}
    measures: list[dict[str, Cell]] = []
    across: list[dict[str, Cell]] = []
    matrices: list[dict[str, Cell]] = []
    for (encoder, other, name), group in group_points(points, ("encoder", "other", "task")).items():
        done = [point for point in group if point.is_done]
        if not done:
            continue
        said: dict[str, Cell] = {"encoder": encoder, "task": name}
        if other:
            said = {"encoder": encoder, "other": other, "task": name}
            across.append(said | _across_record(done))
        else:
            informative = is_informative(tasks[name], done)
            measures += [said | record | {"informative": informative} for record in _measures(tasks[name], done)]
        matrices += [{"encoder": encoder, "other": other or encoder, "task": name, **one} for one in _cells(done)]
    correct_known(measures, ("encoder",))
    correct_known(across, (), column="largest_p")
    rows = {task.name: len(judged_split(task)[1]) for task in ask.tasks}
    notes = [
        f"{name}: {count} held-out rows; similarity wants 400 or more" for name, count in rows.items() if count < 400
    ]
    made = [
        table_of(
            "blocks",
            "Blocks of similar layers before and after tuning",
            measures,
            notes=[
                *notes,
                "p: of no difference, paired over seeds; p_holm: corrected for the tasks of an encoder",
            ],
        ),
        table_of(
            "across",
            "Whether layers of two tuned encoders correspond, early with early",
            across,
            notes=[
                *notes,
                "largest_p: of the seeds' permutation tests; largest_p_holm: corrected for tasks and pairs",
            ],
        ),
        table_of("matrices", "CKA of every layer with every other, mean over seeds", matrices, notes=notes),
    ]
    return [table for table in made if table.rows]  # fmt: skip


def _measures(task: Task, done: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    """What a matrix says in a number, over seeds."""
    found: dict[str, list[float]] = {}
    for point in done:
        for name, value in _numbers(point.result.values).items():
            if value is not None:
                found.setdefault(name, []).append(value)
    found[_QUALITY] = [quality_in_points(point, task) for point in done]
    ends = METRICS[task.metrics[0]].ends
    for name, values in found.items():
        limits = ends if name == _QUALITY else (-1.0, 1.0) if name in _CKAS else (-inf, inf)
        row = {"measure": name, "seeds": len(values), **summary_columns(values, ends=limits)}
        if len(set(values)) == 1:  # the pretrained encoder on the same rows: seeds say nothing of other rows
            row |= {"low": None, "high": None}
        yield row | {"p": paired_p(values, [0.0] * len(values)) if name == _MOVED else None}


def _numbers(matrices: Mapping[str, Matrix]) -> dict[str, float | None]:
    before, after = block_contrast(matrices["ORIG-ORIG"]), block_contrast(matrices["FT-FT"])
    top = [value for value in matrices["FT-ORIG"][-1] if value is not None]
    return {
        "block contrast, pretrained": before and before[0],
        "block contrast, tuned": after and after[0],
        _MOVED: after[0] - before[0] if before and after else None,
        "top of the lower block, pretrained": before and float(before[1]),
        "top of the lower block, tuned": after and float(after[1]),
        _CKAS[0]: max(top) if top else None,
        _CKAS[1]: matrices["FT[1]-FT[2]"][-1][-1],
    }


def _across_record(done: Sequence[Measured]) -> dict[str, Cell]:
    orders = [point.result.values["order"] for point in done]
    worst = max(point.result.values["p"] for point in done)
    return {
        "seeds": len(done),
        **summary_columns(orders, name="order_of_matches", ends=(-1.0, 1.0)),
        "largest_p": worst,
    }


def _cells(done: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    """Every matrix, a row for each of its cells; a cell that is undefined for some seed is undefined."""
    for name, matrix in done[0].result.values.items():
        if not isinstance(matrix, list):
            continue
        for row, column in np.ndindex(len(matrix), len(matrix[0])):
            values = [point.result.values[name][row][column] for point in done]
            mean = None if None in values else sum(values) / len(values)
            yield {"matrix": name, "row": row + 1, "column": column + 1, "seeds": len(done), "cka": mean}


@study(
    kinds=[
        TrialKind(name="similarity", run=_similarity, tunings=2),
        TrialKind(name="similarity-across", run=_across, tunings=2),
    ],
    paper="4",
    tables=_tables,
    figures=figures,
    tasks=PHANG_TASKS,
    seeds=3,
    recipe=PHANG_RECIPE,
    quick_recipe={"batch": 16, "epochs": 3},
    quick={"rate": 5e-5, "permutations": 99},
)
def similarity(
    ask: Ask, *, rate: float = 1e-5, biased: bool = False, texts: int = 1000, permutations: int = 199
) -> Iterator[Point]:
    """Which layers of a tuned model are alike, and do they still resemble the pretrained ones?

    Linear CKA between all layers 1..L, on first-token states of held-out rows: of the pretrained encoder (ORIG), of the
    fully tuned one (FT), and of two restarts, which differ in head, order, dropout and, where training rows are
    limited, in the rows. With several encoders, the tuned layers of each two are compared as well.

    Options: `rate`, the learning rate for encoders of width 768, the paper's unless set; narrower ones get a higher one
    in proportion, and a rate in the recipe goes before it; `biased`, the paper's form of CKA, which drifts to 1 when
    texts are few; `texts`, held-out rows at most; `permutations`, shuffles of the texts that say which order of
    matching layers two encoders have by chance.
    """
    at_least(_FEWEST, "similarity", texts=texts)
    at_least(1, "similarity", permutations=permutations)
    options = {"biased": biased, "texts": texts}
    for encoder, task in ask.pairs():
        for seed in range(ask.seeds):
            yield ask.point(encoder, task, Plan.full(encoder.depth), arm="two restarts", seed=seed, kind="similarity",
                            options=options, labels={"other": ""},
                            learning_rate=ask.rate_for(encoder, rate))  # fmt: skip
    # In an order of their own: the same trials whatever the order in which they are given.
    for one, other in combinations(sorted(ask.encoders, key=lambda encoder: encoder.revision), 2):
        more = {
            "other": other.revision,
            "other_rate": ask.rate_for(other, rate),
            "permutations": permutations,
        }
        for task in ask.tasks:
            for seed in range(ask.seeds):
                yield ask.point(one, task, Plan.full(one.depth), arm=f"with {other.name}", seed=seed,
                                kind="similarity-across", options=options | more, labels={"other": other.name},
                                learning_rate=ask.rate_for(one, rate))  # fmt: skip
