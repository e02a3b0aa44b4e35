"""Layer scores: one number per layer for a task, with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from frostline.errors import OptionError
from frostline.records._json import FORMAT_VERSION, Record
from frostline.records.display import Displayed
from frostline.records.encoder_and_task import MeasuredEncoder, MeasuredTask


@dataclass(frozen=True, kw_only=True)
class Smoothness(Record):
    """How much a score jumps from layer to layer; a trustworthy curve is smooth (Xie et al. 2022, section 4.4).

    Args:
        zeta: sum of squared second differences of the normalised values of layers 1..L.
        per_layer: zeta / (L - 2), for comparing encoders of different depth.
    """

    zeta: float
    per_layer: float


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """The correlation of a score with a probe over layers 1..L, as in table 1 and figure 11 of Xie et al. 2022.

    Args:
        score: the layer score.
        probe: the probe that it is compared with.
        layers: number of layers at which both are defined.
        pearson: correlation of the values.
        pearson_p: its p-value.
        spearman: correlation of the ranks.
        spearman_p: its p-value.
        slope: slope of the regression of the probe on the score.
        r_squared: R squared of that regression.
    """

    score: str
    probe: str
    layers: int
    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float
    slope: float
    r_squared: float


@dataclass(frozen=True, kw_only=True)
class LayerScore(Record):
    """One layer score over layers 0..L, with its uncertainty; undefined values are None.

    Args:
        name: name of the score.
        better: whether low or high values are good.
        values: the score of each layer; layer 0 is the embeddings.
        low: lower ends of the 95% intervals.
        high: their upper ends.
        uncertainty: how the intervals were computed.
        probability: for each of layers 1..L, the probability that it is the best.
        tied: the layers that cannot be told apart from the best one, including it.
        smoothness: how much the values jump from layer to layer.
        nulls: chance levels of the layers, by kind of chance.
        summary: the meaning of the score, in one line.
        paper: the paper that it is from.
        seconds: time of computing it.
        best: the best of layers 1..L (the lowest of equal ones), or None if the score is undefined everywhere;
            always computed from the values.
    """

    name: str
    better: Literal["low", "high"]
    values: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None
    uncertainty: str = "none"
    probability: tuple[float, ...] | None = None
    tied: tuple[int, ...] = ()
    smoothness: Smoothness | None = None
    nulls: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    summary: str = ""
    paper: str = ""
    seconds: float = 0.0
    best: int | None = None

    def __post_init__(self) -> None:
        for values in (self.values, self.low or (), self.high or ()):
            if any(value is not None and not isfinite(value) for value in values):
                raise ValueError(f"layer score {self.name!r}: not finite; undefined values are None")
        sign = 1 if self.better == "low" else -1
        defined = [(sign * value, layer) for layer, value in enumerate(self.values) if layer and value is not None]
        object.__setattr__(self, "best", min(defined)[1] if defined else None)


@dataclass(frozen=True, kw_only=True)
class LayerScores(Record, Displayed):
    """All layer scores of one encoder for one task.

    Args:
        kind: kind of file.
        format: version of the file format.
        encoder: the measured encoder.
        task: the task that it was measured for.
        pooling: how the tokens of a text become one vector.
        rows: the split that was measured.
        judged_on: the split on which probes were judged; None for a part of the measured rows.
        chosen_on: the split on which probes chose their epoch; None for a part of the measured rows.
        examples: number of texts.
        max_length: number of tokens to which texts were truncated.
        truncated: number of texts that were truncated.
        seed: random seed.
        scores: the scores by name.
        similarity: similarity of all pairs of layers, by pooling.
        agreement: correlation of every score with every probe.
        left_out: reasons why scores could not be computed, by name.
        notes: remarks for the reader, one sentence each.
        seconds: time of computing states and scores.

    Example:
        >>> scores = frostline.measure(task="reviews.csv", scores=["change"])
        >>> scores["change"].best in range(1, 7)
        True
    """

    kind: Literal["measurement"] = "measurement"
    format: Literal[1] = FORMAT_VERSION
    encoder: MeasuredEncoder
    task: MeasuredTask
    pooling: str
    rows: str
    examples: int
    max_length: int
    truncated: int
    seed: int
    scores: Mapping[str, LayerScore]
    similarity: Mapping[str, tuple[tuple[float | None, ...], ...]] = field(default_factory=dict)
    agreement: tuple[Agreement, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    judged_on: str | None = None
    chosen_on: str | None = None

    def __getitem__(self, name: str) -> LayerScore:
        if name not in self.scores:
            raise OptionError(f"layer score {name!r} was not measured; measured: {', '.join(self.scores)}")
        return self.scores[name]

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.encoder.layers

    @classmethod
    def upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON with the names of the scores, which the first version had only as keys."""
        return {**data, "scores": {name: {"name": name, **score} for name, score in data["scores"].items()}}
