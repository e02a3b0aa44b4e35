"""Probes trained by gradient descent on pooled states, those of all layers at once.

All layers use the same rows in the same order. Adam treats every weight by itself, so that training many probes on the
sum of their losses is the same as training each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from frostline.records import Recipe
from frostline.records.recipe import rate_at
from frostline.scoring.probes.holdout import Part, ProbeRows
from frostline.scoring.score_inputs import numbered
from frostline.states.pooled import Pooling

Judge = Callable[[Tensor], Tensor]  # from outputs (layers, rows, outputs) to a value per layer; high is good

_NEVER = 10**9
_LARGEST_COPY = 2 << 30  # bytes of states that are copied for speed
_BLOCK = 4096  # rows that are predicted at once


def train_probes(
    probes: nn.Module,
    pooling: Pooling,
    targets: Targets,
    rows: ProbeRows,
    recipe: Recipe,
    *,
    judge: Judge,
    learning_rate: float,
) -> Tensor:
    """Return (layers, held rows, outputs): outputs of each layer's probe on the held-out rows after its best epoch.

    Args:
        probes: module from states (layers, rows, width) to outputs (layers, rows, outputs); trained in place.
        pooling: pooling of the states.
        targets: labels in the form of the loss.
        rows: rows to train on, to choose the best epoch on (the first of equals), and to predict.
        recipe: epochs, batch, schedule, warm-up, patience, and the seed of the order of rows and of dropout.
        judge: function that evaluates the outputs for the rows of `rows.check`.
        learning_rate: highest rate of Adam, without weight decay.
    """
    optimizer = torch.optim.Adam(probes.parameters(), lr=learning_rate, fused=True)
    order = torch.Generator().manual_seed(recipe.seed)
    steps, step = recipe.epochs * -(-len(rows.fit.rows) // recipe.batch), 0
    patience = recipe.patience or _NEVER
    states = rows.fit.evidence.states[pooling]
    wanted = targets.encode(rows.fit.evidence.labels)
    best = torch.full((len(states),), -torch.inf, dtype=torch.float64)
    since = torch.zeros(len(states), dtype=torch.long)
    kept = torch.empty(0)
    take = _row_reader(states)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        for epoch in range(recipe.epochs):
            probes.train()
            shuffled = rows.fit.rows[torch.randperm(len(rows.fit.rows), generator=order)]
            for chosen in torch.split(shuffled, recipe.batch):
                optimizer.param_groups[0]["lr"] = learning_rate * rate_at(step, steps, recipe)
                step += 1
                optimizer.zero_grad()
                loss = losses(probes(take(chosen)), wanted[chosen]).sum()
                torch.autograd.backward(loss)
                optimizer.step()
            probes.eval()
            checked, outputs = (apply_probes(probes, part, pooling) for part in (rows.check, rows.held))
            value = judge(checked)
            better = (value > best) & (since < patience)
            kept = outputs if epoch == 0 else torch.where(better[:, None, None], outputs, kept)
            best = torch.where(better, value, best)
            since = torch.where(better, 0, since + 1)
            if bool((since >= patience).all()):
                break
    return kept


def _row_reader(states: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function from row numbers to states (layers, rows, width); fast if a copy of all states is small."""
    if states.numel() * states.element_size() > _LARGEST_COPY:
        return lambda rows: states[:, rows].float()
    by_row = states.float().transpose(0, 1).contiguous()  # so that selecting rows copies whole blocks
    return lambda rows: by_row.index_select(0, rows).transpose(0, 1)


def apply_probes(probes: nn.Module, part: Part, pooling: Pooling) -> Tensor:
    """Return (layers, rows, outputs) without gradients, a block of rows at a time."""
    with torch.no_grad():
        return torch.cat([probes(block.states(pooling).float()) for block in part.blocks(_BLOCK)], dim=1)


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return (layers,): mean cross-entropy for class numbers, mean squared error for values."""
    if targets.is_floating_point():
        return (outputs[..., 0] - targets).square().mean(1)
    return F.cross_entropy(outputs.transpose(1, 2), targets.expand(len(outputs), -1), reduction="none").mean(1)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Labels in the form of the loss: class numbers from 0, or values of mean 0 and deviation 1.

    Args:
        classes: the label of each class number; None for values to predict.
        centre: mean that is subtracted from values to predict.
        scale: deviation that they are divided by.
    """

    classes: Tensor | None = None
    centre: float = 0.0
    scale: float = 1.0

    @property
    def outputs(self) -> int:
        """The number of outputs of a probe."""
        return 1 if self.classes is None else len(self.classes)

    def encode(self, labels: Tensor) -> Tensor:
        """Return (rows,): the targets; -1 for a class that the training rows do not have."""
        if self.classes is None:
            return ((labels.double() - self.centre) / self.scale).float()
        is_class = labels[:, None] == self.classes[None, :]
        return torch.where(is_class.any(1), is_class.long().argmax(1), -1)

    def decode(self, outputs: Tensor) -> Tensor:
        """Return outputs on the scale of the labels; unchanged for classes."""
        return self.centre + self.scale * outputs.double()


def make_targets(training: Part) -> Targets:
    """Return the form of labels by the classes, or the mean and deviation, of the training rows."""
    labels = training.labels
    if training.evidence.has_classes:
        is_choice = training.evidence.kind == "multiple choice"  # wrong is 0 and right is 1
        return Targets(classes=torch.unique(labels) if is_choice else numbered(labels)[0])
    values = labels.double()
    return Targets(centre=float(values.mean()), scale=float(values.std(correction=0)) or 1.0)


class LinearProbes(nn.Module):
    """A linear layer for each layer of the encoder, initialised like BERT's."""

    def __init__(self, layers: int, width: int, outputs: int, *, seed: int) -> None:
        super().__init__()
        start = 0.02 * torch.randn(width, outputs, generator=torch.Generator().manual_seed(seed))
        self.weights = nn.Parameter(start.repeat(layers, 1, 1))
        self.intercepts = nn.Parameter(torch.zeros(layers, 1, outputs))

    def forward(self, states: Tensor) -> Tensor:
        """Return (layers, rows, outputs) for states (layers, rows, width)."""
        return torch.baddbmm(self.intercepts, states, self.weights)


class HeadProbes(nn.Module):
    """A head for each layer of the encoder."""

    def __init__(self, heads: Sequence[nn.Module]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, states: Tensor) -> Tensor:
        """Return (layers, rows, outputs) for states (layers, rows, width), each a text of one token."""
        return torch.stack([head(layer[:, None]) for head, layer in zip(self.heads, states, strict=True)])
