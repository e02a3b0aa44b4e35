"""The two records that the rest of Frostline uses for all data: `Split` and `Task`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from frostline.records import TaskRef

Kind = Literal["classification", "regression", "multiple choice"]
Protocol = Literal["held-out", "paper"]
KINDS: tuple[Kind, ...] = ("classification", "regression", "multiple choice")
Labels = tuple[int, ...] | tuple[float, ...]
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class Split:
    """Labelled rows, column by column.

    Args:
        texts: the text of each row; for multiple choice the question.
        pairs: the second text of each row, or None for single texts.
        choices: the choices of each question, or None unless the task is multiple choice.
        labels: class numbers, the number of the right choice (from 0), or values to predict.
        groups: rows with the same group stay together when Frostline splits or resamples; None: every row alone.
        rows: 1-based line or row numbers in the source, for messages and predictions.
    """

    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None = None
    choices: tuple[tuple[str, ...], ...] | None = None
    labels: Labels
    groups: tuple[str, ...] | None = None
    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("pairs", "choices", "labels", "groups", "rows"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.texts):
                raise ValueError(f"{len(self.texts)} texts but {len(column)} {name}")
        if self.choices is not None:
            if self.pairs is not None:
                raise ValueError("a split has pairs or choices, not both")
            if any(
                len(candidates) < 2 or not 0 <= label < len(candidates)
                for candidates, label in zip(self.choices, self.labels, strict=True)
            ):
                raise ValueError("every question needs two or more choices and a label among them")

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: Iterable[int]) -> Split:
        """Return the rows at these positions (from 0), in the given order."""
        picked = [int(i) for i in indices]
        return Split(
            texts=tuple([self.texts[i] for i in picked]),
            pairs=None if self.pairs is None else tuple([self.pairs[i] for i in picked]),
            choices=None if self.choices is None else tuple([self.choices[i] for i in picked]),
            labels=tuple([self.labels[i] for i in picked]),
            groups=None if self.groups is None else tuple([self.groups[i] for i in picked]),
            rows=tuple([self.rows[i] for i in picked]),
        )

    def followed_by(self, others: Split) -> Split:
        """Return these rows and then others of the same task."""
        columns: dict[str, Any] = {
            name: None if (own := getattr(self, name)) is None else (*own, *getattr(others, name))
            for name in self.__dataclass_fields__
        }
        return Split(**columns)

    def as_rows(self) -> Split:
        """Return every (question, choice) as a row labelled 1 (right) or 0 (wrong); other splits are unchanged."""
        if self.choices is None:
            return self
        flat = [(i, c) for i, candidates in enumerate(self.choices) for c in range(len(candidates))]
        return Split(
            texts=tuple([self.texts[i] for i, _ in flat]),
            pairs=tuple([self.choices[i][c] for i, c in flat]),
            labels=tuple([int(self.labels[i] == c) for i, c in flat]),
            groups=tuple([f"question {self.rows[i]}" for i, _ in flat]),
            rows=tuple([self.rows[i] for i, _ in flat]),
        )


@dataclass(frozen=True, kw_only=True)
class Task:
    """Labelled examples in train, validation and test splits, with their kind and their metrics.

    Args:
        name: the preset's name, the file's stem or the dataset's id.
        kind: classification, regression or multiple choice.
        label_names: the name of every class, in the order of the class numbers; for multiple choice one per
            position; empty for regression.
        train: the training rows.
        validation: the rows for selection; None only if there is no such split.
        test: the rows that are used once, at the end; None only if there is no such split.
        metrics: names in `METRICS`; the first one decides.
        source: the origin of the rows, for the record.
        notes: sentences about guesses, carved splits and dropped rows; for people only.
        tags: linguistic features and kinds of distribution shift, names in `frostline.tasks.tags.TAGS`.
        preset: name of the preset of the rows, or None.
        protocol: 'paper' if the test rows are also used for selection, so that results are optimistic.
        guessed_columns: role and column of each column that was guessed from its name.
        carved: names of the splits that Frostline carved from the rows that were given.
        more_tests: further test rows by the name of their split, such as those of MNLI's mismatched dev set; a model is
            judged on each of them, and nothing is ever chosen on them.

    Example:
        >>> task = frostline.load_task("reviews.csv")
        >>> task.kind, task.label_names
        ('classification', ('negative', 'positive'))
    """

    name: str
    kind: Kind
    label_names: tuple[str, ...]
    train: Split
    validation: Split | None
    test: Split | None
    metrics: tuple[str, ...]
    source: str
    notes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    preset: str | None = None
    protocol: Protocol = "held-out"
    guessed_columns: tuple[tuple[str, str], ...] = ()
    carved: tuple[str, ...] = ()
    more_tests: Mapping[str, Split] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, but got {self.kind!r}")
        if not self.metrics:
            raise ValueError("a task needs a metric")
        if (self.kind == "regression") != (not self.label_names):
            raise ValueError("label names belong to classification and multiple choice, and only to them")
        if len(set(self.label_names)) != len(self.label_names):
            raise ValueError(f"label names repeat: {self.label_names}")
        if taken := {*_SPLITS, "all"} & {*self.more_tests}:
            raise ValueError(f"further test rows cannot be named {min(taken)!r}")
        for name, split in self.splits.items():
            if not len(split):
                raise ValueError(f"the {name} split is empty")
            if (split.choices is not None) != (self.kind == "multiple choice"):
                raise ValueError(f"the {name} split does not fit the kind {self.kind!r}")
            if self.label_names and not set(split.labels) <= set(range(len(self.label_names))):
                raise ValueError(f"the {name} split has labels without a name")

    @property
    def labelled(self) -> Split:
        """The training rows and then the validation rows, if there are any."""
        return self.train if self.validation is None else self.train.followed_by(self.validation)

    @property
    def splits(self) -> dict[str, Split]:
        """The splits that are not None, by name."""
        named = dict(zip(_SPLITS, (self.train, self.validation, self.test), strict=True))
        return {**{name: split for name, split in named.items() if split is not None}, **self.more_tests}

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of the splits that are read once, at the end: 'test' and those of `more_tests`."""
        return (*(("test",) if self.test is not None else ()), *self.more_tests)

    @property
    def ref(self) -> TaskRef:
        """The reference to it in trials."""
        return TaskRef(name=self.name, fingerprint=self.fingerprint, metrics=self.metrics)

    @property
    def takes_pairs(self) -> bool:
        """Whether the encoder sees two texts per row (choices are second texts)."""
        return self.train.pairs is not None or self.train.choices is not None

    @property
    def outputs(self) -> int:
        """The number of outputs of a head: one per class, or one."""
        return len(self.label_names) if self.kind == "classification" else 1

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 over kind, label names and every row: the same data has the same fingerprint in any file.

        Row numbers and groups are left out: they are not part of the content.
        """
        digest = hashlib.sha256(json.dumps([self.kind, self.label_names]).encode())
        for name, split in self.splits.items():
            labels = [float(x) for x in split.labels] if self.kind == "regression" else split.labels
            digest.update(json.dumps([name, split.texts, split.pairs, split.choices, labels]).encode())
        return digest.hexdigest()
