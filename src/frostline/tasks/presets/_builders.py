"""Builders that most benchmarks share: rows of one text or of two."""

from __future__ import annotations

from frostline.tasks.presets._benchmark import Builder, Fields
from frostline.tasks.raw_table import RawTable
from frostline.tasks.texts import parse_texts


def build_single(text: str) -> Builder:
    """Return a builder of rows with one text."""
    return lambda table: Fields(texts=parse_texts(table, text))


def build_pair(first: str, second: str, *, group: str | None = None) -> Builder:
    """Return a builder of rows with two texts; rows with the same text in the group column are never separated."""

    def build(table: RawTable) -> Fields:
        texts, pairs = parse_texts(table, first), parse_texts(table, second)
        return Fields(texts=texts, pairs=pairs, groups={first: texts, second: pairs}[group] if group else None)

    return build
