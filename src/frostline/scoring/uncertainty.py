"""Values per layer with their uncertainty, correlated over layers.

Layers are scored on the same texts, so their errors are correlated. An estimate stores a matrix of deviations A whose
product A'A is the covariance between layers, whatever the method; intervals, the difference between two layers and the
probability of being the best all follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Method = Literal["none", "jackknife", "bootstrap", "folds", "trials", "blocks"]
_DRAWS = 4000


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value per layer, NaN where undefined, and its uncertainty.

    Args:
        values: (layers,), float64.
        deviations: (replicates, layers), A with A'A = covariance; None without an uncertainty.
        freedom: degrees of freedom of the t distribution behind the intervals; infinite for a bootstrap.
        method: resampling method of the deviations.
        chance: (layers,), expectation by chance; None where the score does not compute it.
    """

    values: Tensor
    deviations: Tensor | None = None
    freedom: float = float("inf")
    method: Method = "none"
    chance: Tensor | None = None

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor] | None:
        """Return the lower and upper ends for each layer, or None without an uncertainty."""
        if self.deviations is None:
            return None
        reach = _quantile(self.freedom, level) * self.deviations.square().sum(0).sqrt()
        return self.values - reach, self.values + reach

    def probability_of_best(self, better: Literal["low", "high"], *, seed: int = 0) -> Tensor | None:
        """Return each layer's probability of being the best of 1..L; 0 for layer 0 and undefined layers."""
        if self.deviations is None:
            return None
        source = torch.Generator().manual_seed(seed)
        steps = torch.randn(_DRAWS, len(self.deviations), generator=source, dtype=torch.float64)
        drawn = self._ranked(better) + steps @ self.deviations.nan_to_num()
        return torch.bincount(drawn.argmin(1), minlength=len(self.values)).double() / _DRAWS

    def tied(self, better: Literal["low", "high"], level: float = 0.95) -> list[int]:
        """Return the layers 1..L that do not differ significantly from the best one, it included."""
        ranked = self._ranked(better)
        if not bool(ranked.isfinite().any()):
            return []
        best = int(ranked.argmin())
        if self.deviations is None:
            return [best]
        apart = self.deviations - self.deviations[:, best : best + 1]
        reach = _quantile(self.freedom, level) * apart.square().sum(0).sqrt()
        is_tied = (ranked - ranked[best] <= reach) & ranked.isfinite()
        is_tied[best] = True
        return [int(layer) for layer in is_tied.nonzero()]

    def _ranked(self, better: Literal["low", "high"]) -> Tensor:
        """Return the values with the best lowest, and infinity for layer 0 and where undefined."""
        ranked = self.values if better == "low" else -self.values
        ranked = ranked.masked_fill(ranked.isnan(), float("inf"))
        ranked[0] = float("inf")
        return ranked


def from_jackknife(rows: Tensor) -> Estimate:
    """Return the estimate from (1 + groups, layers): values on all texts, then without each group; groups may be 0."""
    if len(rows) == 1:
        return Estimate(values=rows[0])
    deviations = jackknife_deviations(rows[1:])
    return Estimate(values=rows[0], deviations=deviations, freedom=len(deviations) - 1, method="jackknife")


def jackknife_deviations(replicates: Tensor) -> Tensor:
    """Return the deviations of an `Estimate` from values without each group in turn, (groups, layers)."""
    count = len(replicates)
    scale: float = ((count - 1) / count) ** 0.5
    return (replicates - replicates.mean(0)) * scale


def from_bootstrap(values: Tensor, replicates: Tensor) -> Estimate:
    """Return the estimate from replicates on resampled held-out predictions, (replicates, layers)."""
    spread = (replicates - replicates.mean(0)) / max(1, len(replicates) - 1) ** 0.5
    return Estimate(values=values, deviations=spread, method="bootstrap")


def from_folds(replicates: Tensor, *, uncertainty: bool) -> Estimate:
    """Return the estimate from values on separate folds of the data, (folds, layers), whose mean is the value.

    Folds share most of the rows they were fitted on, so that their intervals are somewhat too short.
    """
    count, values = len(replicates), replicates.mean(0)
    if not uncertainty:
        return Estimate(values=values)
    spread = (replicates - values) / (count * max(1, count - 1)) ** 0.5
    return Estimate(values=values, deviations=spread, freedom=max(1, count - 1), method="folds")


def from_trials(replicates: Tensor, *, uncertainty: bool) -> Estimate:
    """Return the estimate from values of separate trials, (trials, layers), whose mean is the value; t over trials."""
    estimate = from_folds(replicates, uncertainty=uncertainty and len(replicates) > 1)
    return replace(estimate, method="trials") if estimate.deviations is not None else estimate


def jackknife(score: Callable[[Tensor | slice], Tensor], blocks: Tensor | None) -> Estimate:
    """Return an estimate with delete-a-group uncertainty.

    A plain bootstrap would be wrong for scores of spread: copies of a text shrink the spread within its class.

    Args:
        score: function from an index of rows to a value per layer.
        blocks: (rows,), the group of each row, from 0; None for the values alone.
    """
    without = [] if blocks is None else [blocks != block for block in range(int(blocks.max()) + 1)]
    return from_jackknife(torch.stack([score(slice(None)), *map(score, without)]))


def _quantile(freedom: float, level: float) -> float:
    from scipy import stats

    tail = 1 - (1 - level) / 2
    return float(stats.norm.ppf(tail) if freedom == float("inf") else stats.t.ppf(tail, freedom))
