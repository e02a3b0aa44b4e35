"""Layer scores: one number per layer for a task, with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

from frostline.errors import OptionError
from frostline.records._plain import plain
from frostline.records._version import FORMAT_VERSION
from frostline.records.display import Displayed


@dataclass(frozen=True, kw_only=True)
class LayerScore:
    """One layer score over layers 0..L, with its uncertainty; None stands wherever something is undefined."""

    name: str
    better: Literal["low", "high"]
    values: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None  # 95% interval
    high: tuple[float | None, ...] | None = None
    uncertainty: str = "none"  # how the interval was found
    probability: tuple[float, ...] | None = None  # that the layer is the best of 1..L
    tied: tuple[int, ...] = ()  # the layers that cannot be told apart from the best one, it included
    smoothness: Mapping[str, float] | None = None
    nulls: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)  # what chance gives
    summary: str = ""  # what the score says, in one line
    paper: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for values in (self.values, self.low or (), self.high or ()):
            if any(value is not None and not isfinite(value) for value in values):
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
        data = asdict(self)
        del data["name"]
        data |= {"best": self.best, "seconds": round(self.seconds, 3)}
        return {key: plain(value) for key, value in data.items()}

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> LayerScore:
        """The score that `to_json` wrote."""
        known = {key: value for key, value in data.items() if key != "best"}
        for key in ("values", "low", "high", "probability", "tied"):
            known[key] = None if known[key] is None else tuple(known[key])
        known["nulls"] = {null: tuple(values) for null, values in data["nulls"].items()}
        return cls(name=name, **known)


@dataclass(frozen=True, kw_only=True)
class LayerScores(Displayed):
    """What was measured for one encoder and one task."""

    encoder: Mapping[str, Any]  # name, revision, family, layers, width
    task: Mapping[str, Any]  # name, fingerprint, kind, labels, metric
    pooling: str
    rows: str  # the split that was measured
    examples: int
    max_length: int
    truncated: int
    seed: int
    scores: Mapping[str, LayerScore]
    similarity: Mapping[str, tuple[tuple[float | None, ...], ...]] = field(default_factory=dict)
    agreement: tuple[Mapping[str, Any], ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)  # why scores could not be had, by name
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> LayerScore:
        if name not in self.scores:
            raise OptionError(f"layer score {name!r} was not measured; measured: {', '.join(self.scores)}")
        return self.scores[name]

    @property
    def depth(self) -> int:
        """The number of layers."""
        return int(self.encoder["layers"])

    def to_json(self) -> dict[str, Any]:
        """The measurement as plain JSON values; `scores.NAME.values` runs over layers 0..L."""
        data = {key: plain(getattr(self, key)) for key in self.__dataclass_fields__ if key != "scores"}
        scores = {name: score.to_json() for name, score in self.scores.items()}
        return {"kind": "measurement", "format": FORMAT_VERSION, **data, "scores": scores}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LayerScores:
        """The measurement that `to_json` wrote."""
        data = {"left_out": {}, **data}  # measurements were written without it at first
        known = {key: data[key] for key in cls.__dataclass_fields__}
        known["scores"] = {name: LayerScore.from_json(name, score) for name, score in data["scores"].items()}
        known["similarity"] = {
            pooling: tuple(tuple(row) for row in matrix) for pooling, matrix in data["similarity"].items()
        }
        known["agreement"], known["notes"] = tuple(data["agreement"]), tuple(data["notes"])
        return cls(**known)
