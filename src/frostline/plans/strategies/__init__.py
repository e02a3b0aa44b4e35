"""Strategies: functions from the number of layers, and from measured layer scores, to a plan, one file each.

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

Value = int | float | bool | str
Proposed = Callable[[int], Sequence[Mapping[str, "Value"]]]
Joins = Literal["first", "last"]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A registered strategy.

    Args:
        name: name in the registry and on the command line.
        summary: one line on what it does.
        paper: number of its paper, or another source.
        defaults: its options and their default values.
        function: function of depth, scores, seed and options that returns a plan.
        proposed: function of the depth that returns the options of its proposals in a race; none for controls.
        needs: layer scores that it reads besides the one in its option `score`.
        fallback: score that its proposals read where a task lacks the one in `score`, if any.
        baseline: name of the baseline that its plans are in a race, such as 'the last layers', if any.
        joins: round of a race in which its plans start: 'last' for plans that are expensive or learn late.
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
        """Return the layer scores that it needs with these options."""
        values = self.check(options or {})
        return (*([str(values["score"])] if "score" in values else []), *self.needs)

    def plan(
        self, depth: int, scores: LayerScores | None = None, options: Mapping[str, Any] | None = None, *, seed: int = 0
    ) -> Plan:
        """Return the plan for an encoder of this depth.

        Args:
            depth: number of layers.
            scores: measured layer scores, if it needs any.
            options: values, or strings from a command line.
            seed: seed of strategies that draw at random.
        """
        values, needed = self.check(options or {}), self.scores(options)
        if needed and scores is None:
            raise OptionError(f"strategy {self.name}: needs the layer score {' and '.join(needed)}")
        return self.function(depth, scores, seed=seed, **values)

    def check(self, options: Mapping[str, Any]) -> dict[str, Value]:
        """Return all options with their values; refuse unknown ones and values of the wrong type."""
        values = read_options(f"strategy {self.name}", self.defaults, options)
        for name, value in values.items():
            if isinstance(value, int | float) and value < 0:
                raise OptionError(f"strategy {self.name}: {name} {options[name]!r} must be 0 or more")
        return values


STRATEGIES: Registry[Strategy] = Registry("strategy", package=__name__, entry_points="frostline.strategies")


def up_to_three(depth: int) -> Sequence[Mapping[str, Value]]:
    """Propose one, two and three layers, if the encoder has more."""
    return [{"k": count} for count in (1, 2, 3) if count < depth]


def as_control(depth: int) -> Sequence[Mapping[str, Value]]:
    """Propose nothing: a control exists to be compared with, not to win."""
    return ()


def strategy(
    *,
    paper: str,
    name: str,
    proposed: Proposed = lambda depth: ({},),
    needs: Sequence[str] = (),
    fallback: str | None = None,
    baseline: str | None = None,
    joins: Joins = "first",
) -> Callable[[Callable[..., Plan]], Callable[..., Plan]]:
    """Register a function of depth, scores, seed and options as a strategy; its docstring's first line is its summary.

    A strategy that reads a layer score has an option `score` with the score's name as its default; `needs` names
    further scores. The other arguments are those of `Strategy`.
    """

    def register(function: Callable[..., Plan]) -> Callable[..., Plan]:
        summary, defaults = describe(function, skip=["seed"])
        if fallback is not None and "score" not in defaults:
            raise ValueError(f"strategy {name!r} has a fallback but no option 'score' that it would replace")
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
    """Return the best layer by a score."""
    best = scores[score].best
    if best is None:
        raise OptionError(f"layer score {score} is undefined at every layer, so there is no best one")
    return best


def ranked_layers(scores: LayerScores, score: str) -> list[int]:
    """Return layers 1..L from the best to the worst, undefined ones last, the lower of two equals first."""
    sign, values = 1 if scores[score].better == "low" else -1, scores[score].values
    return sorted(
        range(1, scores.depth + 1),
        key=lambda layer: (float("inf") if (value := values[layer]) is None else sign * value, layer),
    )


def check_layer_count(count: int, depth: int, name: str) -> int:
    """Return the number of layers to tune; raise if the encoder has fewer."""
    if not 1 <= count <= depth:
        raise OptionError(f"strategy {name}: {count} layers to tune, but the encoder has layers 1..{depth}")
    return count


def count_layers(count: int) -> str:
    """Return 'the layer', or 'the 3 layers'."""
    return "the layer" if count == 1 else f"the {count} layers"
