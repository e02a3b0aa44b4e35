"""Small builders that most benchmarks share: a text, a pair, grouped or not."""

from __future__ import annotations

from frostline.tasks.benchmark import Builder, Fields
from frostline.tasks.raw_table import Table
from frostline.tasks.texts import parse_texts


def single(text: str) -> Builder:
    """Rows of one text."""

    def build(table: Table) -> Fields:
        return Fields(texts=parse_texts(table, text))

    return build


def pair(first: str, second: str, *, group: str | None = None) -> Builder:
    """Rows of two texts; rows that share the text of the group's column stay together when splits are carved."""

    def build(table: Table) -> Fields:
        texts, pairs = parse_texts(table, first), parse_texts(table, second)
        return Fields(texts=texts, pairs=pairs, groups={first: texts, second: pairs}[group] if group else None)

    return build
