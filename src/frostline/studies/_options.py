"""Checks of study options that several studies share; each error names the study, the option and its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from frostline.errors import OptionError
from frostline.states.pooled import POOLINGS, Pooling


def check_at_least(least: float, study: str, **options: float) -> None:
    """Raise if one of these options is below a number."""
    for name, value in options.items():
        if not value >= least:
            raise OptionError(f"study {study}: option {name} {value:g} must be {least:g} or more")


def check_choice(study: str, option: str, value: str, choices: Sequence[str]) -> None:
    """Raise if an option is not one of these words."""
    if value not in choices:
        raise OptionError(f"study {study}: option {option} {value!r} must be one of {', '.join(choices)}")


def check_pooling(study: str, states: str) -> Pooling:
    """Return the option `states` as a pooling; 'released' is that of the released script of Xie et al. 2022."""
    check_choice(study, "states", states, POOLINGS)
    return cast(Pooling, states)


def read_numbers(study: str, option: str, text: str, *, least: int, separator: str = ",", also: str = "") -> list[int]:
    """Return the whole numbers of an option such as '25,100'.

    Args:
        study: name of the study.
        option: name of the option.
        text: value of the option.
        least: the lowest allowed number.
        separator: the character between numbers.
        also: a word that the option allows instead of numbers, for the error message.
    """
    try:
        numbers = [int(word) for word in text.split(separator)]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < least:
        words = f"{also!r} or " if also else ""
        raise OptionError(f"study {study}: option {option} {text!r} must be {words}whole numbers from {least}, joined "
                          f"by '{separator}'")  # fmt: skip
    return numbers
