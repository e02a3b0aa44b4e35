"""Strategies: ways from the number of layers, and from measured layer scores, to a plan, one file each.

A strategy is a function; its keyword arguments are the options that a user can set, with their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from frostline.errors import OptionError
from frostline.options import read_options
from frostline.records import LayerScores, Plan
from frostline.registry import Registry, describe

Value = int | bool | str
Proposed = Callable[[int], Sequence[Mapping[str, "Value"]]]
Joins = Literal["first", "last"]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A registered strategy.

    Args:
        name: how it is asked for.
        summary: what it does, in one line.
        paper: the number of the paper it is from, or what else.
        defaults: its options and what they are unless set.
        function: from depth, scores, seed and options to a plan.
        proposed: the options with which it takes part in a race, for a depth; none for controls.
        needs: layer scores that it reads besides the one that its option `score` names.
        fallback: the score that its proposals read where a task does not have the one that `score` names, if any.
        baseline: what a race compares its choice with, if the strategy stands for that, as in 'the last layers'.
        joins: the round of a race in which its plans start: 'last' for what is expensive or learns late.
    """

    name: str
    summary: str
    paper: str
    defaults: Mapping[str, Value]
    function: Callable[..., Plan]
    proposed: Proposed
    needs: tuple[str, ...] = ()
    fallback: str | None = None
    baseline: str | None = None
    joins: Joins = "first"

    def scores(self, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """The layer scores that it needs with these options."""
        values = self.check(options or {})
        return (*([str(values["score"])] if "score" in values else []), *self.needs)

    def plan(
        self, depth: int, scores: LayerScores | None = None, options: Mapping[str, Any] | None = None, *, seed: int = 0
    ) -> Plan:
        """The plan for an encoder of this depth.

        Args:
            depth: number of layers.
            scores: measured layer scores, if it needs any.
            options: values, or words as a command line gives them.
            seed: of strategies that draw.
        """
        values, needed = self.check(options or {}), self.scores(options)
        if needed and scores is None:
            raise OptionError(f"strategy {self.name}: needs the layer score {' and '.join(needed)}")
        return self.function(depth, scores, seed=seed, **values)

    def check(self, options: Mapping[str, Any]) -> dict[str, Value]:
        """All options with their values, refusing unknown ones and values of the wrong kind."""
        values = read_options(f"strategy {self.name}", self.defaults, options)
        for name, value in values.items():
            if isinstance(value, int) and value < 0:
                raise OptionError(f"strategy {self.name}: {name} {options[name]!r} must be 0 or more")
        return values


STRATEGIES: Registry[Strategy] = Registry("strategy", package=__name__, entry_points="frostline.strategies")


def _as_it_is(depth: int) -> Sequence[Mapping[str, Value]]:
    return ({},)


def up_to_three(depth: int) -> Sequence[Mapping[str, Value]]:
    """One, two and three layers, as far as there are so many."""
    return [{"k": count} for count in (1, 2, 3) if count < depth]


def as_control(depth: int) -> Sequence[Mapping[str, Value]]:
    """Not at all: a control shows what choosing is worth, and nobody wants it to win."""
    return ()


def strategy(
    *,
    paper: str,
    name: str,
    proposed: Proposed = _as_it_is,
    needs: Sequence[str] = (),
    fallback: str | None = None,
    baseline: str | None = None,
    joins: Joins = "first",
) -> Callable[[Callable[..., Plan]], Callable[..., Plan]]:
    """Register a function of depth, scores, a seed and options as a strategy; its docstring's first line explains it.

    One that follows a layer score has an option `score` with the score's name as its default; `needs` names scores that
    it reads besides. The other arguments are those of `Strategy`.
    """

    def register(function: Callable[..., Plan]) -> Callable[..., Plan]:
        summary, defaults = describe(function, skip=["seed"])
        if fallback is not None and "score" not in defaults:
            raise ValueError(f"strategy {name!r} has a fallback but no option 'score' that it could stand in for")
        entry = Strategy(
            name=name,
            summary=summary,
            paper=paper,
            defaults=defaults,
            function=function,
            proposed=proposed,
            needs=tuple(needs),
            fallback=fallback,
            baseline=baseline,
            joins=joins,
        )
        STRATEGIES.add(name, entry)
        return function

    return register


def best_layer(scores: LayerScores, score: str) -> int:
    """The best layer by a score."""
    best = scores[score].best
    if best is None:
        raise OptionError(f"layer score {score} is undefined at every layer, so there is no best one")
    return best


def ranked_layers(scores: LayerScores, score: str) -> list[int]:
    """Layers 1..L from the best to the worst, undefined ones last, the lower of two equals first."""
    found = scores[score]
    sign = 1 if found.better == "low" else -1
    values = dict(enumerate(found.values))
    return sorted(
        range(1, scores.depth + 1),
        key=lambda layer: (float("inf") if (value := values[layer]) is None else sign * value, layer),
    )


def chosen(count: int, depth: int, name: str) -> int:
    """A number of layers to tune, refused where there are not so many."""
    if not 1 <= count <= depth:
        raise OptionError(f"strategy {name}: {count} layers to tune, but the encoder has layers 1..{depth}")
    return count


def so_many_layers(count: int) -> str:
    """'the layer', or 'the 3 layers'."""
    return "the layer" if count == 1 else f"the {count} layers"
