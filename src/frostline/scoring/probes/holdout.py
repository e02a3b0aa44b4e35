"""The rows of a probe: to fit on, to choose the epoch on, and to be judged on; the metric there and its uncertainty.

A cautious probe divides the measured rows: four fifths to train on, of which a tenth chooses the epoch, and a fifth to
be judged on. With `Evidence.held` it is fitted on all measured rows and judged on those others, as in the papers.

The held-out predictions are resampled, whole groups of rows with replacement and the same draw for all layers, so that
the difference between two layers is computed on the same rows. The fit is not repeated: the uncertainty is that of the
held-out rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from frostline.errors import MeasureError
from frostline.scoring.score_inputs import Evidence, divide
from frostline.scoring.uncertainty import Estimate, from_bootstrap
from frostline.states.pooled import Pooling
from frostline.stats.resampling import judge_of
from frostline.tasks.metrics import METRICS

FEWEST = 10  # held-out groups of rows; with fewer the metric and its uncertainty mean nothing
_INNER_PARTS = 10  # of the training rows: one of them chooses when to stop
_PARTS = 5
_REPLICATES = 200


def finite_states(evidence: Evidence, pooling: Pooling) -> Tensor:
    """Return the evidence's states of a pooling, (layers, rows, width); raise if they are not finite."""
    states = evidence.states[pooling]
    for number, layer in enumerate(states):
        if not bool(layer.sum().isfinite()):
            raise MeasureError(f"states of layer {number} are not finite, so that no probe can be fitted")
    return states


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some rows of an evidence, by number, so that states are not copied.

    Args:
        evidence: the evidence.
        rows: (rows,), numbers of the rows.
    """

    evidence: Evidence
    rows: Tensor

    @property
    def labels(self) -> Tensor:
        """The labels of the rows."""
        return self.evidence.labels[self.rows]

    @property
    def groups(self) -> Tensor:
        """The groups of the rows."""
        return self.evidence.groups[self.rows]

    def states(self, pooling: Pooling) -> Tensor:
        """Return (layers, rows, width): a copy of the rows' states."""
        return self.evidence.states[pooling][:, self.rows]

    def blocks(self, rows: int) -> list[Part]:
        """Return the part cut into parts of at most this many rows."""
        return [replace(self, rows=block) for block in torch.split(self.rows, rows)]

    def split(self, parts: int, *, seed: int) -> tuple[Part, Part]:
        """Return all of the parts but one, and that one, drawn at random, stratified, with whole groups."""
        labels = self.labels if self.evidence.has_classes else None
        part = divide(labels, self.groups, parts, seed=seed)
        return replace(self, rows=self.rows[part != 0]), replace(self, rows=self.rows[part == 0])


@dataclass(frozen=True, kw_only=True)
class ProbeRows:
    """The rows of a probe.

    Args:
        training: rows that the probe may know: all that are not held out.
        fit: rows to train on; all of `training`, or all but those of `check`.
        check: rows on which the best epoch is chosen.
        held: rows on which the probe is judged.
    """

    training: Part
    fit: Part
    check: Part
    held: Part


def probe_rows(
    evidence: Evidence, *, seed: int | None = None, choose_on: Literal["inner", "held-out"] = "inner"
) -> ProbeRows:
    """Return the rows of a probe: parts of the evidence's own, or also its rows for checking and judging.

    Args:
        evidence: evidence of all rows.
        seed: seed of divisions; the evidence's own if not given.
        choose_on: 'inner' chooses the epoch on the evidence's rows for that, or on a tenth of the training rows if it
            has none; 'held-out' chooses it on the judged rows, which is optimistic.
    """
    seed = evidence.seed if seed is None else seed
    measured = all_rows(evidence)
    training, held = measured.split(_PARTS, seed=seed) if evidence.held is None else (measured, all_rows(evidence.held))
    number = len(torch.unique(held.groups))
    if number < FEWEST:
        things = "rows" if number == len(held.rows) else "groups of rows"
        raise MeasureError(f"a probe holds out {number} {things} and needs {FEWEST} for its metric; give more rows")
    if evidence.has_classes and len(torch.unique(training.labels)) < 2:
        count = len(training.rows)
        raise MeasureError(f"a probe needs two classes, but its {count} training rows have one; give more rows")
    if choose_on == "held-out":
        fit, check = training, held
    elif evidence.check is not None:
        fit, check = training, all_rows(evidence.check)
    else:
        fit, check = training.split(_INNER_PARTS, seed=seed)
    return ProbeRows(training=training, fit=fit, check=check, held=held)


