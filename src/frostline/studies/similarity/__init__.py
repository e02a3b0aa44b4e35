"""Similarity of layers before and after tuning, as in Phang et al. 2021."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf

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
from frostline.studies._comparisons import add_holm
from frostline.studies._options import check_at_least
from frostline.studies._phang import PHANG_RECIPE, PHANG_SELECTION, PHANG_TASKS
from frostline.studies._results import judged_result
from frostline.studies._tables import group_done, is_informative, judged_split, quality_in_points, summary_columns
from frostline.studies._unstated import PHANG_UNSTATED
from frostline.studies.similarity.figures import figures
from frostline.studies.similarity.reproduces import COUNTERPARTS
from frostline.tasks import Split, Task, sample
from frostline.tasks.metrics import METRICS
from frostline.training.dataset import tokenize_split
from frostline.training.model import as_tuned
from frostline.trials.context import Context, TrialKind
from frostline.trials.run_trial import tune_for

_FEWEST = 4  # texts; the unbiased form of CKA is undefined for fewer
_RESTART = 1_000  # added to a seed for the second of two restarts; no study has that many seeds

_QUALITY, _MOVED = "quality of the tuned model", "block contrast, tuned minus pretrained"
_CKAS = ("tuned top layer, most similar pretrained layer", "top layers of two restarts")

Matrix = list[list[float | None]]  # rows and columns are layers 1..L; None where undefined


def _similarity(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune twice, then compare all layers of both models and of the pretrained encoder."""
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
    return judged_result(tuned, {name: _to_lists(cka_matrix(states, others, unbiased=unbiased))
                                 for name, (states, others) in pairs.items()})  # fmt: skip


