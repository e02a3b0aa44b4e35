"""The cost of a plan: parameters, FLOPs, memory, latency and seconds."""

from __future__ import annotations

from dataclasses import dataclass

from frostline.records._json import Record


@dataclass(frozen=True, kw_only=True)
class Cost(Record):
    """The cost of a plan.

    Args:
        total: number of parameters that are kept, including the head.
        trainable: number of parameters that train.
        stored: number of values in the saved model; if it needs Frostline, only the trained ones are saved.
        stock: whether transformers alone can load the model.
        layers: number of layers that are kept.
        forward_per_token: FLOPs per token of a training step's forward pass, starting from the frozen states.
        backward_per_token: FLOPs per token of its backward pass.
        frozen_flops: FLOPs of computing the frozen states once.
        epoch_flops: FLOPs of an epoch with cached states.
        epoch_flops_uncached: FLOPs of an epoch that computes the frozen states again.
        steps: number of steps per epoch.
        epochs: number of epochs.
        cache: bytes of the frozen states on disk.
        memory: peak memory in bytes, beyond what the program needs after its start.
        latency: latency of a prediction, as a share of the whole encoder's.
        seconds: estimated time of tuning and evaluating; None if the machine's speed was not measured.
        low: lower bound of the seconds.
        high: upper bound of the seconds.
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
        """The FLOPs of tuning, by which plans are ranked: frozen states and all epochs.

        Seconds differ from one timing to the next, and the result of a race must not depend on that.
        """
        return self.frozen_flops + self.epochs * self.epoch_flops

    @property
    def size(self) -> int:
        """The number of values that a prediction needs, also those of the encoder that are not in the saved model."""
        return self.stored if self.stock else self.total
