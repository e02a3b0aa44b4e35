"""The average of a model's weights over training steps, for schedules that can stop or continue at any step.

At a constant learning rate, single weights are noisy; their average is about as good as the end of a decaying schedule,
and needs no length fixed in advance. Recent steps count more: the weight of a step grows with a power of its number
(polynomial-decay averaging, Shamir and Zhang 2013), so that the beginning is forgotten however long training is. The
average of a soup is also over its members.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

POWER = 3  # of a step's number; half of the weight lies on the last 16% of the steps


class Average:
    """The running average of the parameters of a model, or of several that train side by side."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        """Start with the parameters as they are; they are read again at every step."""
        self._own = dict(parameters)
        self.weights = {name: value.detach().clone() for name, value in self._own.items()}

    def add(self, step: int, members: Sequence[Mapping[str, Tensor]]) -> None:
        """Add the parameters of every member after this step, counted from 0."""
        share = (POWER + 1) / (step + 1 + POWER)
        with torch.no_grad():
            for name, value in self.weights.items():
                first, *others = (member[name].detach() for member in members)
                value.lerp_(sum(others, first) / len(members) if others else first, share)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Continue from an average that was stored."""
        for name, value in weights.items():
            self.weights[name].copy_(value)

    @contextlib.contextmanager
    def in_model(self) -> Iterator[None]:
        """Put the average into the model within the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        with torch.no_grad():
            for name, value in self._own.items():
                latest = value.detach().clone()
                value.copy_(self.weights[name])
                self.weights[name].copy_(latest)
