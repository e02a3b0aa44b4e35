"""A recipe: how a plan is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, isfinite
from typing import Literal

from frostline.errors import OptionError
from frostline.records._json import Number, Record


@dataclass(frozen=True, kw_only=True)
class Recipe(Record):
    """How a plan is trained; everything that the result depends on besides encoder, task and plan.

    Args:
        learning_rate: peak learning rate; None for the one that suits the plan.
        head_rate: peak learning rate of the head; None for that of the layers.
        layer_rates: factor on the learning rate of each of layers 1..L, above 0; None for the same rate everywhere.
        soup: factors on the learning rate: a model for each trains with its own order of rows, side by side from the
            same start, and the result is the mean of their weights; with the averaged schedule; None for one model.
        epochs: number of passes over the training rows.
        steps: number of steps, instead of epochs; None to count epochs.
        batch: rows per step.
        accumulate: gradient accumulation steps.
        schedule: learning rate after warm-up: linear decay to 0; constant; or 'averaged': constant, and the model is
            the average of the weights over the steps, recent ones with more weight, so that training can stop or
            continue at any step; or 'solved' for a head alone, whose last layer is fitted to the optimum at once.
        warmup: share of the steps over which the learning rate rises from 0; the averaged schedule has a fixed number.
        weight_decay: weight decay of AdamW, on everything but norms and biases.
        clip: gradient clipping norm; 0 disables clipping.
        dropout: dropout of layers and head; None for the encoder's own.
        frozen_dropout: whether frozen layers above the lowest tuned one keep their dropout.
        lower_dropout: whether frozen layers below the lowest tuned one, and frozen embeddings, have dropout in training
            too; their output is then computed at every step instead of once.
        head: the family's own head; a mean-pooled linear one; or 'average', the family's own on the mean of all tokens,
            for which the saved model has one more layer.
        max_length: number of tokens to which texts are truncated; None for the encoder's limit, at most 512.
        select: the epoch to keep: the best on validation, or the last.
        patience: number of evaluations without improvement before stopping, with the averaged schedule not before 160
            steps; None to never stop early.
        evaluate_every: steps between evaluations; None for once per epoch, and with the averaged schedule after 40, 80,
            160, 320 steps and so on.
        new_layer_rate: factor on the learning rate of re-initialised layers.
        precision: number format of training: float32, or bfloat16 for products on the CPU and for the forward pass on
            a GPU; None for float32, in runs for bfloat16 where the CPU has instructions for it.
        cache_dtype: number format of cached frozen states.
        train_rows: number of training rows to use, every class in proportion; None for all.
        rows: the labelled rows to train on: those for training, or 'all', validation rows included.
        threads: number of CPU threads.
        seed: random seed of the head, the order of rows and dropout.

    Example:
        >>> frostline.Recipe(epochs=2).batch
        32
    """

    left_out_at_default = ("head_rate", "layer_rates", "soup", "steps", "lower_dropout", "train_rows", "rows")

    learning_rate: Number | None = None
    head_rate: Number | None = None
    layer_rates: tuple[Number, ...] | None = None
    soup: tuple[Number, ...] | None = None
    epochs: int = 3
    steps: int | None = None
    batch: int = 32
    accumulate: int = 1
    schedule: Literal["linear", "constant", "averaged", "solved"] = "linear"
    warmup: Number = 0.06
    weight_decay: Number = 0.0
    clip: Number = 1.0
    dropout: Number | None = None
    frozen_dropout: bool = True
    lower_dropout: bool = False
    head: Literal["family", "mean", "average"] = "family"
    max_length: int | None = None
    select: Literal["best", "last"] = "best"
    patience: int | None = None
    evaluate_every: int | None = None
    new_layer_rate: Number = 1.0
    precision: Literal["float32", "bfloat16"] | None = None
    cache_dtype: Literal["float16", "float32"] = "float16"
    train_rows: int | None = None
    rows: Literal["train", "all"] = "train"
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
        for name in ("learning_rate", "head_rate"):
            if getattr(self, name) == 0:
                raise OptionError(f"recipe {name.replace('_', ' ')} 0: nothing would be learned; give a rate above 0")
        for layer, factor in enumerate(self.layer_rates or (), start=1):
            if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < inf:
                raise OptionError(f"recipe layer rates: {factor!r} at layer {layer}: must be a number above 0")
        for factor in self.soup or ():
            if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < inf:
                raise OptionError(f"recipe soup: {factor!r}: must be a number above 0")
        if self.soup is not None and (not self.soup or self.schedule != "averaged"):
            wrong = "gives no factor" if not self.soup else f"has the schedule {self.schedule!r}"
            raise OptionError(f"recipe soup: it {wrong}; give factors on the learning rate, and `schedule='averaged'`")
        for name in ("warmup", "dropout"):
            value = getattr(self, name)
            if value is not None and not value < 1:
                raise OptionError(f"recipe {name} {value!r}: must be below 1")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                known = ", ".join(choice for choice in choices if choice is not None)
                raise OptionError(f"recipe {name.replace('_', ' ')} {getattr(self, name)!r}: must be one of {known}")

    def in_words(self) -> str:
        """Return how long and how fast training was, in a few words."""
        if self.schedule == "solved":
            return "the head's last layer was fitted to its optimum"
        length = f"{self.epochs} epochs" if self.steps is None else f"{self.steps:,} steps"
        rate = (
            "the plan's usual learning rate" if self.learning_rate is None else f"learning rate {self.learning_rate:g}"
        )
        soup = "" if self.soup is None else f", the mean of the weights of {len(self.soup)} models"
        if self.soup is not None and set(self.soup) != {1}:
            soup += f" at {', '.join(f'{factor:g}' for factor in self.soup)} times this rate"
        return f"{rate}, {length}, batch {self.batch}{soup}"

    @property
    def can_go_on(self) -> bool:
        """Whether a longer run is a shorter one continued: its length changes nothing before its end."""
        return self.schedule == "averaged" and self.steps is not None

    def of_any_length(self) -> Recipe:
        """Return the recipe without its steps where longer runs continue shorter ones, else the recipe itself."""
        return replace(self, steps=None) if self.can_go_on else self

    def passes(self, steps_per_epoch: int) -> float:
        """Return the number of passes over the training rows."""
        return self.epochs if self.steps is None else self.steps / steps_per_epoch


# The smallest value of each number in a recipe; a field is a whole number if its smallest value is one.
_LEAST: dict[str, int | float] = {
    "learning_rate": 0.0,
    "head_rate": 0.0,
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
    "train_rows": 1,
    "threads": 1,
    "seed": 0,
}


_MAY_BE_NONE = {
    "learning_rate", "head_rate", "steps", "dropout", "max_length", "patience", "evaluate_every", "train_rows",
    "threads",
}  # fmt: skip


_CHOICES: dict[str, tuple[str | None, ...]] = {
    "schedule": ("linear", "constant", "averaged", "solved"),
    "head": ("family", "mean", "average"),
    "select": ("best", "last"),
    "precision": (None, "float32", "bfloat16"),
    "cache_dtype": ("float16", "float32"),
    "rows": ("train", "all"),
}

WARM_STEPS = 20  # of the averaged schedule, which does not know its length


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Return the share of the highest learning rate at a step: it rises in warm-up, then falls or stays."""
    if recipe.schedule == "averaged":
        return min(1.0, (step + 1) / WARM_STEPS)
    warm = ceil(recipe.warmup * steps)
    if step < warm:
        return step / warm
    return 1.0 if recipe.schedule == "constant" else max(0.0, (steps - step) / max(1, steps - warm))
