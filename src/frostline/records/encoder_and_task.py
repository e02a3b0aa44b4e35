"""Encoders and tasks as other records name them: by what identifies them, and by what people call them."""

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
        name: how results call it.
        revision: what identifies its weights.
    """

    name: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class TunedEncoder(EncoderRef):
    """An encoder that a model was tuned from, as the model's result names it.

    Args:
        name: how results call it.
        revision: what identifies its weights.
        layers: how many it has.
    """

    layers: int


@dataclass(frozen=True, kw_only=True)
class MeasuredEncoder(TunedEncoder):
    """An encoder whose layers were measured.

    Args:
        name: how results call it.
        revision: what identifies its weights.
        layers: how many it has.
        family: its architecture.
        width: of its hidden states.
    """

    family: str
    width: int


@dataclass(frozen=True, kw_only=True)
class BaseEncoder(TunedEncoder):
    """The encoder that a model was tuned from, and where it can be loaded from again.

    Args:
        name: how results call it; on the hub, its id.
        revision: what identifies its weights; on the hub, the commit.
        layers: how many it has.
        origin: the hub, a folder, the embedded demo encoder, or memory: then it is in no files.
        folder: where its files were, or None.
        is_changed: whether its layers are not as they were loaded.
    """

    origin: Origin
    folder: str | None = None
    is_changed: bool = False

    @property
    def can_be_loaded_again(self) -> bool:
        """Whether there are files with just these weights."""
        return self.origin != "memory" and not self.is_changed


@dataclass(frozen=True, kw_only=True)
class TaskRef(Record):
    """A task that a trial is about.

    Args:
        name: how results call it.
        fingerprint: what identifies its rows.
        metrics: what it is judged by; the first one decides, which epoch is kept too.
    """

    name: str
    fingerprint: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TunedTask(TaskRef):
    """A task that a model was tuned for.

    Args:
        name: how results call it.
        fingerprint: what identifies its rows.
        metrics: what it is judged by; the first one decides.
        kind: what is predicted.
        labels: the names of the classes, in the order of their numbers; none for regression.
        pairs: whether its rows are pairs of texts.
    """

    kind: TaskKind
    labels: tuple[str, ...]
    pairs: bool


@dataclass(frozen=True, kw_only=True)
class MeasuredTask(Record):
    """A task that layers were measured on.

    Args:
        name: how results call it.
        fingerprint: what identifies its rows.
        kind: what is predicted.
        labels: the names of the classes, in the order of their numbers; none for regression.
        metric: what models are judged by.
    """

    name: str
    fingerprint: str
    kind: TaskKind
    labels: tuple[str, ...]
    metric: str
