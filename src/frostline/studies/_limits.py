"""What a number that is given as an option of a study must be: each mistake is said alone, by the option's name."""

from __future__ import annotations

from frostline.errors import OptionError


def at_least(least: float, study: str, **options: float) -> None:
    """Refuse options below a number."""
    for name, value in options.items():
        if not value >= least:
            raise OptionError(f"study {study}: option {name} {value:g} must be {least:g} or more")


def above_zero(study: str, **options: float) -> None:
    """Refuse options that are 0 or less."""
    for name, value in options.items():
        if not value > 0:
            raise OptionError(f"study {study}: option {name} {value:g} must be above 0")
