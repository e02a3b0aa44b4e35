"""Layer scores: one number per layer for a task, one file each.

A score is a function of the pooled states of all layers and the labels; the decorator registers it under its own name
with what a reader has to know: whether low or high is better, and which paper it is from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from frostline.registry import Registry

ScoreFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A registered layer score."""

    name: str
    better: Literal["low", "high"]
    paper: int
    compute: ScoreFunction

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.compute.__doc__ or "").strip().splitlines()[0]


LAYER_SCORES: Registry[Score] = Registry("layer score", package=__name__)


def layer_score(*, better: Literal["low", "high"], paper: int) -> Callable[[ScoreFunction], ScoreFunction]:
    """Register the function below as a layer score.

    It takes states (layers, texts, width) and integer labels (texts,), and returns (layers,) in float64 with NaN where
    the score is undefined. The first line of its docstring is printed wherever the score is explained.
    """

    def register(function: ScoreFunction) -> ScoreFunction:
        if not (function.__doc__ or "").strip():
            raise ValueError(f"layer score {function.__name__!r} has no docstring to explain it")
        score = Score(name=function.__name__, better=better, paper=paper, compute=function)
        LAYER_SCORES.add(score.name, score)
        return function

    return register
