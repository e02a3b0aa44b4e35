"""Encoders and tasks as other records name them: by what identifies them, and by what people call them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Origin = Literal["hub", "folder", "demo", "memory"]


@dataclass(frozen=True, kw_only=True)
class EncoderRef:
    """An encoder that a trial starts from.

    Args:
        name: how results call it.
        revision: what identifies its weights.
    """

    name: str
    revision: str

    def to_json(self) -> dict[str, Any]:
        """The reference as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EncoderRef:
        """The reference that `to_json` wrote."""
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class TaskRef:
    """A task that a trial is about.

    Args:
        name: how results call it.
        fingerprint: what identifies its rows.
        metrics: what it is judged by; the first one decides, which epoch is kept too.
    """

    name: str
    fingerprint: str
    metrics: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The reference as plain JSON values."""
        return {**asdict(self), "metrics": list(self.metrics)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskRef:
        """The reference that `to_json` wrote; the first stores have the metrics in one word, with commas between."""
        metrics = data["metrics"]
        return cls(**{**data, "metrics": tuple(metrics.split(",") if isinstance(metrics, str) else metrics)})


@dataclass(frozen=True, kw_only=True)
class BaseEncoder:
    """The encoder that a model was tuned from, and where it can be loaded from again.

    Args:
        name: how results call it; on the hub, its id.
        revision: what identifies its weights; on the hub, the commit.
        layers: how many it has.
        origin: the hub, a folder, the embedded demo encoder, or memory: then it is in no files.
        folder: where its files were, or None.
        is_changed: whether its layers are not as they were loaded.
    """

    name: str
    revision: str
    layers: int
    origin: Origin
    folder: str | None = None
    is_changed: bool = False

    @property
    def can_be_loaded_again(self) -> bool:
        """Whether there are files with just these weights."""
        return self.origin != "memory" and not self.is_changed

    def to_json(self) -> dict[str, Any]:
        """The reference as plain JSON values."""
        return asdict(self)
