"""What a plan costs."""

from __future__ import annotations

from dataclasses import dataclass

from frostline.records._json import Record


@dataclass(frozen=True, kw_only=True)
class Cost(Record):
    """What a plan costs.

    Args:
        total: parameters that are kept, the head included.
        trainable: parameters that train.
        stored: numbers in the saved model; where it needs Frostline, only what trained is saved.
        stock: whether transformers alone can load it.
        layers: layers that are kept.
        forward_per_token: operations of a training step's forward pass per token, from the frozen states on.
        backward_per_token: operations of its backward pass per token.
        frozen_flops: operations of computing the frozen states once.
        epoch_flops: operations of an epoch with the cache.
        epoch_flops_uncached: operations of an epoch in which frozen states are computed again.
        steps: steps of an epoch.
        epochs: how many there are.
        cache: bytes of frozen states on disk.
        memory: bytes of memory at most, over what the program takes after its start.
        latency: time of a prediction, as a share of the whole encoder's.
        seconds: of tuning and judging it all, or None where the machine's speed is not known.
        low: the least that is likely.
        high: the most that is likely.
    """

    total: int
    trainable: int
    stored: int
    stock: bool
    layers: int
    forward_per_token: float
    backward_per_token: float
    frozen_flops: float
    epoch_flops: float
    epoch_flops_uncached: float
    steps: int
    epochs: float
    cache: int
    memory: int
    latency: float
    seconds: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def price(self) -> float:
        """What plans are ranked by: the arithmetic of tuning them, frozen states and all epochs.

        Seconds would do, but differ from one timing to the next, and a race should not.
        """
        return self.frozen_flops + self.epochs * self.epoch_flops

    @property
    def size(self) -> int:
        """Numbers that a prediction needs: of a model that is no stock one, the encoder's own too."""
        return self.stored if self.stock else self.total
