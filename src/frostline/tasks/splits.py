"""Splitting and sampling: stratified, grouped, seeded, and the same on every machine.

Rows are picked in the order of a hash of the seed and the row's content, which depends neither on a library's random
generator nor on the order of the file. Rows with the same text (and second text, and choices) and rows of the same
group form one unit, and a unit is never divided: no test row that Frostline carves has a duplicate in train.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import itemgetter

from frostline.errors import OptionError
from frostline.records.table import group_by
from frostline.tasks.task import Split

BINS = 10

Content = tuple[str, str | None, tuple[str, ...] | None]


def divide(split: Split, size: int, *, seed: int, purpose: str) -> tuple[Split, Split]:
    """Return (the rest, about `size` rows of the split), both in the order of the source.

    Every class keeps its share to within a row, or as closely as undivided units allow, and at least one row in the
    rest. For regression, every tenth of the labels (by rank) keeps its share.
    """
    picked = _picked_rows(split, size, salt=f"{purpose} {seed}")
    return split.take(i for i in range(len(split)) if i not in picked), split.take(sorted(picked))


def folds(split: Split, count: int, *, seed: int, purpose: str) -> list[list[int]]:
    """Return the positions of the rows of each of several folds of about equal size, ascending.

    Rows are divided as by `divide`: classes in proportion, copies and groups together. A fold may be empty where units
    are large.
    """
    left, parts = list(range(len(split))), []
    for missing in range(count, 1, -1):
        picked = _picked_rows(split.take(left), len(left) // missing, salt=f"{purpose} {seed}")
        parts.append([row for place, row in enumerate(left) if place in picked])
        left = [row for place, row in enumerate(left) if place not in picked]
    return [*parts, left]


def _picked_rows(split: Split, size: int, *, salt: str) -> set[int]:
    """Return the positions of about `size` rows of the split, classes in proportion, units undivided."""
    strata = strata_of(split)
    units = _units(split)
    ranks = row_ranks(split, salt)
    ordered = sorted(units, key=lambda unit: min(ranks[i] for i in unit))
    sizes = Counter(strata)
    # In proportion, at least one row of each stratum with two or more, never all.
    quotas = {s: min(max(quota, 1), sizes[s] - 1) for s, quota in _proportional(sizes, size).items()}
    return _fill(ordered, strata, quotas)


def sample(split: Split, n: int, *, balanced: bool = False, seed: int = 0) -> Split:
    """Return about n rows of the split in source order, with classes in proportion or of equal size.

    A multiple-choice split is sampled by question: sample first, then expand with `as_rows`. Balanced samples have n //
    classes rows of each class, or the size of the smallest class if that is less.
    """
    rows = sampled_rows(split, n, balanced=balanced, seed=seed)
    return split if len(rows) == len(split) else split.take(rows)


def sampled_rows(split: Split, n: int, *, balanced: bool = False, seed: int = 0) -> list[int]:
    """Return the positions of the rows of a `sample`, ascending."""
    if n < 1:
        raise OptionError(f"a sample needs at least one row, but got {n}")
    strata = strata_of(split)
    sizes = Counter(strata)
    if balanced:
        if any(isinstance(label, float) for label in split.labels):
            raise OptionError("a balanced sample needs classes; this task has numbers to predict")
        quota = min(n // len(sizes), *sizes.values())
        if not quota:
            raise OptionError(f"a balanced sample of {n} rows is too small for {len(sizes)} classes")
        quotas = dict.fromkeys(sizes, quota)
    elif n >= len(split):
        return list(range(len(split)))
    else:
        quotas = _proportional(sizes, n)
    members = group_by(range(len(split)), strata.__getitem__)
    ranks = row_ranks(split, f"sample {seed}", tell_copies_apart=True)
    picked = [i for s, quota in quotas.items() for i in sorted(members[s], key=ranks.__getitem__)[:quota]]
    return sorted(picked)


def strata_of(split: Split) -> list[int]:
    """Return the stratum of every row: its class, or its tenth of the sorted values for regression."""
    if not any(isinstance(label, float) for label in split.labels):
        return [int(label) for label in split.labels]
    ordered = sorted(split.labels)
    edges = sorted({ordered[len(ordered) * b // BINS] for b in range(1, BINS)})
    return [bisect_right(edges, label) for label in split.labels]


def row_contents(split: Split) -> list[Content]:
    """Return the text, second text and choices of every row: rows in which these are equal are duplicates."""
    return list(zip(split.texts, split.pairs or repeat(None), split.choices or repeat(None), strict=False))


def count_twins(split: Split, other: Split) -> int:
    """Return the number of rows of `split` that also occur, word for word, in `other`."""
    others = set(row_contents(other))
    return sum(content in others for content in row_contents(split))


def count_duplicates(split: Split) -> tuple[int, int]:
    """Return (rows that repeat an earlier one, texts whose copies have different labels)."""
    labelled = group_by(zip(row_contents(split), split.labels, strict=True), key=itemgetter(0))
    conflicts = sum(len(set(copies)) > 1 for copies in labelled.values())
    return len(split) - len(labelled), conflicts


def _units(split: Split) -> list[list[int]]:
    """Return lists of positions that must stay together: connected by the same content or the same group."""
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    firsts: list[int] = []  # of every row, the first row with its content; then the first row with its group
    for keys in filter(None, (row_contents(split), split.groups)):
        first: dict[object, int] = {}
        firsts += [first.setdefault(key, row) for row, key in enumerate(keys)]
    edges = np.arange(len(firsts)) % len(split), np.array(firsts)
    graph = coo_array((np.ones(len(firsts)), edges), shape=(len(split), len(split)))
    _, units = connected_components(graph, directed=False)
    return list(group_by(range(len(split)), units.tolist().__getitem__).values())


def row_ranks(split: Split, salt: str, *, tell_copies_apart: bool = False) -> list[bytes]:
    """Return a hash of salt and content per row; sorting by it shuffles the rows."""
    seen: Counter[str] = Counter()
    ranks = []
    salted = hashlib.blake2b(salt.encode(), digest_size=16)
    for text, pair, choices in row_contents(split):
        line = "\0".join([text, *([] if pair is None else [pair]), *(choices or ())])
        if tell_copies_apart:
            seen[line] += 1
            line = f"{line} {seen[line]}"
        rank = salted.copy()
        rank.update(line.encode("utf-8", "backslashreplace"))
        ranks.append(rank.digest())
    return ranks


def _proportional(sizes: Counter[int], total: int) -> dict[int, int]:
    """Return whole numbers that add up to `total`, in proportion to the sizes (largest remainders first)."""
    rows = sum(sizes.values())
    quotas = {s: total * size // rows for s, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda s: (-(total * sizes[s] % rows), s))
    for s in by_remainder[: total - sum(quotas.values())]:
        quotas[s] += 1
    return quotas


def _fill(units: list[list[int]], strata: Sequence[int], quotas: dict[int, int]) -> set[int]:
    """Return the rows of units picked in order while every stratum has room, then of those that fill the gaps best."""
    lacking = dict(quotas)
    in_rest = Counter(strata)
    picked: set[int] = set()
    passed: list[tuple[list[int], Counter[int]]] = []

    def pick(unit: list[int], need: Mapping[int, int]) -> None:
        picked.update(unit)
        for s, n in need.items():
            lacking[s] -= n
            in_rest[s] -= n

    for unit in units:
        if len(unit) == 1:
            if lacking[strata[unit[0]]] > 0:
                pick(unit, {strata[unit[0]]: 1})
            continue
        need = Counter([strata[i] for i in unit])
        if all(lacking[s] >= n for s, n in need.items()):
            pick(unit, need)
        else:
            passed.append((unit, need))
    while passed and any(n > 0 for n in lacking.values()):
        gains = [sum(abs(lacking[s]) - abs(lacking[s] - n) for s, n in need.items()) for _, need in passed]
        best = max(range(len(passed)), key=gains.__getitem__)
        unit, need = passed.pop(best)
        if gains[best] <= 0:
            break
        if all(in_rest[s] > n for s, n in need.items()):
            pick(unit, need)
    if not picked:  # every unit is larger than the requested size: one of the smallest, rather than nothing
        spare = [unit for unit in units if all(in_rest[s] > n for s, n in Counter([strata[i] for i in unit]).items())]
        picked.update(sorted(spare, key=len)[0] if spare else [])
    return picked