def all_rows(evidence: Evidence) -> Part:
    """Return all rows of an evidence."""
    return Part(evidence=evidence, rows=torch.arange(len(evidence)))


@dataclass(frozen=True, kw_only=True)
class HeldOutPredictions:
    """Predictions of each layer's probe for the same held-out items: rows, or questions of multiple choice.

    Args:
        labels: (items,).
        guesses: (layers, items), comparable with labels.
        groups: (items,); items of one group are resampled together.
        metric: name of the task metric.
    """

    labels: Tensor
    guesses: Tensor
    groups: Tensor
    metric: str

    def values(self) -> Tensor:
        """Return (layers,): the metric; an error has a minus sign, so that high is good."""
        metric, labels = METRICS[self.metric], self.labels.numpy()
        values = [metric.signed(metric(labels, guesses.numpy())) for guesses in self.guesses]
        return torch.tensor(values, dtype=torch.float64)

    def resampled(self, weights: Tensor) -> Tensor:
        """Return (replicates, layers): the metric with each item weighted by its draws, (replicates, items)."""
        weights = weights.masked_fill(weights.sum(1, keepdim=True) == 0, 1)  # nothing drawn: all items count once
        judge = judge_of(self.metric, self.labels.numpy(), [guesses.numpy() for guesses in self.guesses])
        values = torch.from_numpy(judge(weights.T.double().numpy())).T
        return values if METRICS[self.metric].higher_is_better else -values


def make_predictions(held: Part, outputs: Tensor, classes: Tensor | None) -> HeldOutPredictions:
    """Return the predictions from the outputs of all layers' probes.

    Args:
        held: the held-out rows.
        outputs: (layers, rows, classes), the higher the more likely; for values to predict (layers, rows, 1).
        classes: the label of each output; None for values to predict.
    """
    if not bool(outputs.isfinite().all()):
        raise MeasureError("a probe diverged, its outputs are not finite; lower its learning rate")
    labels, groups = held.labels, held.groups
    if held.evidence.kind == "multiple choice":
        labels, guesses, groups = _choices(labels, outputs[..., -1] - outputs[..., 0], groups)
    else:
        guesses = outputs[..., 0] if classes is None else classes[outputs.argmax(-1)]
    return HeldOutPredictions(labels=labels, guesses=guesses, groups=groups, metric=held.evidence.metric)


def _choices(is_right: Tensor, preference: Tensor, questions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the right row of every question, the row that each layer prefers, and the questions.

    Args:
        is_right: (rows,), 1 for the right choice of a question.
        preference: (layers, rows).
        questions: (rows,).
    """
    numbers = torch.unique(questions)
    labels, guesses = [], []
    for number in numbers:
        rows = (questions == number).nonzero()[:, 0]
        labels.append(rows[is_right[rows].argmax()])
        guesses.append(rows[preference[:, rows].argmax(1)])
    return torch.stack(labels), torch.stack(guesses, dim=1), numbers


def estimate_metric(trials: Sequence[HeldOutPredictions], *, seed: int, uncertainty: bool = True) -> Estimate:
    """Return the metric of each layer, the mean over trials, with a bootstrap over held-out groups and trials.

    A group is drawn equally often in all trials that held it out. Resampling trials covers the differences between
    fits; it also repeats some of the variance of groups, so that intervals are too wide rather than too narrow.
    """
    values = torch.stack([trial.values() for trial in trials]).mean(0)
    if not uncertainty:
        return Estimate(values=values)
    groups = torch.unique(torch.cat([trial.groups for trial in trials]))
    counts = draw(len(groups), _REPLICATES, seed=seed)
    shares = draw(len(trials), _REPLICATES, seed=seed) / len(trials)
    replicates = torch.zeros(_REPLICATES, len(values), dtype=torch.float64)
    for trial, share in zip(trials, shares.T, strict=True):
        replicates += share[:, None] * trial.resampled(counts[:, torch.searchsorted(groups, trial.groups)])
    return from_bootstrap(values, replicates)


def draw(number: int, replicates: int, *, seed: int) -> Tensor:
    """Return (replicates, number): how often each of `number` items is drawn in a bootstrap sample."""
    source = torch.Generator().manual_seed(seed)
    drawn = torch.randint(number, (replicates, number), generator=source)
    return torch.zeros(replicates, number, dtype=torch.long).scatter_add_(1, drawn, torch.ones_like(drawn))
