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

from frostline.scoring.score_inputs import Evidence, numbered

Judge = Callable[[Tensor], Tensor]  # from outputs (layers, rows, outputs) to a value per layer; high is good

_NEVER = 10**9


def train_probes(
    probes: nn.Module,
    states: Tensor,
    targets: Tensor,
    *,
    fit: Tensor,
    check: Tensor,
    held: Tensor,
    judge: Judge,
    learning_rate: float,
    epochs: int,
    batch: int,
    seed: int,
    patience: int = _NEVER,
) -> Tensor:
    """Return (layers, held rows, outputs): outputs of each layer's probe on the held-out rows after its best epoch.

    Args:
        probes: module from states (layers, rows, width) to outputs (layers, rows, outputs); trained in place.
        states: (layers, rows, width), of all rows.
        targets: (rows,), class numbers from 0, or values of mean 0 and deviation 1.
        fit: rows to train on.
        check: rows on which the best epoch is chosen, the first of equals.
        held: rows to predict.
        judge: function that evaluates the outputs for the rows of `check`.
        learning_rate: rate of Adam, without weight decay or schedule.
        epochs: largest number of epochs.
        batch: rows per step.
        seed: seed of the order of rows, and of dropout.
        patience: epochs without improvement before a layer stops.
    """
    optimizer = torch.optim.Adam(probes.parameters(), lr=learning_rate, fused=True)
    order = torch.Generator().manual_seed(seed)
    best = torch.full((len(states),), -torch.inf, dtype=torch.float64)
    since = torch.zeros(len(states), dtype=torch.long)
    kept = torch.empty(0)
    by_row = states.transpose(0, 1).contiguous()  # so that selecting rows copies whole blocks
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for epoch in range(epochs):
            probes.train()
            shuffled = fit[torch.randperm(len(fit), generator=order)]
            for start in range(0, len(fit), batch):
                rows = shuffled[start : start + batch]
                optimizer.zero_grad()
                loss = losses(probes(by_row.index_select(0, rows).transpose(0, 1)), targets[rows]).sum()
                torch.autograd.backward(loss)
                optimizer.step()
            probes.eval()
            with torch.no_grad():
                value, outputs = judge(probes(states[:, check])), probes(states[:, held])
            better = (value > best) & (since < patience)
            kept = outputs if epoch == 0 else torch.where(better[:, None, None], outputs, kept)
            best = torch.where(better, value, best)
            since = torch.where(better, 0, since + 1)
            if bool((since >= patience).all()):
                break
    return kept


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return (layers,): mean cross-entropy for class numbers, mean squared error for values."""
    if targets.is_floating_point():
        return (outputs[..., 0] - targets).square().mean(1)
    return F.cross_entropy(outputs.transpose(1, 2), targets.expand(len(outputs), -1), reduction="none").mean(1)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Labels in the form of the loss: class numbers from 0, or values of mean 0 and deviation 1.

    Args:
        values: (rows,); -1 for a class that the training rows do not have.
        classes: the label of each class number; None for values to predict.
        centre: mean that was subtracted from values to predict.
        scale: deviation that they were divided by.
    """

    values: Tensor
    classes: Tensor | None = None
    centre: float = 0.0
    scale: float = 1.0

    @property
    def outputs(self) -> int:
        """The number of outputs of a probe."""
        return 1 if self.classes is None else len(self.classes)

    def decode(self, outputs: Tensor) -> Tensor:
        """Return outputs on the scale of the labels; unchanged for classes."""
        return self.centre + self.scale * outputs.double()


def make_targets(evidence: Evidence, rows: Tensor) -> Targets:
    """Return the targets of all rows, by the classes, or the mean and deviation, of some of them."""
    labels = evidence.labels
    if evidence.has_classes:
        is_choice = evidence.kind == "multiple choice"  # wrong is 0 and right is 1
        classes = torch.unique(labels[rows]) if is_choice else numbered(labels[rows])[0]
        is_class = labels[:, None] == classes[None, :]
        return Targets(values=torch.where(is_class.any(1), is_class.long().argmax(1), -1), classes=classes)
    fitted = labels[rows].double()
    scale = float(fitted.std(correction=0)) or 1.0
    values = (labels.double() - fitted.mean()) / scale
    return Targets(values=values.float(), centre=float(fitted.mean()), scale=scale)


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