def _across(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune two encoders, then compare the layers of one with those of the other."""
    other = context.encoder(spec.options["other"])
    other_spec = replace(
        spec,
        encoder=other.ref,
        plan=Plan.full(other.depth),
        recipe=replace(spec.recipe, learning_rate=spec.options["other_rate"]),
    )
    tuned = tune_for(context, spec)
    own = _states(as_tuned(tuned.tunable), spec, tuned.task)
    others = _states(as_tuned(tune_for(context, other_spec, test=False).tunable), spec, tuned.task)
    originals = [_states(encoder, spec, tuned.task) for encoder in (context.encoder(spec.encoder.revision), other)]
    unbiased = not spec.options["biased"]
    matrix = cka_matrix(own, others, unbiased=unbiased)
    order = order_of_matches(matrix)
    chance = orders_by_chance(own, others, draws=spec.options["permutations"], unbiased=unbiased, seed=spec.recipe.seed)
    values = {
        "FT-FT": _to_lists(matrix),
        "ORIG-ORIG": _to_lists(cka_matrix(*originals, unbiased=unbiased)),
        "order": order,
        "p": (1 + sum(drawn >= order for drawn in chance)) / (1 + len(chance)),
    }
    return judged_result(tuned, values)


def _states(encoder: Encoder, spec: TrialSpec, task: Task) -> Tensor:
    """Return (layers 1..L, texts, width): first tokens of held-out rows. State 0 is the same for all of them."""
    tokens, _ = tokenize_split(encoder, held_out(task, spec.options["texts"]), max_length=spec.recipe.max_length)
    return pooled_states(encoder, tokens, poolings=("first",))["first"][1:]


def held_out(task: Task, count: int) -> Split:
    """Return reported rows with at most this number of texts, the same for every seed and encoder.

    Each choice of a question is a text of its own; memory grows with the square of the number of texts.
    """
    rows = judged_split(task)[1]
    choices = 1 if rows.choices is None else max(map(len, rows.choices))
    return sample(rows, max(1, count // choices))


def _to_lists(matrix: Tensor) -> Matrix:
    return [[None if value != value else value for value in row] for row in matrix.tolist()]


def order_of_matches(matrix: Tensor) -> float:
    """Return Spearman's correlation of layers with their most similar layers; 0 if all have the same match."""
    matches = matrix[~matrix.isnan().any(1)].argmax(1).double().tolist()
    order, _ = correlate(list(range(len(matches))), matches, ranks=True)
    return 0.0 if np.isnan(order) else order


def orders_by_chance(one: Tensor, two: Tensor, *, draws: int, unbiased: bool, seed: int) -> list[float]:
    """Return the order of matches when the texts of one side are shuffled, so that nothing corresponds.

    Centring commutes with shuffling: the Gram matrices are computed once, and each draw only permutes their rows.
    """
    grams, others = _centred_grams(one, unbiased=unbiased), _centred_grams(two, unbiased=unbiased)
    lengths = others.flatten(1).norm(dim=1)
    source = np.random.default_rng(seed)
    orders = []
    for _ in range(draws):
        shuffle = torch.as_tensor(source.permutation(grams.shape[1]))
        shuffled = grams[:, shuffle][:, :, shuffle].flatten(1)
        orders.append(order_of_matches(shuffled @ others.flatten(1).T / lengths))
    return orders


def _centred_grams(states: Tensor, *, unbiased: bool) -> Tensor:
    """Return Gram matrices (layers, texts, texts) whose inner products are HSIC up to a factor."""
    centred = states - states.mean(1, keepdim=True)
    grams = centred @ centred.transpose(1, 2)
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
    """Return the similarity within two blocks minus that between them at the best split, and the lower block's top.

    Each pair of different layers counts once; None if no split leaves pairs both within and between blocks.
    """
    depth = len(matrix)
    pairs = [(a, b, value) for a, b in combinations(range(depth), 2) if (value := matrix[a][b]) is not None]
    contrasts = []
    for top in range(1, depth):
        within = [value for a, b, value in pairs if (a < top) == (b < top)]
        between = [value for a, b, value in pairs if (a < top) != (b < top)]
        if within and between:
            contrasts.append((sum(within) / len(within) - sum(between) / len(between), top))
    return max(contrasts, key=lambda contrast: contrast[0], default=None)


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    measures: list[dict[str, Cell]] = []
    across: list[dict[str, Cell]] = []
    matrices: list[dict[str, Cell]] = []
    for (encoder, other, name), done in group_done(points, ("encoder", "other", "task")).items():
        if other:
            orders = summary_columns([point.result.values["order"] for point in done], name="order_of_matches",
                                     ends=(-1.0, 1.0))  # fmt: skip
            across.append({"encoder": encoder, "other": other, "task": name, "seeds": len(done), **orders,
                           "largest_p": max(point.result.values["p"] for point in done)})  # fmt: skip
        else:
            informative = is_informative(ask.task(name), done)
            measures += [{"encoder": encoder, "task": name, **record, "informative": informative}
                         for record in _measures(ask.task(name), done)]  # fmt: skip
        matrices += [{"encoder": encoder, "other": other or encoder, "task": name, **cell} for cell in _cells(done)]
    rows = {task.name: len(judged_split(task)[1]) for task in ask.tasks}
    notes = [
        f"{name}: {count} held-out rows; similarity needs 400 or more" for name, count in rows.items() if count < 400
    ]
    tables = [
        table_of("blocks", "Blocks of similar layers before and after tuning", add_holm(measures, ("encoder",)), notes=[
            *notes, "p: test of no difference, paired over seeds; p_holm: corrected for the tasks of an encoder",
        ]),
        table_of("across", "Correspondence of the layers of two tuned encoders, early with early",
                 add_holm(across, (), column="largest_p"), notes=[
            *notes, "largest_p: largest of the seeds' permutation tests; largest_p_holm: corrected for tasks and pairs",
        ]),
        table_of("matrices", "CKA of every layer with every other, mean over seeds", matrices, notes=notes),
    ]  # fmt: skip
    return [table for table in tables if table.rows]


def _measures(task: Task, done: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    """Yield the measures of the matrices over seeds."""
    measures: dict[str, list[float]] = {}
    for point in done:
        for name, value in _measure(point.result.values).items():
            if value is not None:
                measures.setdefault(name, []).append(value)
    measures[_QUALITY] = [quality_in_points(point, task) for point in done]
    ends = METRICS[task.metrics[0]].ends
    for name, values in measures.items():
        limits = ends if name == _QUALITY else (-1.0, 1.0) if name in _CKAS else (-inf, inf)
        row = {"measure": name, "seeds": len(values), **summary_columns(values, ends=limits)}
        if len(set(values)) == 1:  # the pretrained encoder on the same rows: seeds say nothing about other rows
            row |= {"low": None, "high": None}
        yield row | {"p": paired_p(values, [0.0] * len(values)) if name == _MOVED else None}


def _measure(matrices: Mapping[str, Matrix]) -> dict[str, float | None]:
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


def _cells(done: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    """Yield a row for each cell of every matrix; a cell that is undefined for some seed is undefined."""
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
    paper="Phang et al. 2021",
    reproduces=COUNTERPARTS,
    tables=_tables,
    figures=figures,
    tasks=PHANG_TASKS,
    seeds=3,
    recipe=PHANG_RECIPE,
    unstated=PHANG_UNSTATED,
    selection=PHANG_SELECTION,
    quick_recipe={"batch": 16, "epochs": 3},
    quick={"rate": 5e-5, "permutations": 99},
)
def similarity(
    ask: Ask, *, rate: float = 1e-5, biased: bool = False, texts: int = 1000, permutations: int = 199
) -> Iterator[Point]:
    """Which layers of a tuned model are similar, and do they still resemble the pretrained ones?

    Linear CKA between all layers 1..L is computed on first-token states of held-out rows: for the pretrained encoder
    (ORIG), for the fully tuned one (FT), and for two restarts, which differ in head, order of rows, dropout and, if
    training rows are limited, in the rows. With several encoders, the tuned layers of each pair are compared as well.

    Options: `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders get a
    proportionally higher rate; a rate in the recipe takes precedence); `biased`, use the paper's form of CKA, which
    drifts to 1 with few texts; `texts`, maximum number of held-out texts; `permutations`, number of shuffles for the
    test of whether the layers of two encoders match in order.
    """
    check_at_least(_FEWEST, "similarity", texts=texts)
    check_at_least(1, "similarity", permutations=permutations)
    options = {"biased": biased, "texts": texts}
    for encoder, task, seed in ask.cases():
        yield ask.point(encoder, task, Plan.full(encoder.depth), arm="two restarts", seed=seed, kind="similarity",
                        options=options, labels={"other": ""},
                        learning_rate=ask.rate_for(encoder, rate))  # fmt: skip
    # Sorted, so that the trials do not depend on the order of the encoders.
    for encoder, other in combinations(sorted(ask.encoders, key=lambda encoder: encoder.revision), 2):
        more = {"other": other.revision, "other_rate": ask.rate_for(other, rate), "permutations": permutations}
        for task in ask.tasks:
            for seed in range(ask.seeds):
                yield ask.point(encoder, task, Plan.full(encoder.depth), arm=f"with {other.name}", seed=seed,
                                kind="similarity-across", options=options | more, labels={"other": other.name},
                                learning_rate=ask.rate_for(encoder, rate))  # fmt: skip
