"""References to encoders and tasks in other records: their names, and what identifies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from frostline.records._json import Record

Origin = Literal["hub", "folder", "demo", "memory"]
TaskKind = Literal["classification", "regression", "multiple choice"]


@dataclass(frozen=True, kw_only=True)
class EncoderRef(Record):
    """An encoder that a trial starts from.

    Args:
        name: name in results.
        revision: identifier of its weights.
    """

    name: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class TunedEncoder(EncoderRef):
    """The encoder that a model was tuned from, as in the model's result.

    Args:
        name: name in results.
        revision: identifier of its weights.
        layers: number of layers.
    """

    layers: int


@dataclass(frozen=True, kw_only=True)
class MeasuredEncoder(TunedEncoder):
    """An encoder whose layers were measured.

    Args:
        name: name in results.
        revision: identifier of its weights.
        layers: number of layers.
        family: architecture family.
        width: width of its hidden states.
    """

    family: str
    width: int


@dataclass(frozen=True, kw_only=True)
class BaseEncoder(TunedEncoder):
    """The encoder that a model was tuned from, and where it can be loaded from again.

    Args:
        name: name in results; on the hub, the model id.
        revision: identifier of its weights; on the hub, the commit.
        layers: number of layers.
        origin: the hub, a folder, the embedded demo encoder, or memory (not in any file).
        folder: folder of its files, or None.
        is_changed: whether its layers were changed after loading.
    """

    origin: Origin
    folder: str | None = None
    is_changed: bool = False

    @property
    def can_be_loaded_again(self) -> bool:
        """Whether there are files with exactly these weights."""
        return self.origin != "memory" and not self.is_changed


@dataclass(frozen=True, kw_only=True)
class TaskRef(Record):
    """A task that a trial is about.

    Args:
        name: name in results.
        fingerprint: hash of its rows.
        metrics: task metrics; the first one decides, also which epoch is kept.
    """

    name: str
    fingerprint: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TunedTask(TaskRef):
    """A task that a model was tuned for.

    Args:
        name: name in results.
        fingerprint: hash of its rows.
        metrics: task metrics; the first one decides.
        kind: kind of task.
        labels: class names in the order of the class numbers; empty for regression.
        pairs: whether its rows are pairs of texts.
    """

    kind: TaskKind
    labels: tuple[str, ...]
    pairs: bool


@dataclass(frozen=True, kw_only=True)
class MeasuredTask(Record):
    """A task that layers were measured on.

    Args:
        name: name in results.
        fingerprint: hash of its rows.
        kind: kind of task.
        labels: class names in the order of the class numbers; empty for regression.
        metric: the deciding task metric.
    """

    name: str
    fingerprint: str
    kind: TaskKind
    labels: tuple[str, ...]
    metric: str
