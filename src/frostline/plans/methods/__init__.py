"""Methods: how the chosen layers of a plan train, one file each.

A method is a function that makes parameters of a `Tunable` trainable, or adds trainable ones; the head trains whatever
the method. Its keyword arguments are the options that a user can set, with their defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frostline.errors import OptionError, did_you_mean
from frostline.registry import Registry

if TYPE_CHECKING:
    from torch import nn

    from frostline.training.model import Tunable

Value = int | float | str
Apply = Callable[..., None]  # (Tunable, *, seed, options)
Fold = Callable[["Tunable"], None]
Validate = Callable[[Mapping[str, Any]], str | None]  # what is wrong with the options' values, in a few words


@dataclass(frozen=True, kw_only=True)
class Method:
    """A registered method.

    Args:
        name: how it is asked for.
        summary: what it does, in one line.
        learning_rate: what it trains well with, if no rate is asked for.
        is_stock: whether the result is a stock Hugging Face model.
        defaults: its options and what they are unless set.
        function: makes parameters trainable.
        fold: puts what was added into the plain weights, where that is possible.
        validate: says what is wrong with values of the right kind, or nothing.
    """

    name: str
    summary: str
    learning_rate: float
    is_stock: bool
    defaults: Mapping[str, Value]
    function: Apply
    fold: Fold | None
    validate: Validate | None = None

    def check(self, options: Mapping[str, Value]) -> dict[str, Value]:
        """All options with their values, refusing unknown ones and values that cannot be."""
        for name, value in options.items():
            if name not in self.defaults:
                known = ", ".join(self.defaults) or "none"
                near = did_you_mean(name, self.defaults)
                raise OptionError(f"method {self.name}: unknown option {name!r}{near}; known: {known}")
            wanted = type(self.defaults[name])
            fits = isinstance(value, int | float) if wanted is float else isinstance(value, wanted)
            if not fits or isinstance(value, bool):
                kind = {int: "a whole number", float: "a number", str: "a word"}[wanted]
                raise OptionError(f"method {self.name}: {name} {value!r} must be {kind}")
        values = {**self.defaults, **options}
        if self.validate is not None and (reason := self.validate(values)):
            raise OptionError(f"method {self.name}: {reason}")
        return values

    def apply(self, tunable: Tunable, options: Mapping[str, Value], *, seed: int) -> None:
        """Make the plan's layers trainable by this method."""
        self.function(tunable, seed=seed, **self.check(options))


METHODS: Registry[Method] = Registry("method", package=__name__)


def method(
    *,
    learning_rate: float,
    is_stock: bool,
    name: str | None = None,
    fold: Fold | None = None,
    validate: Validate | None = None,
) -> Callable[[Apply], Apply]:
    """Register a function of a `Tunable`, a seed and options as a method; its docstring's first line explains it."""

    def register(function: Apply) -> Apply:
        summary = (function.__doc__ or "").strip().split("\n")[0]
        if not summary:
            raise ValueError(f"method {function.__name__!r} has no docstring to explain it")
        parameters = inspect.signature(function).parameters
        defaults: dict[str, Any] = {
            option: parameter.default
            for option, parameter in parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY and option != "seed"
        }
        known = name or function.__name__
        METHODS.add(
            known,
            Method(
                name=known,
                summary=summary,
                learning_rate=learning_rate,
                is_stock=is_stock,
                defaults=defaults,
                function=function,
                fold=fold,
                validate=validate,
            ),
        )
        return function

    return register


def chosen_layers(tunable: Tunable) -> list[nn.Module]:
    """The modules of the plan's layers, lowest first; one that several layers share comes once."""
    return list(dict.fromkeys(tunable.layer(number) for number in tunable.plan.layers))
