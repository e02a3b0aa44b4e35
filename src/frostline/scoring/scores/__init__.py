"""Layer scores: one number per layer for a task, one file each.

Most scores are a function of the pooled states of all layers and the labels; their uncertainty comes from leaving out
one block of texts after the other. Scores that fit something take the whole `Evidence` and return an `Estimate` with
their own uncertainty. Either way the decorator registers them with a summary for the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, TypeVar

from torch import Tensor

from frostline.registry import Registry, describe
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.uncertainty import Estimate, jackknife
from frostline.states.moments import ClassMoments
from frostline.states.pooled import Pooling

Better = Literal["low", "high"]
Needs = Literal["nothing", "labels", "classes"]
FittedFunction = Callable[..., Estimate]  # (Evidence, *, uncertainty: bool)
F = TypeVar("F", bound=Callable[..., Any])
MomentsFunction = Callable[[ClassMoments], Tensor]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A registered layer score.

    Args:
        name: name in the registry and on the command line.
        better: whether low or high values are better.
        paper: author and year of its paper, or another source.
        needs: classes, any labels (also numbers to predict), or nothing.
        pooling: pooling that it is defined on, or None for the user's.
        balanced: whether it is defined on a class-balanced sample.
        is_probe: whether it is the quality of a trained probe, with which other scores are compared.
        summary: one line on its meaning.
        estimate: function of evidence and `uncertainty` that returns an estimate.
        from_moments: function that computes the same values from sums over texts, if that is possible.
        defaults: its options and their default values.
    """

    name: str
    better: Better
    paper: str
    needs: Needs
    pooling: Pooling | None
    balanced: bool
    is_probe: bool
    summary: str
    estimate: FittedFunction
    from_moments: MomentsFunction | None
    defaults: Mapping[str, Any]


LAYER_SCORES: Registry[Score] = Registry("layer score", package=__name__, entry_points="frostline.scores")


def layer_score(
    *,
    better: Better,
    paper: str,
    needs: Needs = "classes",
    name: str | None = None,
    pooling: Pooling | None = None,
    balanced: bool = False,
    is_probe: bool = False,
    from_moments: MomentsFunction | None = None,
    fitted: bool = False,
) -> Callable[[F], F]:
    """Register a function as a layer score; the first line of its docstring is its summary in tables and reports.

    The function takes states (layers, texts, width) and labels (texts,), and returns (layers,) in float64 with NaN
    where the score is undefined. A `fitted` one takes `Evidence` and the keyword `uncertainty` and returns an
    `Estimate` with its own uncertainty. The other options are those of `Score`.
    """

    def register(function: F) -> F:
        summary, options = describe(function, skip=["uncertainty"])
        score = Score(
            name=name or function.__name__,
            better=better,
            paper=paper,
            needs=needs,
            pooling=pooling,
            balanced=balanced,
            is_probe=is_probe,
            summary=summary,
            estimate=_in_order(function if fitted else _leaving_out_blocks(function, pooling)),
            from_moments=from_moments,
            defaults=options if fitted else {},
        )
        LAYER_SCORES.add(score.name, score)
        return function

    return register


def _in_order(function: FittedFunction) -> FittedFunction:
    """Return the function with rows sorted, so that the result does not depend on their order."""

    @wraps(function)
    def estimate(evidence: Evidence, **options: Any) -> Estimate:
        return function(evidence.in_order(), **options)

    return estimate


def _leaving_out_blocks(function: Callable[[Tensor, Tensor], Tensor], pooling: Pooling | None) -> FittedFunction:
    """Turn a function of states and labels into one of evidence, with uncertainty from leaving out blocks of texts."""

    def estimate(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
        states, labels = evidence.states[pooling or evidence.pooling], evidence.labels
        blocks = evidence.jackknife_blocks(uncertainty=uncertainty)
        return jackknife(lambda rows: function(states[:, rows], labels[rows]), blocks)

    return estimate
