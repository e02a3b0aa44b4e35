"""A task as it was read -> the task to work on: carve the missing splits, choose the metric, and note what was done.

Given splits are never altered. A missing test split is a fifth of the rows, a missing validation split a tenth of the
remaining ones; both are carved from train. With the protocol 'paper', one split is used both for selection and for the
reported result, as in the papers, and the task's notes call selected results optimistic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Literal

from frostline.errors import DataError, OptionError
from frostline.tasks.metrics import choose_metrics
from frostline.tasks.raw_table import counted, show
from frostline.tasks.splits import count_duplicates, count_twins, divide
from frostline.tasks.task import Protocol, Split, Task

OPTIMISTIC = "protocol 'paper': the test split is the validation split too; what is selected on it is optimistic"
TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1


def assemble(
    task: Task,
    *,
    protocol: Protocol,
    seed: int,
    metric: str | None,
    carves: bool = True,
    sizes: tuple[int, int] | None = None,
) -> Task:
    """Return the task with all its splits and metrics; its notes list what was done.

    Args:
        task: the task with the splits that were given, and its own metrics.
        protocol: 'held-out', or 'paper' to select and report on the same split.
        seed: random seed of the carved splits.
        metric: the metric that decides; None for the first of the task's own.
        carves: whether to carve missing splits.
        sizes: numbers of rows of (test, validation) to carve, if they are fixed.
    """
    if protocol not in ("held-out", "paper"):
        raise OptionError(f"unknown protocol {protocol!r}; known: held-out, paper")
    classes = len(task.label_names)
    metrics = choose_metrics(task.kind, task.train, n_classes=classes, asked=metric, default=task.metrics)
    notes = [*task.notes, *_note_shared_rows(task)]
    if not carves:
        return replace(task, metrics=metrics, notes=tuple(notes))
    validation, test = task.validation, task.test
    if protocol == "paper":
        validation = test = test or validation
    missing = tuple(name for name, split in (("validation", validation), ("test", test)) if split is None)
    train, validation, test, carved = _carve(task, validation, test, protocol=protocol, seed=seed, sizes=sizes)
    notes += carved
    if protocol == "paper":
        notes += ["the validation split is not used"] if task.test and task.validation else []
        notes.append(OPTIMISTIC)
    return replace(
        task,
        train=train,
        validation=validation,
        test=test,
        metrics=metrics,
        notes=tuple(notes),
        protocol=protocol,
        carved=missing,
    )


def _carve(
    task: Task,
    validation: Split | None,
    test: Split | None,
    *,
    protocol: Protocol,
    seed: int,
    sizes: tuple[int, int] | None,
) -> tuple[Split, Split, Split, list[str]]:
    train, notes = task.train, []
    test_size, validation_size = sizes or (None, None)

    def carve(split: Literal["test", "validation"], size: int | None, share: float, origin: str) -> tuple[Split, Split]:
        rest, carved = divide(train, size or max(1, round(len(train) * share)), seed=seed, purpose=split)
        percent = "" if size else f"{share:.0%}, "
        notes.append(f"{split}: {counted(len(carved), 'row')} carved from {origin} ({percent}seed {seed})")
        return rest, carved

    if test is None or validation is None:
        _refuse_single_examples(task)
        repeated, conflicts = count_duplicates(train)
        if repeated:
            clash = f"; {counted(conflicts, 'text')} with more than one label" if conflicts else ""
            rows = counted(repeated, "row")
            notes.append(f"{rows} of train repeat an earlier one{clash}; copies stay together in one split")
    if test is None:
        train, test = carve("test", test_size, TEST_SHARE, task.source)
        validation = test if protocol == "paper" else validation
    if validation is None:
        origin = "train" if task.test is not None else "the rest"
        train, validation = carve("validation", validation_size, VALIDATION_SHARE, origin)
    if not len(test) or not len(validation):
        raise _nothing_to_carve(task)
    return train, validation, test, notes


def _nothing_to_carve(task: Task) -> DataError:
    rows = counted(len(task.train), "row")
    if len(set(zip(task.train.texts, task.train.pairs or task.train.texts, strict=True))) == 1:
        same = f"{task.source}: all {rows} have the same text, and copies stay together"
        return DataError(f"{same}: nothing is left to test on; is it the right column (`text`)?")
    few = f"{rows} or groups of rows"
    if task.kind == "classification" and len(task.label_names) * 5 > len(task.train):
        few = f"{rows} of {len(task.label_names)} classes"
    return DataError(
        f"{task.source}: {few} are too few to carve test and validation rows from; add rows, or (except in studies) "
        "give `validation` and `test`"
    )


def _refuse_single_examples(task: Task) -> None:
    if task.kind != "classification":
        return
    sizes = Counter(task.train.labels)
    single = next((label for label, size in sorted(sizes.items()) if size == 1), None)
    if single is not None:
        row, name = task.train.rows[task.train.labels.index(single)], task.label_names[int(single)]
        hint = ", or omit `kind` if these are numbers to predict" if "." in name and name[-1].isdigit() else ""
        raise DataError(
            f"{task.source}:{row}: the only example of class {show(name)}; carving a split needs two or more per "
            f"class: add examples, merge the class, or (except in studies) give `validation` and `test`{hint}"
        )


def _note_shared_rows(task: Task) -> list[str]:
    notes = []
    for (other_name, other), (name, split) in combinations(task.splits.items(), 2):
        twins = count_twins(split, other)
        if twins:
            also = "also occurs" if twins == 1 else "also occur"
            rows = f"{twins:,} of {counted(len(split), name + ' row')}"
            notes.append(f"{rows} {also} in {other_name}; given splits are not changed")
    return notes
