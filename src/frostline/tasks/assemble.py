"""Rows and labels -> `Task`: carve the missing splits, choose the metric, and note what was done.

Given splits are never altered. A missing test split is a fifth of the rows, a missing validation split a tenth of the
remaining ones; both are carved from train. With the protocol 'paper', one split is used both for selection and for the
reported result, as in the papers, and the task's notes call its results optimistic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from frostline.errors import DataError, OptionError
from frostline.tasks.metrics import choose_metrics
from frostline.tasks.raw_table import counted, show
from frostline.tasks.splits import count_duplicates, count_twins, divide
from frostline.tasks.task import Kind, Protocol, Split, Task

OPTIMISTIC = "protocol 'paper': the test split is also used for selection, so results are optimistic"
TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class UnsplitTask:
    """A task before its missing splits are carved.

    Args:
        name: the task's name.
        kind: the kind of task.
        label_names: as in `Task`.
        train: the training rows, from which missing splits are carved.
        validation: the given validation rows, if any.
        test: the given test rows, if any.
        source: the origin of the rows; begins messages about them.
        metrics: the task's own metrics, the deciding one first; empty for the default.
        sizes: numbers of rows of (test, validation) to carve, if they are fixed.
        notes: notes about earlier steps.
        tags: as in `Task`.
        preset: as in `Task`.
        guessed_columns: as in `Task`.
    """

    name: str
    kind: Kind
    label_names: tuple[str, ...]
    train: Split
    validation: Split | None = None
    test: Split | None = None
    source: str
    metrics: tuple[str, ...] = ()
    sizes: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    preset: str | None = None
    guessed_columns: tuple[tuple[str, str], ...] = ()


def assemble(parts: UnsplitTask, *, protocol: Protocol, seed: int, metric: str | None, carves: bool = True) -> Task:
    """Return the task made of these parts; its notes list what was done to them."""
    if protocol not in ("held-out", "paper"):
        raise OptionError(f"unknown protocol {protocol!r}; known: held-out, paper")
    classes = len(parts.label_names)
    metrics = choose_metrics(parts.kind, parts.train, n_classes=classes, asked=metric, default=parts.metrics)
    notes = [*parts.notes, *_note_shared_rows(parts)]
    train, validation, test = parts.train, parts.validation, parts.test
    if carves:
        if protocol == "paper":
            validation = test = test or validation
        train, validation, test, carved = _carve(parts, validation, test, protocol=protocol, seed=seed)
        notes += carved
        if protocol == "paper":
            notes += ["the validation split is not used"] if parts.test and parts.validation else []
            notes.append(OPTIMISTIC)
    return Task(
        name=parts.name,
        kind=parts.kind,
        label_names=parts.label_names,
        train=train,
        validation=validation,
        test=test,
        metrics=metrics,
        source=parts.source,
        notes=tuple(notes),
        tags=parts.tags,
        preset=parts.preset,
        protocol=protocol if carves else "held-out",
        guessed_columns=parts.guessed_columns,
    )


def _carve(
    parts: UnsplitTask, validation: Split | None, test: Split | None, *, protocol: Protocol, seed: int
) -> tuple[Split, Split, Split, list[str]]:
    train, notes = parts.train, []
    test_size, validation_size = parts.sizes or (None, None)

    def carve(split: Literal["test", "validation"], size: int | None, share: float, origin: str) -> tuple[Split, Split]:
        rest, carved = divide(train, size or max(1, round(len(train) * share)), seed=seed, purpose=split)
        percent = "" if size else f"{share:.0%}, "
        notes.append(f"{split}: {counted(len(carved), 'row')} carved from {origin} ({percent}seed {seed})")
        return rest, carved

    if test is None or validation is None:
        _refuse_single_examples(parts)
        notes += _note_repeated_rows(parts)
    if test is None:
        train, test = carve("test", test_size, TEST_SHARE, parts.source)
        validation = test if protocol == "paper" else validation
    if validation is None:
        origin = "train" if parts.test is not None else "the rest"
        train, validation = carve("validation", validation_size, VALIDATION_SHARE, origin)
    if not len(test) or not len(validation):
        raise _nothing_to_carve(parts)
    return train, validation, test, notes


def _nothing_to_carve(parts: UnsplitTask) -> DataError:
    rows = counted(len(parts.train), "row")
    if len(set(zip(parts.train.texts, parts.train.pairs or parts.train.texts, strict=True))) == 1:
        same = f"{parts.source}: all {rows} have the same text, and copies stay together"
        return DataError(f"{same}: nothing is left to test on; is it the right column (`text`)?")
    few = f"{rows} or groups of rows"
    if parts.kind == "classification" and len(parts.label_names) * 5 > len(parts.train):
        few = f"{rows} of {len(parts.label_names)} classes"
    return DataError(
        f"{parts.source}: {few} are too few to carve test and validation rows from; add rows, or (except in studies) "
        "give `validation` and `test`"
    )


def _refuse_single_examples(parts: UnsplitTask) -> None:
    if parts.kind != "classification":
        return
    sizes = Counter(parts.train.labels)
    single = next((label for label, size in sorted(sizes.items()) if size == 1), None)
    if single is not None:
        row, name = parts.train.rows[parts.train.labels.index(single)], parts.label_names[int(single)]
        hint = ", or omit `kind` if these are numbers to predict" if "." in name and name[-1].isdigit() else ""
        raise DataError(
            f"{parts.source}:{row}: the only example of class {show(name)}; carving a split needs two or more per "
            f"class: add examples, merge the class, or (except in studies) give `validation` and `test`{hint}"
        )


def _note_repeated_rows(parts: UnsplitTask) -> list[str]:
    repeated, conflicts = count_duplicates(parts.train)
    if not repeated:
        return []
    clash = f"; {counted(conflicts, 'text')} with more than one label" if conflicts else ""
    return [f"{counted(repeated, 'row')} of train repeat an earlier one{clash}; copies stay together in one split"]


def _note_shared_rows(parts: UnsplitTask) -> list[str]:
    pairs = [
        ("validation", parts.validation, "train", parts.train),
        ("test", parts.test, "train", parts.train),
        ("test", parts.test, "validation", parts.validation),
    ]
    notes = []
    for name, split, other_name, other in pairs:
        twins = count_twins(split, other) if split is not None and other is not None else 0
        if twins and split is not None:
            also = "also occurs" if twins == 1 else "also occur"
            rows = f"{twins:,} of {counted(len(split), name + ' row')}"
            notes.append(f"{rows} {also} in {other_name}; given splits are not changed")
    return notes
