"""What passes between the steps: frozen records without tensors, each to and from plain JSON values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

from frostline.errors import OptionError

FORMAT_VERSION = 1
DISK_IS_FULL = "the disk is full"  # the reason of a trial that could not be run for that


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which layers train and how, and where the head reads; everything above the head is dropped."""

    layers: tuple[int, ...]  # the layers that train, ascending; 1 is the lowest; none: only the head trains
    head: int
    embeddings: bool = False  # whether they train too; only full fine-tuning does that
    method: str = "full"  # how the layers train
    options: Mapping[str, int | float | str] = field(default_factory=dict)  # of the method
    because: str = ""

    def __post_init__(self) -> None:
        for layer in (*self.layers, self.head):
            if not isinstance(layer, int) or isinstance(layer, bool):
                raise OptionError(f"plan layer {layer!r}: must be a whole number")
        if list(self.layers) != sorted(set(self.layers)) or any(layer < 1 for layer in self.layers):
            raise OptionError(f"plan layers {list(self.layers)}: must be different numbers from 1, ascending")
        if self.head < 1:
            raise OptionError(f"plan head {self.head}: must be 1 or more")
        top = self.layers[-1] if self.layers else 0
        if self.head < top:
            raise OptionError(f"plan head {self.head}: must not lie below layer {top}, the top one that trains")
        if self.embeddings and self.layers != tuple(range(1, self.head + 1)):
            raise OptionError(f"plan {self}: embeddings train only together with all layers up to the head")
        if self.embeddings and self.method != "full":
            raise OptionError(f"plan {self}: the method {self.method} never trains embeddings")

    @classmethod
    def span(cls, bottom: int, top: int, head: int, *, embeddings: bool = False, because: str = "") -> Plan:
        """The plan (bottom, top, head): layers bottom..top train, the head reads at head."""
        if bottom > top:
            raise OptionError(f"plan ({bottom}, {top}, {head}): the bottom layer lies above the top one")
        return cls(layers=tuple(range(bottom, top + 1)), head=head, embeddings=embeddings, because=because)

    @classmethod
    def whole_or_span(cls, bottom: int, top: int, head: int, *, depth: int, because: str = "") -> Plan:
        """The plan (bottom, top, head); where that is all layers of the encoder, full fine-tuning, as in the papers."""
        is_whole = (bottom, top, head) == (1, depth, depth)
        return cls.span(bottom, top, head, embeddings=is_whole, because=because)

    @classmethod
    def full(cls, depth: int) -> Plan:
        """Full fine-tuning: every layer and the embeddings."""
        return cls.span(1, depth, depth, embeddings=True, because="full fine-tuning")

    @property
    def lowest(self) -> int:
        """The lowest layer that has to run in training: what lies below never changes; 0 for the embeddings."""
        if self.embeddings:
            return 0
        return self.layers[0] if self.layers else self.head + 1

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "layers": list(self.layers),
            "head": self.head,
            "embeddings": self.embeddings,
            "method": self.method,
            "options": dict(self.options),
            "because": self.because,
        }

    def identity(self) -> dict[str, Any]:
        """The same without the reason: equal for plans that do the same."""
        return {**self.to_json(), "because": ""}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` wrote."""
        return cls(**{**data, "layers": tuple(data["layers"])})

    def __str__(self) -> str:
        if self.layers and len(self.layers) == self.layers[-1] - self.layers[0] + 1:
            return f"({self.layers[0]}, {self.layers[-1]}, {self.head})"
        return f"(layers {'+'.join(map(str, self.layers)) or 'none'}, head {self.head})"

    def _repr_html_(self) -> str:
        from frostline.notebook import plan_html

        return plan_html(self)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a plan is trained; everything that the result depends on besides encoder, task and plan.

    Args:
        learning_rate: the highest one; None takes the method's own.
        epochs: passes over the training rows.
        steps: how many there are, in place of epochs; rows are gone through as often as it takes. None for epochs.
        batch: rows per step.
        accumulate: batches whose gradients are added up before a step.
        schedule: how the rate falls after warm-up: linear to 0, or constant.
        warmup: share of the steps over which the rate rises from 0.
        weight_decay: of AdamW, on everything but norms and biases.
        clip: longest gradient that is not shortened; 0 never shortens.
        dropout: of layers and head; None keeps the encoder's own.
        frozen_dropout: whether frozen layers above the lowest tuned one keep their dropout.
        head: the family's own, or a mean-pooled linear one.
        max_length: cut texts at this many tokens; None for the encoder's own limit, 512 at most.
        select: keep the epoch that is best on validation, or the last one.
        patience: stop after so many evaluations without improvement; None never stops early.
        evaluate_every: steps between evaluations; None once an epoch.
        new_layer_rate: how many times higher the rate of re-initialised layers is.
        precision: number format of the forward pass.
        cache_dtype: number format in which frozen states are kept.
        threads: CPU threads.
        seed: of the head, the order of rows and dropout.
    """

    learning_rate: float | None = None
    epochs: int = 3
    steps: int | None = None
    batch: int = 32
    accumulate: int = 1
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = 0.06
    weight_decay: float = 0.0
    clip: float = 1.0
    dropout: float | None = None
    frozen_dropout: bool = True
    head: Literal["family", "mean"] = "family"
    max_length: int | None = None
    select: Literal["best", "last"] = "best"
    patience: int | None = None
    evaluate_every: int | None = None
    new_layer_rate: float = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    cache_dtype: Literal["float16", "float32"] = "float16"
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            whole = isinstance(least, int)
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value >= least:
                kind = "a whole number" if whole else "a number"
                raise OptionError(f"recipe {name.replace('_', ' ')} {value!r}: must be {kind}, {least:g} or more")
            if not isfinite(value):
                raise OptionError(f"recipe {name.replace('_', ' ')} {value!r}: must be finite")
        if self.learning_rate == 0:
            raise OptionError("recipe learning rate 0: nothing would be learnt; give one above 0")
        for name in ("warmup", "dropout"):
            value = getattr(self, name)
            if value is not None and not value < 1:
                raise OptionError(f"recipe {name} {value!r}: must be below 1")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise OptionError(
                    f"recipe {name.replace('_', ' ')} {getattr(self, name)!r}: must be one of {', '.join(choices)}"
                )

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain JSON values; a number of steps only where there is one, as it came later."""
        data = asdict(self)
        if self.steps is None:
            del data["steps"]
        return data

    def passes(self, steps_per_epoch: int) -> float:
        """How often training goes through the rows."""
        return self.epochs if self.steps is None else self.steps / steps_per_epoch

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Recipe:
        """The recipe that `to_json` wrote."""
        return cls(**data)


# The least value of each number in a recipe; a whole number where the least is one.
_LEAST: dict[str, int | float] = {
    "learning_rate": 0.0,
    "epochs": 1,
    "steps": 1,
    "batch": 1,
    "accumulate": 1,
    "warmup": 0.0,
    "weight_decay": 0.0,
    "clip": 0.0,
    "dropout": 0.0,
    "max_length": 1,
    "patience": 1,
    "evaluate_every": 1,
    "new_layer_rate": 0.0,
    "threads": 1,
    "seed": 0,
}
_MAY_BE_NONE = {"learning_rate", "steps", "dropout", "max_length", "patience", "evaluate_every", "threads"}
_CHOICES = {
    "schedule": ("linear", "constant"),
    "head": ("family", "mean"),
    "select": ("best", "last"),
    "precision": ("float32", "bfloat16"),
    "cache_dtype": ("float16", "float32"),
}


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """One trial: everything that its result depends on.

    Args:
        encoder: name and revision.
        task: name, fingerprint and metrics: these choose the epoch that is kept, and are what is recorded.
        plan: what trains.
        recipe: how, with threads and seed.
        train_rows: how many training rows are learnt from; None for all.
        kind: what is done: 'tune', or what a study has defined.
        surgery: changes to the layers before that, see `surgery.operate`.
        options: of the kind.
    """

    encoder: Mapping[str, str]
    task: Mapping[str, str]
    plan: Plan
    recipe: Recipe
    train_rows: int | None = None
    kind: str = "tune"
    surgery: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """A hash of all that the result depends on; names and reasons are left out."""
        more = {"kind": self.kind, "surgery": _plain(self.surgery), "options": _plain(self.options)}
        said = [
            self.encoder["revision"],
            self.task["fingerprint"],
            self.task["metrics"],
            self.plan.identity(),
            self.recipe.to_json(),
            self.train_rows,
            # Plain tuning keeps the ids that it had when trials were nothing else.
            *([] if more == {"kind": "tune", "surgery": {}, "options": {}} else [more]),
        ]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The specification as plain JSON values."""
        return {
            "encoder": dict(self.encoder),
            "task": dict(self.task),
            "plan": self.plan.to_json(),
            "recipe": self.recipe.to_json(),
            "train_rows": self.train_rows,
            "kind": self.kind,
            "surgery": _plain(self.surgery),
            "options": _plain(self.options),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrialSpec:
        """The specification that `to_json` wrote."""
        made = {**data, "plan": Plan.from_json(data["plan"]), "recipe": Recipe.from_json(data["recipe"])}
        return cls(**made)


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """What came out of a trial.

    Args:
        status: done, or failed.
        reason: why it failed, in a line.
        metrics: by split, those of the epoch that was kept.
        history: one record per evaluation.
        predictions: by split, for every row the class number, the choice's number or the value.
        values: what else came out, by name, as plain JSON values: curves, matrices, scores.
        parameters: total and trainable.
        seconds: of frozen states, training and judging.
        versions: of what it ran with.
    """

    status: Literal["done", "failed"]
    reason: str = ""
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    predictions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {key: _plain(getattr(self, key)) for key in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrialResult:
        """The result that `to_json` wrote."""
        predictions = {split: tuple(values) for split, values in data["predictions"].items()}
        return cls(**{**data, "history": tuple(data["history"]), "predictions": predictions})


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
        return {key: _plain(value) for key, value in data.items()}

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> LayerScore:
        """The score that `to_json` wrote."""
        known = {key: value for key, value in data.items() if key != "best"}
        for key in ("values", "low", "high", "probability", "tied"):
            known[key] = None if known[key] is None else tuple(known[key])
        known["nulls"] = {null: tuple(values) for null, values in data["nulls"].items()}
        return cls(name=name, **known)


@dataclass(frozen=True, kw_only=True)
class LayerScores:
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

    def _repr_html_(self) -> str:
        from frostline.notebook import scores_html

        return scores_html(self)

    def to_json(self) -> dict[str, Any]:
        """The measurement as plain JSON values; `scores.NAME.values` runs over layers 0..L."""
        data = {key: _plain(getattr(self, key)) for key in self.__dataclass_fields__ if key != "scores"}
        scores = {name: score.to_json() for name, score in self.scores.items()}
        return {"kind": "measurement", "format": FORMAT_VERSION, **data, "scores": scores}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LayerScores:
        """The measurement that `to_json` wrote."""
        known = {key: data[key] for key in cls.__dataclass_fields__}
        known["scores"] = {name: LayerScore.from_json(name, score) for name, score in data["scores"].items()}
        known["similarity"] = {
            pooling: tuple(tuple(row) for row in matrix) for pooling, matrix in data["similarity"].items()
        }
        known["agreement"], known["notes"] = tuple(data["agreement"]), tuple(data["notes"])
        return cls(**known)


def _plain(value: Any) -> Any:
    """The value with lists for tuples and plain dicts for mappings: what JSON gives back."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value
