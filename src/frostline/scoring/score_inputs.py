"""What a layer score may look at: states of sampled training texts, their labels, and the encoder they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.states.cka import own_hsic_leaving_out
from frostline.states.pooled import Pooling
from frostline.tasks import Split
from frostline.tasks.task import Kind


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One encoder's view of sampled training rows of one task.

    Args:
        states: (layers 0..L, rows, width) for each pooling that was asked for.
        labels: (rows,), class numbers or values to predict.
        groups: (rows,), integers; rows of one group stay together when rows are resampled or divided.
        kind: of the task; multiple choice comes as rows labelled right or wrong, in groups of one question.
        metric: name of the task metric that judges predictions.
        pooling: the one that scores use unless they are defined on another.
        encoder: for scores that need more than states.
        tokens: of the rows, for the same.
        split: the rows themselves, for the same.
        seed: of everything that a score draws.
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
    _own_hsic: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes, and not values to predict."""
        return self.kind != "regression"

    def take(self, rows: Tensor) -> Evidence:
        """The same for some of the rows."""
        numbers = rows.tolist()
        return Evidence(
            states={pooling: states[:, rows] for pooling, states in self.states.items()},
            labels=self.labels[rows],
            groups=self.groups[rows],
            kind=self.kind,
            metric=self.metric,
            pooling=self.pooling,
            seed=self.seed,
            encoder=self.encoder,
            tokens=None if self.tokens is None else self.tokens.take(numbers),
            split=None if self.split is None else self.split.take(numbers),
        )

    def balanced(self) -> Evidence:
        """As many rows of every class, drawn at random where a class has more; all rows where they are questions."""
        if self.kind != "classification":
            return self
        _, label, counts = torch.unique(self.labels, return_inverse=True, return_counts=True)
        order = torch.randperm(len(label), generator=torch.Generator().manual_seed(self.seed))
        by_class = order[label[order].argsort(stable=True)]
        rank = torch.cat([torch.arange(int(count)) for count in counts])
        return self.take(by_class[rank < counts.min()].sort().values)

    def own_hsic(self, blocks: Tensor | None) -> Tensor:
        """(1 + blocks, layers): each layer's similarity with itself, computed once for all scores that divide by it.

        Args:
            blocks: what `blocks` gave, or None to leave out nothing.
        """
        count = 0 if blocks is None else int(blocks.max()) + 1
        if count not in self._own_hsic:
            self._own_hsic[count] = own_hsic_leaving_out(self.states[self.pooling], blocks)
        return self._own_hsic[count]

    def in_order(self) -> Evidence:
        """The same with rows in the order of their groups, so that the order they came in does not matter."""
        if bool((self.groups.diff() >= 0).all()):
            return self
        return self.take(self.groups.argsort(stable=True))

    def blocks(self, count: int) -> Tensor:
        """(rows,): a random division into at most `count` equal blocks, fair to classes and dividing no group."""
        count = min(count, len(torch.unique(self.groups)))
        return divide(self.labels if self.has_classes else None, self.groups, count, seed=self.seed)


def divide(labels: Tensor | None, groups: Tensor, count: int, *, seed: int) -> Tensor:
    """(rows,): the block 0..count-1 of each row, drawn at random, whole groups together.

    Groups are dealt out in turn, shuffled and then sorted by the class of their first row, so that every block has its
    share of every class.
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
    """The classes in the order in which they first come, and each row's place among them.

    What is drawn for a class (its share of a fold, the weights of a fresh head) then does not depend on its name.
    """
    names, inverse = torch.unique(labels, return_inverse=True)
    first = torch.full((len(names),), len(labels)).scatter_reduce_(0, inverse, torch.arange(len(labels)), "amin")
    order = first.argsort()
    return names[order], order.argsort()[inverse]
