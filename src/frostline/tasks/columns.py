"""Which columns hold the text, the second text, the label and the choices: as given, or guessed from common names.

A guess is always said in the task's notes; where names do not decide, the user is asked in one line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from frostline.errors import DataError, OptionError, did_you_mean
from frostline.tasks.raw_table import Table, listed, show

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
    """The columns of a task, and what was guessed about them."""

    text: str
    pair: str | None
    label: str
    choices: tuple[str, ...]
    guessed: tuple[tuple[str, str], ...]  # role and column

    @property
    def notes(self) -> tuple[str, ...]:
        """The guesses in a sentence, if there are any."""
        return (guesses_in_words(self.guessed),) if self.guessed else ()


def choose_columns(
    table: Table,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    choices: str | Sequence[str] | None = None,
) -> Columns:
    """The columns as given, the missing ones guessed from common names."""
    known = {_key(column): column for column in table.columns}
    given_choices = tuple(c.strip() for c in choices.split(",")) if isinstance(choices, str) else tuple(choices or ())
    for given_by, column in (("`text`", text), ("`text_pair`", text_pair), ("`label`", label)):
        if column is not None:
            check_column(table, column, given_by)
    for column in given_choices:
        check_column(table, column, "`choices`")

    label_column = label or _first(known, _LABEL_NAMES, taken={text, text_pair, *given_choices})
    choice_columns = given_choices or (_guess_choices(table, known) if label_column and not text_pair else ())
    text_column, pair = text, text_pair
    if text_column is None:
        text_column, pair = _guess_text(known, text_pair, taken={label_column, *choice_columns})
    text_column, label_column = _the_other(table, text_column, pair, label_column, choice_columns)
    if text_column is None or label_column is None:
        raise _undecided(table, text_column, label_column)
    used = [text_column, label_column, *choice_columns, *([pair] if pair else [])]
    repeated = [column for column in dict.fromkeys(used) if used.count(column) > 1]
    if repeated:
        raise OptionError(f"{table.name}: column {show(repeated[0])} is used twice; give each role its own column")

    roles = {"text": (text, text_column), "text pair": (text_pair, pair), "label": (label, label_column)}
    guessed = [(role, found) for role, (asked, found) in roles.items() if found and not asked]
    if not given_choices:
        guessed += [("choices", column) for column in choice_columns]
    return Columns(text=text_column, pair=pair, label=label_column, choices=choice_columns, guessed=tuple(guessed))


def guesses_in_words(guessed: Sequence[tuple[str, str]]) -> str:
    """The sentence that names each role with the columns that were guessed for it."""
    roles: dict[str, list[str]] = {}
    for role, column in guessed:
        roles.setdefault(role, []).append(show(column))
    return (
        f"columns guessed from their names: {', '.join(f'{role} = {listed(names)}' for role, names in roles.items())}"
    )


def check_column(table: Table, column: str, given_by: str) -> None:
    """Refuse a column that the table does not have, with the ones that it has."""
    if column not in table.columns:
        raise DataError(
            f"{table.name}: no column {show(column)} (from {given_by}){did_you_mean(column, table.columns)}; "
            f"it has {_listed_columns(table)}"
        )


def _key(column: str) -> str:
    return re.sub(r"[\s-]+", "_", column.strip().lower())


def _first(known: dict[str, str], names: Sequence[str], *, taken: set[str | None]) -> str | None:
    return next((known[name] for name in names if name in known and known[name] not in taken), None)


def _guess_text(
    known: dict[str, str], text_pair: str | None, *, taken: set[str | None]
) -> tuple[str | None, str | None]:
    free = {key: column for key, column in known.items() if column not in taken}
    if text_pair is not None:
        partner = next((a for a, b in _PAIR_NAMES if free.get(b) == text_pair and a in free), None)
        return (free[partner] if partner else _first(free, _TEXT_NAMES, taken={text_pair})), text_pair
    for a, b in _PAIR_NAMES:
        if a in free and b in free:
            return free[a], free[b]
    return _first(free, _TEXT_NAMES, taken=set()), None


def _guess_choices(table: Table, known: dict[str, str]) -> tuple[str, ...]:
    for name in _CHOICE_LISTS:
        if name in known and isinstance(table.columns[known[name]][0], list | tuple):
            return (known[name],)
    by_stem: dict[str, list[str]] = {}
    for key in sorted(known, key=lambda k: (len(k), k)):
        match = _CHOICE_COLUMN.fullmatch(key)
        if match:
            by_stem.setdefault(match[1], []).append(known[key])
    return next((tuple(found) for found in by_stem.values() if len(found) >= 2), ())


def _the_other(
    table: Table, text: str | None, pair: str | None, label: str | None, choices: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """Text and label where one is known and exactly one column is left for the other."""
    used = {text, pair, label, *choices}
    left = [column for column in table.columns if column not in used]
    if len(left) == 1 and text is None and label is not None:
        return left[0], label
    if len(left) == 1 and label is None and text is not None:
        return text, left[0]
    return text, label


def _undecided(table: Table, text: str | None, label: str | None) -> DataError:
    columns = list(table.columns)
    if len(columns) == 1:
        mark = next((mark for mark in ";\t|," if mark in columns[0]), None)
        hint = f"; its fields seem to be separated by {mark!r}, not by what its name says" if mark else ""
        return DataError(f"{table.name}: one column only, {show(columns[0])}, but a text and a label are needed{hint}")
    roles = [role for role, column in (("text", text), ("label", label)) if column is None]
    question = "is the " + " and which the ".join(roles)
    choice = " and ".join(f"`{role}`" for role in roles)
    hint = ""
    if len(roles) == 2 and table.cells == "text" and any(" " in column.strip() for column in columns):
        hint = "; or is the line missing that names the columns?"
    return DataError(
        f"{table.name}: cannot tell which column {question}; choose with {choice} from {_listed_columns(table)}{hint}"
    )


def _listed_columns(table: Table) -> str:
    return listed([show(column, width=40) for column in table.columns], most=12)
