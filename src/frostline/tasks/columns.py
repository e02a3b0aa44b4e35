"""The columns of the text, the second text, the label and the choices: as given, or guessed from common names.

The task's notes list every guess. If the names do not decide, an error asks the user in one line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from frostline.errors import DataError, OptionError, did_you_mean
from frostline.records.table import group_by
from frostline.tasks.raw_table import RawTable, listed, show

_TEXT_NAMES = (
    *("text", "sentence", "review", "content", "comment", "tweet", "body", "message", "document"),
    *(
        "review_text",
        "review_body",
        "text_a",
        "utterance",
        "headline",
        "question",
        "query",
        "premise",
        "context",
        "ctx",
    ),
)
_PAIR_NAMES = (
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("text1", "text2")),
    *(("sentence_1", "sentence_2"), ("text_1", "text_2"), ("text_a", "text_b"), ("sentence_a", "sentence_b")),
    *(("text", "text_pair"), ("passage", "question"), ("context", "question"), ("question", "sentence")),
    *(("question", "answer"), ("query", "document"), ("query", "passage"), ("claim", "evidence")),
)
_LABEL_NAMES = (
    *("label", "labels", "target", "class", "gold_label", "sentiment", "category", "score", "rating", "stars"),
    *("polarity", "intent", "topic", "emotion", "similarity", "is_duplicate", "answer_index", "y"),
)
_CHOICE_LISTS = ("choices", "endings", "options", "candidates", "answers")
_CHOICE_COLUMN = re.compile(r"(choice|ending|answer|option|candidate)_?([0-9]+|[a-h])")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a task, and those of them that were guessed."""

    text: str
    pair: str | None
    label: str
    choices: tuple[str, ...]
    guessed: tuple[tuple[str, str], ...] = ()  # role and column

    @property
    def notes(self) -> tuple[str, ...]:
        """The guesses as a sentence, if there are any."""
        return (guesses_in_words(self.guessed),) if self.guessed else ()


def choose_columns(
    table: RawTable,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    choices: str | Sequence[str] | None = None,
) -> Columns:
    """Return the columns as given; guess the others from common names."""
    given_choices = check_columns(table, text=text, text_pair=text_pair, label=label, choices=choices)
    by_key = {_key(column): column for column in table.columns}
    label_column = label or _first(by_key, _LABEL_NAMES, taken={text, text_pair, *given_choices})
    choice_columns = given_choices or (_guess_choices(table, by_key) if label_column and not text_pair else ())
    text_column, pair = text, text_pair
    if text_column is None:
        text_column, pair = _guess_text(by_key, text_pair, taken={label_column, *choice_columns})
    text_column, label_column = _use_last_column(table, text_column, pair, label_column, choice_columns)
    if text_column is None or label_column is None:
        raise _undecided(table, text_column, label_column)
    used = [text_column, label_column, *choice_columns, *([pair] if pair else [])]
    repeated = [column for column in dict.fromkeys(used) if used.count(column) > 1]
    if repeated:
        raise OptionError(f"{table.name}: column {show(repeated[0])} is used twice; give each role its own column")

    roles = {"text": (text, text_column), "text pair": (text_pair, pair), "label": (label, label_column)}
    guessed = [(role, column) for role, (given, column) in roles.items() if column and not given]
    if not given_choices:
        guessed += [("choices", column) for column in choice_columns]
    return Columns(text=text_column, pair=pair, label=label_column, choices=choice_columns, guessed=tuple(guessed))


def guesses_in_words(guessed: Sequence[tuple[str, str]]) -> str:
    """Return a sentence with each role and the columns that were guessed for it."""
    roles = group_by(guessed, key=itemgetter(0))
    guesses = [f"{role} = {listed([show(column) for _, column in pairs])}" for role, pairs in roles.items()]
    return f"columns guessed from their names: {', '.join(guesses)}"


def check_columns(
    table: RawTable,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    choices: str | Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Return the names in `choices`; refuse columns that the table does not have."""
    names = tuple(name.strip() for name in choices.split(",")) if isinstance(choices, str) else tuple(choices or ())
    flags = [("`text`", text), ("`text_pair`", text_pair), ("`label`", label)]
    for flag, column in [*flags, *(("`choices`", name) for name in names)]:
        if column is not None:
            check_column(table, column, flag)
    return names


def check_column(table: RawTable, column: str, flag: str) -> None:
    """Refuse a column that the table does not have; the message lists the table's columns."""
    if column not in table.columns:
        raise DataError(
            f"{table.name}: no column {show(column)} (from {flag}){did_you_mean(column, table.columns)}; "
            f"it has {list_columns(table)}"
        )


def _key(column: str) -> str:
    return re.sub(r"[\s-]+", "_", column.strip().lower())


def _first(by_key: dict[str, str], names: Sequence[str], *, taken: set[str | None]) -> str | None:
    return next((by_key[name] for name in names if name in by_key and by_key[name] not in taken), None)


def _guess_text(
    by_key: dict[str, str], text_pair: str | None, *, taken: set[str | None]
) -> tuple[str | None, str | None]:
    free = {key: column for key, column in by_key.items() if column not in taken}
    if text_pair is not None:
        partner = next((a for a, b in _PAIR_NAMES if free.get(b) == text_pair and a in free), None)
        return (free[partner] if partner else _first(free, _TEXT_NAMES, taken={text_pair})), text_pair
    for a, b in _PAIR_NAMES:
        if a in free and b in free:
            return free[a], free[b]
    return _first(free, _TEXT_NAMES, taken=set()), None


def _guess_choices(table: RawTable, by_key: dict[str, str]) -> tuple[str, ...]:
    for name in _CHOICE_LISTS:
        if name in by_key and isinstance(table.columns[by_key[name]][0], list | tuple):
            return (by_key[name],)
    ordered = sorted(by_key, key=lambda key: (len(key), key))
    matches = [match for match in map(_CHOICE_COLUMN.fullmatch, ordered) if match]
    for group in group_by(matches, key=itemgetter(1)).values():
        if len(group) > 1:
            return tuple(by_key[match[0]] for match in group)
    return ()


def _use_last_column(
    table: RawTable, text: str | None, pair: str | None, label: str | None, choices: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """Return text and label; if one of them is missing and only one column is unused, it is that column."""
    unused = [column for column in table.columns if column not in {text, pair, label, *choices}]
    if len(unused) == 1 and (text is None) != (label is None):
        return text or unused[0], label or unused[0]
    return text, label


def _undecided(table: RawTable, text: str | None, label: str | None) -> DataError:
    columns = list(table.columns)
    if len(columns) == 1:
        mark = next((mark for mark in ";\t|," if mark in columns[0]), None)
        hint = f"; its fields seem to be separated by {mark!r}, which does not fit its name" if mark else ""
        return DataError(f"{table.name}: one column only, {show(columns[0])}, but a text and a label are needed{hint}")
    roles = [role for role, column in (("text", text), ("label", label)) if column is None]
    question = "is the " + " and which is the ".join(roles)
    flags = " and ".join(f"`{role}`" for role in roles)
    has_no_header = len(roles) == 2 and table.cells == "text" and any(" " in column.strip() for column in columns)
    hint = "; or is the header line missing?" if has_no_header else ""
    return DataError(
        f"{table.name}: cannot tell which column {question}; choose with {flags} from {list_columns(table)}{hint}"
    )


def list_columns(table: RawTable) -> str:
    """Return the names of the table's first columns, for messages."""
    return listed([show(column, width=40) for column in table.columns], most=12)
