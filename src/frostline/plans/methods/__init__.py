"""Methods: how the chosen layers of a plan train, one file each.

A method is a function that makes parameters of a `Tunable` trainable, or adds trainable ones; the head always trains.
Its keyword arguments are the options that a user can set, with their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from frostline.errors import OptionError
from frostline.options import read_options
from frostline.registry import Registry, describe

if TYPE_CHECKING:
    from torch import nn

    from frostline.training.model import Tunable

Value = int | float | str
# All layers; the lower ones, up to the head; more than a few of the upper ones; and other plans, of few layers.
PlanKind = Literal["whole", "lower", "upper", "few"]
Apply = Callable[..., None]  # (Tunable, *, seed, options)
Fold = Callable[["Tunable"], None]
Validate = Callable[[Mapping[str, Any]], str | None]  # returns an error message about the options, or None


@dataclass(frozen=True, kw_only=True)
class Method:
    """A registered method.

    Args:
        name: name in the registry and on the command line.
        summary: one line on what it does.
        learning_rate: default rate, for encoders of width 768.
        rates: rates to try for each kind of plan, for encoders of width 768.
        is_stock: whether the result is a stock Hugging Face model.
        adds_parameters: whether it adds parameters to layers whose own weights stay frozen.
        defaults: its options and their default values.
        function: makes parameters trainable.
        fold: merges added parameters into the plain weights, where that is possible.
        validate: returns an error message about option values of the right type, or None.
    """

    name: str
    summary: str
    learning_rate: float
    rates: Mapping[PlanKind, tuple[float, ...]]
    is_stock: bool
    adds_parameters: bool
    defaults: Mapping[str, Value]
    function: Apply
    fold: Fold | None
    validate: Validate | None = None

    def check(self, options: Mapping[str, Value]) -> dict[str, Value]:
        """Return all options with their values; refuse unknown ones and invalid values."""
        values = read_options(f"method {self.name}", self.defaults, options)
        if self.validate is not None and (reason := self.validate(values)):
            raise OptionError(f"method {self.name}: {reason}")
        return values

    def apply(self, tunable: Tunable, options: Mapping[str, Value], *, seed: int) -> None:
        """Make the plan's layers trainable by this method."""
        self.function(tunable, seed=seed, **self.check(options))


METHODS: Registry[Method] = Registry("method", package=__name__, entry_points="frostline.methods")


def method(
    *,
    learning_rate: float,
    is_stock: bool,
    adds_parameters: bool = False,
    rates: Mapping[PlanKind, tuple[float, ...]] | None = None,
    name: str | None = None,
    fold: Fold | None = None,
    validate: Validate | None = None,
) -> Callable[[Apply], Apply]:
    """Register a function of a `Tunable`, a seed and options as a method; its docstring's first line is its summary.

    Without `rates`, a quarter of the default learning rate, half of it, the rate itself and twice the rate are tried.
    """

    def register(function: Apply) -> Apply:
        summary, defaults = describe(function, skip=["seed"])
        method_name = name or function.__name__
        METHODS.add(
            method_name,
            Method(
                name=method_name,
                summary=summary,
                learning_rate=learning_rate,
                rates=rates or dict.fromkeys(get_args(PlanKind), _around(learning_rate)),
                is_stock=is_stock,
                adds_parameters=adds_parameters,
                defaults=defaults,
                function=function,
                fold=fold,
                validate=validate,
            ),
        )
        return function

    return register


def _around(rate: float) -> tuple[float, ...]:
    return tuple(float(f"{factor * rate:.3g}") for factor in (0.25, 0.5, 1, 2))


def at_least_one(*names: str) -> Validate:
    """Return a check that these options are 1 or more."""

    def validate(options: Mapping[str, Any]) -> str | None:
        too_small = [name for name in names if options[name] < 1]
        return f"{too_small[0]} {options[too_small[0]]}: must be 1 or more" if too_small else None

    return validate


def chosen_layers(tunable: Tunable) -> list[nn.Module]:
    """Return the modules of the plan's layers, lowest first; a module that several layers share comes once."""
    return list(dict.fromkeys(tunable.layer(number) for number in tunable.plan.layers))
