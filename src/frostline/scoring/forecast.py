"""Forecast what tuning a set of layers gains over the head alone, for any set, before anything is tuned.

To first order around the pretrained weights and a fitted head, tuning the layers S is kernel regression with K_head
plus the kernels of the layers in S: inner products of the texts' gradients (Jacot et al. 2018). One set of gradients
serves every S.

Rows are halved, rows of one group together. A linear probe on the head's features is fitted on one half, its penalty
chosen by leaving out groups; the other half has the gradients of its directions, and its errors there are what layers
have to explain: each group's from all others. The halves are swapped and the whole is repeated. So no label is used for
its own forecast, and the weights of the kernels are chosen without it.

The forecast is a rank, not a quality: it says nothing of how far tuning leaves the pretrained weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import make_mean_head
from frostline.encoders.tokens import Tokens
from frostline.errors import MeasureError, OptionError
from frostline.scoring.fisher.sample import fresh_head
from frostline.scoring.kernel_ridge import Probe, cross_fitted_errors, fit_probe
from frostline.scoring.probes.holdout import FEWEST, draw
from frostline.scoring.score_inputs import Evidence, divide, group_numbers
from frostline.scoring.selection import draw_rows
from frostline.scoring.text_gradients import HeadedEncoder, gradient_kernels
from frostline.scoring.uncertainty import Estimate, from_bootstrap
from frostline.tasks import Task

HeadName = Literal["family", "mean"]

EXAMPLES = 1_000
DIRECTIONS = 4
HALVINGS = 3
RANK = 32
_WEIGHTS = torch.logspace(-3, 1, 4, dtype=torch.float64).tolist()  # of the head's kernel and of the layers', ridge 1
_FINE_WEIGHTS = torch.logspace(-3, 1, len(_WEIGHTS) ** 2, dtype=torch.float64).tolist()  # as many for one kernel
_FOLDS = 5
_REPLICATES = 1000


@dataclass(frozen=True, kw_only=True)
class PlanForecast:
    """The forecast of one set of tuned layers, with the head at the last layer.

    Args:
        layers: the tuned layers; 0 stands for the embeddings.
        error: mean squared error per row, over all outputs: one per class, or a value in deviations of the labels.
        gain: how much lower it is than that of the head alone.
        low: lower end of the gain's 95% interval.
        high: its upper end.
    """

    layers: tuple[int, ...]
    error: float
    gain: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Half:
    """Half of the rows, seen by a probe that was fitted on the other half.

    Args:
        rows: (rows,), their numbers.
        head: (rows, rows), the kernel of the head's parameters; like all kernels with a mean of 1 on its diagonal.
        layers: (layers 0..L, rows, rows), the kernels of the layers.
        targets: (rows, outputs), the probe's errors.
        groups: (rows,), integers.
        folds: (rows,), whole groups; weights are chosen for each fold without it.
    """

    rows: Tensor
    head: Tensor
    layers: Tensor
    targets: Tensor
    groups: Tensor
    folds: Tensor

    def errors(self, layers: Sequence[int]) -> Tensor:
        """Return (rows,): the squared errors if these layers are tuned."""
        return cross_fitted_errors(self._kernels(layers), self.targets, self.groups, self.folds)

    def _kernels(self, layers: Sequence[int]) -> Iterator[Tensor]:
        """Yield equally many kernels for every set of layers."""
        if not layers:
            return (weight * self.head for weight in _FINE_WEIGHTS)
        body = self.layers[list(layers)].mean(0)
        return (head * self.head + weight * body for head in _WEIGHTS for weight in _WEIGHTS)


class Forecast:
    """The forecasts of all sets of layers, from gradients that were computed once."""

    def __init__(self, halves: Sequence[Half], groups: Tensor, *, seed: int) -> None:
        """Take halves that contain every row equally often, and (rows,) groups."""
        self.halves, self.groups, self._seed = tuple(halves), groups, seed
        self._errors: dict[tuple[int, ...], Tensor] = {}

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.halves[0].layers) - 1

    def errors(self, layers: Sequence[int]) -> Tensor:
        """Return (rows,): the squared errors if these layers are tuned, each the mean over halvings."""
        key = tuple(sorted(set(layers)))
        for layer in key:
            if not 0 <= layer <= self.depth:
                raise OptionError(f"layer {layer}: the encoder has layers 1..{self.depth}, and 0 for the embeddings")
        if key not in self._errors:
            sums, times = torch.zeros(2, len(self.groups), dtype=torch.float64)
            for half in self.halves:
                sums[half.rows] += half.errors(key)
                times[half.rows] += 1
            self._errors[key] = sums / times
        return self._errors[key]

    def gains(self, sets: Sequence[Sequence[int]], *, uncertainty: bool = True) -> Estimate:
        """Return the gain of each set over the head alone, with a bootstrap over groups, the same for all sets."""
        gains = torch.stack([self.errors(()) - self.errors(layers) for layers in sets], 1)
        values = gains.mean(0)
        if not uncertainty:
            return Estimate(values=values)
        _, group = torch.unique(self.groups, return_inverse=True)
        weights = draw(int(group.max()) + 1, _REPLICATES, seed=self._seed)[:, group].double()
        return from_bootstrap(values, weights @ gains / weights.sum(1, keepdim=True))

    def ranked(self, sets: Sequence[Sequence[int]]) -> list[PlanForecast]:
        """Return the forecasts of some sets of layers, the best first."""
        estimate = self.gains(sets)
        ends = estimate.interval()
        assert ends is not None  # noqa: S101 (there is an uncertainty)
        forecasts = [
            PlanForecast(layers=tuple(layers), error=float(self.errors(layers).mean()), gain=gain, low=low, high=high)
            for layers, gain, low, high in zip(
                sets, estimate.values.tolist(), *(end.tolist() for end in ends), strict=True
            )
        ]
        return sorted(forecasts, key=lambda plan: plan.error)


def forecast_plans(
    encoder: Encoder,
    task: Task,
    sets: Sequence[Sequence[int]],
    *,
    examples: int = EXAMPLES,
    head: HeadName = "family",
    max_length: int | None = None,
    seed: int = 0,
) -> list[PlanForecast]:
    """Return the forecasts of some sets of layers, with the head at the last one, the best first.

    Args:
        encoder: a loaded encoder.
        task: a loaded task; its training rows are used.
        sets: sets of layers, 0 for the embeddings; an empty one is the head alone.
        examples: most rows to draw.
        head: the family's own head, or the mean-pooled linear one.
        max_length: number of tokens at which texts are cut.
        seed: seed of everything drawn at random.
    """
    split = draw_rows(task.train, examples, seed=seed)
    evidence = Evidence(
        states={},
        labels=torch.tensor(split.labels),
        groups=group_numbers(split),
        kind=task.kind,
        metric=task.metrics[0],
        pooling="mean",
        seed=seed,
        encoder=encoder,
        tokens=encoder.tokenize(split.texts, split.pairs, max_length=max_length),
        split=split,
    )
    return make_forecast(evidence, head=head).ranked(sets)


def make_forecast(
    evidence: Evidence,
    *,
    head: HeadName = "family",
    directions: int = DIRECTIONS,
    halvings: int = HALVINGS,
    rank: int | None = RANK,
) -> Forecast:
    """Return the forecasts of all sets of layers with the head at the last one.

    Args:
        evidence: labels, groups, encoder and tokens; states are not needed.
        head: the family's own head, or the mean-pooled linear one.
        directions: most directions of the probe's outputs whose gradients are taken: those of its largest weights.
        halvings: number of times that the rows are halved.
        rank: width of random projections of gradients (see `gradient_kernels`); None for exact ones.
    """
    encoder, tokens = evidence.encoder, evidence.tokens
    if encoder is None or tokens is None:
        raise MeasureError("a forecast needs the encoder and the tokens of the texts, not only their states")
    if head not in ("family", "mean"):
        raise OptionError(f"head {head!r}: must be 'family' or 'mean'")
    for name, value in (("directions", directions), ("halvings", halvings), ("rank", 1 if rank is None else rank)):
        if value < 1:
            raise OptionError(f"{name} {value}: at least 1 is needed")
    network = _with_head(encoder, evidence, head)
    features = network.features(tokens).double().cpu()
    targets = _targets(evidence)
    labels = evidence.labels if evidence.has_classes else None
    halves = []
    for number in range(halvings):
        seed = evidence.seed * halvings + number
        side = divide(labels, evidence.groups, 2, seed=seed)
        for fitted, judged in ((side == 0, side == 1), (side == 1, side == 0)):
            for rows in (fitted, judged):
                _check(evidence, rows)
            probe = fit_probe(features[fitted], targets[fitted], evidence.groups[fitted], weights=_FINE_WEIGHTS)
            rows = judged.nonzero()[:, 0]
            kernels = _kernels(network, tokens.take(rows.tolist()), probe, directions, rank, seed=seed)
            halves.append(
                Half(
                    rows=rows,
                    head=_joined([probe.kernel(features[rows]), kernels[-1]]),
                    layers=torch.stack([_joined([kernel]) for kernel in kernels[:-1]]),
                    targets=targets[rows] - probe(features[rows]),
                    groups=evidence.groups[rows],
                    folds=divide(None if labels is None else labels[rows], evidence.groups[rows], _FOLDS, seed=seed),
                )
            )
    return Forecast(halves, evidence.groups, seed=evidence.seed)


def _with_head(encoder: Encoder, evidence: Evidence, head: HeadName) -> HeadedEncoder:
    """Return the encoder with a head; only the parts below its last linear layer matter."""
    if head == "family":
        return HeadedEncoder(encoder, fresh_head(encoder, evidence.kind, 1, seed=evidence.seed))
    made = make_mean_head(encoder, labels=1, kind=evidence.kind, seed=evidence.seed)
    parameter = next(iter(encoder.model.parameters()))
    return HeadedEncoder(encoder, made.to(parameter.device, parameter.dtype).eval().requires_grad_(False))


def _targets(evidence: Evidence) -> Tensor:
    """Return (rows, outputs): a one for the row's class, or the value in deviations from the mean."""
    if evidence.has_classes:
        return F.one_hot(torch.unique(evidence.labels, return_inverse=True)[1]).double()
    values = evidence.labels.double()
    return ((values - values.mean()) / values.std().clamp(min=torch.finfo(torch.float64).tiny))[:, None]


def _check(evidence: Evidence, rows: Tensor) -> None:
    number = len(torch.unique(evidence.groups[rows]))
    if number < FEWEST:
        raise MeasureError(f"a forecast halves the rows, and a half has {number} groups of {FEWEST}; give more rows")
    if len(torch.unique(evidence.labels[rows])) < 2:
        raise MeasureError("a forecast halves the rows, and a half has a single label; give more rows")


def _kernels(
    network: HeadedEncoder, tokens: Tokens, probe: Probe, directions: int, rank: int | None, *, seed: int
) -> Tensor:
    return gradient_kernels(network, tokens, probe.directions(directions), rank=rank, seed=seed)


def _joined(kernels: Sequence[Tensor]) -> Tensor:
    """Return the mean of the kernels that are not zero, each with a mean of 1 on its diagonal."""
    means = [kernel.diagonal().mean() for kernel in kernels]
    scaled = [kernel / mean for kernel, mean in zip(kernels, means, strict=True) if mean > 0]
    return torch.stack(scaled).mean(0) if scaled else torch.zeros_like(kernels[0])
