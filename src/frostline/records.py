"""What passes between the steps: frozen records without tensors, each to and from plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from frostline.errors import OptionError

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which layers train and where the head reads; everything above the head is dropped."""

    layers: tuple[int, ...]  # the layers that train, ascending; 1 is the lowest
    head: int
    embeddings: bool = False  # whether they train too; only full fine-tuning does that
    because: str = ""

    def __post_init__(self) -> None:
        if list(self.layers) != sorted(set(self.layers)) or any(layer < 1 for layer in self.layers):
            raise OptionError(f"plan layers {list(self.layers)}: must be different numbers from 1, ascending")
        top = self.layers[-1] if self.layers else 0
        if self.head < top:
            raise OptionError(f"plan head {self.head}: must not lie below layer {top}, the top one that trains")

    @classmethod
    def span(cls, bottom: int, top: int, head: int, *, embeddings: bool = False, because: str = "") -> Plan:
        """The plan (bottom, top, head): layers bottom..top train, the head reads at head."""
        return cls(layers=tuple(range(bottom, top + 1)), head=head, embeddings=embeddings, because=because)

    @classmethod
    def full(cls, depth: int) -> Plan:
        """Full fine-tuning: every layer and the embeddings."""
        return cls.span(1, depth, depth, embeddings=True, because="full fine-tuning")

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "layers": list(self.layers),
            "head": self.head,
            "embeddings": self.embeddings,
            "because": self.because,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` wrote."""
        return cls(**{**data, "layers": tuple(data["layers"])})

    def __str__(self) -> str:
        if self.layers and len(self.layers) == self.layers[-1] - self.layers[0] + 1:
            return f"({self.layers[0]}, {self.layers[-1]}, {self.head})"
        return f"(layers {'+'.join(map(str, self.layers)) or 'none'}, head {self.head})"


@dataclass(frozen=True, kw_only=True)
class LayerScore:
    """One layer score over layers 0..L."""

    name: str
    better: Literal["low", "high"]
    values: tuple[float | None, ...]  # None where the score is undefined
    summary: str = ""  # what the score says, in one line

    def __post_init__(self) -> None:
        if any(value is not None and not isfinite(value) for value in self.values):
            raise ValueError(f"layer score {self.name!r}: not finite; undefined values are None")

    @property
    def best(self) -> int | None:
        """The best of layers 1..L (the lowest of equal ones), or None where the score is undefined everywhere."""
        defined = [(value, layer) for layer, value in enumerate(self.values) if layer and value is not None]
        if not defined:
            return None
        sign = 1 if self.better == "low" else -1
        return min(defined, key=lambda pair: (sign * pair[0], pair[1]))[1]

    def to_json(self) -> dict[str, Any]:
        """The score as plain JSON values."""
        return {
            "better": self.better,
            "values": list(self.values),
            "best": self.best,
            "summary": self.summary,
        }


@dataclass(frozen=True, kw_only=True)
class LayerScores:
    """What was measured for one encoder and one task."""

    encoder: str
    revision: str
    family: str
    depth: int
    width: int
    task: str
    fingerprint: str
    kind: str
    labels: tuple[str, ...]
    metric: str
    pooling: str
    examples: int
    max_length: int
    truncated: int
    seed: int
    scores: Mapping[str, LayerScore]
    seconds: float = 0.0
    notes: Sequence[str] = field(default_factory=tuple)

    def __getitem__(self, name: str) -> LayerScore:
        return self.scores[name]

    def to_json(self) -> dict[str, Any]:
        """The measurement as plain JSON values; `scores.NAME.values` runs over layers 0..L."""
        return {
            "kind": "measurement",
            "format": FORMAT_VERSION,
            "encoder": {
                "name": self.encoder,
                "revision": self.revision,
                "family": self.family,
                "layers": self.depth,
                "width": self.width,
            },
            "task": {
                "name": self.task,
                "fingerprint": self.fingerprint,
                "kind": self.kind,
                "labels": list(self.labels),
                "metric": self.metric,
            },
            "pooling": self.pooling,
            "examples": self.examples,
            "max_length": self.max_length,
            "truncated": self.truncated,
            "seed": self.seed,
            "scores": {name: score.to_json() for name, score in self.scores.items()},
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LayerScores:
        """The measurement that `to_json` wrote."""
        encoder, task = data["encoder"], data["task"]
        return cls(
            encoder=encoder["name"],
            revision=encoder["revision"],
            family=encoder["family"],
            depth=encoder["layers"],
            width=encoder["width"],
            task=task["name"],
            fingerprint=task["fingerprint"],
            kind=task["kind"],
            labels=tuple(task["labels"]),
            metric=task["metric"],
            pooling=data["pooling"],
            examples=data["examples"],
            max_length=data["max_length"],
            truncated=data["truncated"],
            seed=data["seed"],
            scores={
                name: LayerScore(
                    name=name, better=score["better"], values=tuple(score["values"]), summary=score["summary"]
                )
                for name, score in data["scores"].items()
            },
            seconds=data["seconds"],
            notes=tuple(data["notes"]),
        )
