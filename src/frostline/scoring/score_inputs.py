"""The inputs of layer scores: states of sampled training texts, their labels, and the encoder."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.files.disk_arrays import nameless_array
from frostline.states.cka import own_hsic_leaving_out
from frostline.states.pooled import Pooling
from frostline.tasks import Split
from frostline.tasks.task import Kind

T = TypeVar("T")

_JACKKNIFE_BLOCKS = 20
_IN_MEMORY = 4 << 30  # bytes of copied states


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One encoder's view of sampled training rows of one task.

    Args:
        states: (layers 0..L, rows, width) for each requested pooling.
        labels: (rows,), class numbers or values to predict.
        groups: (rows,), integers; rows of one group stay together when rows are resampled or divided.
        kind: kind of task; for multiple choice, rows are labelled right or wrong, and a group is a question.
        metric: name of the task metric of predictions.
        pooling: pooling that scores use unless they are defined on another.
        seed: seed of everything that a score draws at random.
        encoder: the encoder, for scores that need more than states.
        tokens: the tokens of the rows, for the same.
        split: the rows themselves, for the same.
        check: the same encoder's view of other rows, on which probes choose their best epoch; None for some of these.
        held: the same encoder's view of other rows, on which probes are judged; None for some of these.
    """

    states: Mapping[Pooling, Tensor]
    labels: Tensor
    groups: Tensor
    kind: Kind
    metric: str
    pooling: Pooling
    seed: int
    encoder: Encoder | None = None
    tokens: Tokens | None = None
    split: Split | None = None
    check: Evidence | None = None
    held: Evidence | None = None
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes, and not values to predict."""
        return self.kind != "regression"

    def take(self, rows: Tensor) -> Evidence:
        """Return the evidence of some of the rows."""
        numbers = rows.tolist()
        return replace(
            self,
            states={pooling: _rows_of(states, rows) for pooling, states in self.states.items()},
            labels=self.labels[rows],
            groups=self.groups[rows],
            tokens=None if self.tokens is None else self.tokens.take(numbers),
            split=None if self.split is None else self.split.take(numbers),
        )

    def with_each(self, change: Callable[[Evidence], Evidence]) -> Evidence:
        """Return the evidence with a change of these rows and, once each, of the rows for checking and judging."""
        if self.check is None and self.held is None:
            return change(self)
        others = {id(other): other for other in (self.check, self.held) if other is not None}
        changed = {key: change(other) for key, other in others.items()}
        own = change(replace(self, check=None, held=None))
        return replace(own, check=changed.get(id(self.check)), held=changed.get(id(self.held)))

    def balanced(self) -> Evidence:
        """Return equally many rows of every class, drawn at random; all rows unless the task is classification."""
        if self.kind != "classification":
            return self
        _, label, counts = torch.unique(self.labels, return_inverse=True, return_counts=True)
        order = torch.randperm(len(label), generator=torch.Generator().manual_seed(self.seed))
        by_class = order[label[order].argsort(stable=True)]
        rank = torch.cat([torch.arange(int(count)) for count in counts])
        return self.take(by_class[rank < counts.min()].sort().values)

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of `compute`, computed once per key for all scores of the same evidence."""
        if key not in self._cache:
            self._cache[key] = compute()
        return cast(T, self._cache[key])

    def own_hsic(self, blocks: Tensor | None) -> Tensor:
        """Return (1 + blocks, layers): each layer's similarity with itself, which several scores divide by.

        Args:
            blocks: result of `blocks`, or None to leave out nothing.
        """
        count = 0 if blocks is None else int(blocks.max()) + 1
        return self.remember(("hsic", count), lambda: own_hsic_leaving_out(self.states[self.pooling], blocks))

    def in_order(self) -> Evidence:
        """Return the evidence with rows sorted by group, so that scores do not depend on their order."""
        if bool((self.groups.diff() >= 0).all()):
            return self
        return self.take(self.groups.argsort(stable=True))

    def jackknife_blocks(self, *, uncertainty: bool) -> Tensor | None:
        """Return (rows,): the blocks that a jackknife leaves out in turn; None without an uncertainty."""
        return self.blocks(_JACKKNIFE_BLOCKS) if uncertainty else None

    def blocks(self, count: int) -> Tensor:
        """Return (rows,): a random division into at most `count` equal blocks, stratified, with whole groups."""
        count = min(count, len(torch.unique(self.groups)))
        return divide(self.labels if self.has_classes else None, self.groups, count, seed=self.seed)


def _rows_of(states: Tensor, rows: Tensor) -> Tensor:
    """Return a copy of some rows of the states, in a temporary file if it is large."""
    shape = (len(states), len(rows), *states.shape[2:])
    if prod(shape) * states.element_size() <= _IN_MEMORY or states.dtype != torch.float32:
        return states[:, rows]
    copied = torch.from_numpy(nameless_array(shape, "float32"))
    for layer, of_layer in zip(copied, states, strict=True):
        torch.index_select(of_layer, 0, rows, out=layer)
    return copied


def group_numbers(split: Split) -> Tensor:
    """Return (rows,): the number of each row's group, in order of first appearance; every row alone without groups."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(split.groups or ()))}
    return torch.tensor(range(len(split)) if split.groups is None else [numbers[group] for group in split.groups])


def divide(labels: Tensor | None, groups: Tensor, count: int, *, seed: int) -> Tensor:
    """Return (rows,): the block 0..count-1 of each row, drawn at random, with whole groups.

    Groups are shuffled, sorted by the class of their first row and assigned to blocks in turn, so that every block has
    its share of every class.
    """
    _, group = torch.unique(groups, return_inverse=True)
    number = int(group.max()) + 1
    shuffled = torch.randperm(number, generator=torch.Generator().manual_seed(seed))
    if labels is not None:
        first_class = torch.full((number,), -1, dtype=torch.long)
        first_class[group.flip(0)] = torch.unique(labels, return_inverse=True)[1].flip(0)
        shuffled = shuffled[numbered(first_class[shuffled])[1].argsort(stable=True)]
    block_of_group = torch.empty(number, dtype=torch.long)
    block_of_group[shuffled] = torch.arange(number) % count
    return block_of_group[group]


def numbered(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the classes in order of first appearance, and the number of each row's class.

    Random numbers for a class (its share of a fold, the weights of a fresh head) then do not depend on its name.
    """
    names, inverse = torch.unique(labels, return_inverse=True)
    first = torch.full((len(names),), len(labels)).scatter_reduce_(0, inverse, torch.arange(len(labels)), "amin")
    order = first.argsort()
    return names[order], order.argsort()[inverse]
