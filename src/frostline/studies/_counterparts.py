"""The papers' figures and tables that a study makes counterparts of, for the page on reproduction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """Figures and tables of a paper that one command of a study repeats at full size.

    Args:
        item: the paper's figures and tables, such as 'table 6 and figure 4'.
        arguments: arguments of `frostline study NAME`.
        tables: tables of the study that show them.
        figures: figures of the study that show them.
        differs: what differs from the paper and why, as sentences.
        paper: author and year; the study's by default.
    """

    item: str
    arguments: str
    tables: tuple[str, ...]
    figures: tuple[str, ...] = ()
    differs: str = ""
    paper: str = ""
