"""Held-out rows: keeping some aside, judging predictions of them by the task metric, and how far that could be chance.

What is resampled is the held-out predictions, whole groups of rows with replacement and the same draw for all layers,
so that the difference between two layers is judged on the same rows. The fit is not repeated: the uncertainty is that
of the held-out rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostline.errors import MeasureError
from frostline.scoring.score_inputs import Evidence, divide
from frostline.scoring.uncertainty import Estimate, from_bootstrap
from frostline.states.pooled import Pooling
from frostline.stats.resampling import judge_of
from frostline.tasks.metrics import METRICS

FEWEST = 10  # held-out groups of rows; with fewer neither the metric nor its uncertainty means anything
INNER_PARTS = 10  # of the rows to fit on: one of them chooses when to stop
_PARTS = 5
_REPLICATES = 200


def finite_states(evidence: Evidence, pooling: Pooling) -> Tensor:
    """The evidence's states of a pooling, (layers, rows, width), if they can be fitted."""
    states = evidence.states[pooling]
    for number, layer in enumerate(states):
        if not bool(layer.sum().isfinite()):
            raise MeasureError(f"states of layer {number} are not finite, and no probe can be fitted to them")
    return states


def hold_out(evidence: Evidence, *, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """The numbers of the rows to fit on, four fifths, and of those held out, classes evenly divided, groups whole.

    Args:
        evidence: of all rows.
        seed: of the division; the evidence's own if not given.
    """
    seed = evidence.seed if seed is None else seed
    fit, held = part_rows(evidence, torch.arange(len(evidence)), _PARTS, seed=seed)
    number = len(torch.unique(evidence.groups[held]))
    if number < FEWEST:
        things = "rows" if number == len(held) else "groups of rows"
        raise MeasureError(f"a probe holds out {number} {things} and needs {FEWEST} to be judged on; give more rows")
    if evidence.has_classes and len(torch.unique(evidence.labels[fit])) < 2:
        raise MeasureError(f"a probe needs two classes, and the {len(fit)} rows to fit on have one; give more rows")
    return fit, held


def part_rows(evidence: Evidence, rows: Tensor, parts: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Some of the evidence's rows in two: all parts but one, and that one."""
    labels = evidence.labels[rows] if evidence.has_classes else None
    part = divide(labels, evidence.groups[rows], parts, seed=seed)
    return rows[part != 0], rows[part == 0]


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What each layer's probe says of the same held-out items: rows, or questions where choices are compared.

    Args:
        labels: (items,).
        guesses: (layers, items), comparable with labels.
        groups: (items,); items of one group are drawn together.
        metric: name of the task metric.
    """

    labels: Tensor
    guesses: Tensor
    groups: Tensor
    metric: str

    def values(self) -> Tensor:
        """(layers,): the metric; where it is an error, with a minus sign, so that high is good."""
        return torch.stack([_judge(self.metric, self.labels, guesses) for guesses in self.guesses])

    def resampled(self, weights: Tensor) -> Tensor:
        """(replicates, layers): the same with every item counted as often as it was drawn, (replicates, items)."""
        weights = weights.masked_fill(weights.sum(1, keepdim=True) == 0, 1)  # nothing drawn: as it is
        judge = judge_of(self.metric, self.labels.numpy(), [guesses.numpy() for guesses in self.guesses])
        found = torch.from_numpy(judge(weights.T.double().numpy())).T
        return found if METRICS[self.metric].higher_is_better else -found


def predictions(evidence: Evidence, rows: Tensor, outputs: Tensor, classes: Tensor | None) -> Predictions:
    """What the outputs of all layers' probes amount to.

    Args:
        evidence: of all rows.
        rows: the held-out ones.
        outputs: (layers, rows, classes), the higher the more likely; for values to predict (layers, rows, 1).
        classes: the label of each output; None for values to predict.
    """
    if not bool(outputs.isfinite().all()):
        raise MeasureError("a probe diverged, its outputs are not finite; lower its learning rate")
    labels, groups = evidence.labels[rows], evidence.groups[rows]
    if evidence.kind == "multiple choice":
        labels, guesses, groups = _choices(labels, outputs[..., -1] - outputs[..., 0], groups)
    else:
        guesses = outputs[..., 0] if classes is None else classes[outputs.argmax(-1)]
    return Predictions(labels=labels, guesses=guesses, groups=groups, metric=evidence.metric)


def _choices(is_right: Tensor, preference: Tensor, questions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The right row of every question, the row that each layer prefers, the questions.

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


def estimate(trials: Sequence[Predictions], *, seed: int, uncertainty: bool = True) -> Estimate:
    """The metric of each layer, the mean over trials, and how it moves when held-out groups and trials are drawn again.

    A group is drawn equally often in all trials that held it out. The draw of trials covers what differs from fit to
    fit; it also repeats some of what the draw of groups covers, so that intervals are rather too wide than too short.
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
    """(replicates, number): how often each of a number of things comes when as many are drawn with replacement."""
    source = torch.Generator().manual_seed(seed)
    drawn = torch.randint(number, (replicates, number), generator=source)
    return torch.zeros(replicates, number, dtype=torch.long).scatter_add_(1, drawn, torch.ones_like(drawn))


def _judge(metric: str, labels: Tensor, guesses: Tensor) -> Tensor:
    judge = METRICS[metric]
    value = judge(labels.numpy(), guesses.numpy())
    return torch.tensor(value if judge.higher_is_better else -value, dtype=torch.float64)
