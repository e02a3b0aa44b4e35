"""Rows and labels -> `Task`: carve the splits that are missing, choose the metric, and say what was done.

Given splits are never altered. A test split that is missing is a fifth of the rows, a validation split a tenth of what
is then left, both carved from train. Under the protocol 'paper' one split is both selected on and reported, as the
papers do, and the task says that its results are optimistic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from frostline.errors import DataError, OptionError
from frostline.tasks.metrics import check_metric, choose_metrics
from frostline.tasks.raw_table import counted, show
from frostline.tasks.splits import count_duplicates, count_twins, divide
from frostline.tasks.task import Kind, Protocol, Split, Task

OPTIMISTIC = "protocol 'paper': the test split is also selected on, so results are optimistic"
TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A task before its missing splits are carved.

    Args:
        name: the task's name.
        kind: what sort of answer it wants.
        label_names: as in `Task`.
        train: the rows to learn from, and to carve from.
        validation: the given validation rows, if any.
        test: the given test rows, if any.
        source: where the rows came from; begins messages about them.
        metrics: the task's own metrics, the deciding one first; empty for the default.
        sizes: rows of (test, validation) to carve, where they are fixed.
        notes: what is already to be said.
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


def assemble(parts: Parts, *, protocol: Protocol, seed: int, metric: str | None, carves: bool = True) -> Task:
    """The task made of these parts, with what happened to them in its notes."""
    if protocol not in ("held-out", "paper"):
        raise OptionError(f"unknown protocol {protocol!r}; known: held-out, paper")
    metrics = _metrics(parts, metric)
    notes = [*parts.notes, *_given_duplicates(parts)]
    train, validation, test = parts.train, parts.validation, parts.test
    if carves:
        if protocol == "paper":
            validation = test = test or validation
        train, validation, test, said = _carve(parts, validation, test, protocol=protocol, seed=seed)
        notes += said
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


def _metrics(parts: Parts, asked: str | None) -> tuple[str, ...]:
    n_classes = len(parts.label_names)
    if not parts.metrics:
        return choose_metrics(parts.kind, parts.train, n_classes=n_classes, asked=asked)
    if asked is None:
        return parts.metrics
    check_metric(asked, parts.kind, n_classes=n_classes)
    return (asked, *(name for name in parts.metrics if name != asked))


def _carve(
    parts: Parts, validation: Split | None, test: Split | None, *, protocol: Protocol, seed: int
) -> tuple[Split, Split, Split, list[str]]:
    train, said = parts.train, []
    if test is None or validation is None:
        _refuse_single_examples(parts)
        said += _own_duplicates(parts)
    if test is None:
        size = parts.sizes[0] if parts.sizes else max(1, round(len(train) * TEST_SHARE))
        train, test = divide(train, size, seed=seed, purpose="test")
        share = "" if parts.sizes else f"{TEST_SHARE:.0%}, "
        said.append(f"test: {counted(len(test), 'row')} carved from {parts.source} ({share}seed {seed})")
        if protocol == "paper":
            validation = test
    if validation is None:
        size = parts.sizes[1] if parts.sizes else max(1, round(len(train) * VALIDATION_SHARE))
        train, validation = divide(train, size, seed=seed, purpose="validation")
        share = "" if parts.sizes else f"{VALIDATION_SHARE:.0%}, "
        origin = "train" if parts.test is not None else "the rest"
        said.append(f"validation: {counted(len(validation), 'row')} carved from {origin} ({share}seed {seed})")
    if not len(test) or not len(validation):
        raise _nothing_to_carve(parts)
    return train, validation, test, said


def _nothing_to_carve(parts: Parts) -> DataError:
    rows = counted(len(parts.train), "row")
    if len(set(zip(parts.train.texts, parts.train.pairs or parts.train.texts, strict=True))) == 1:
        same = f"{parts.source}: all {rows} have the same text, and copies stay together"
        return DataError(f"{same}: nothing is left to test on; is it the right column (`text`)?")
    few = f"{rows} or groups of rows"
    if parts.kind == "classification" and len(parts.label_names) * 5 > len(parts.train):
        few = f"{rows} of {len(parts.label_names)} classes"
    return DataError(
        f"{parts.source}: {few} are too few to carve test and validation rows from; add rows, or, but for studies, "
        "give `validation` and `test`"
    )


def _refuse_single_examples(parts: Parts) -> None:
    if parts.kind != "classification":
        return
    sizes = Counter(parts.train.labels)
    single = next((label for label, size in sorted(sizes.items()) if size == 1), None)
    if single is not None:
        row, name = parts.train.rows[parts.train.labels.index(single)], parts.label_names[int(single)]
        hint = ", or leave `kind` out if these are numbers to predict" if "." in name and name[-1].isdigit() else ""
        raise DataError(
            f"{parts.source}:{row}: the only example of class {show(name)}; a class needs two or more for a split to "
            f"be carved: add examples, merge the class, or, but for studies, give `validation` and `test`{hint}"
        )


def _own_duplicates(parts: Parts) -> list[str]:
    repeated, conflicts = count_duplicates(parts.train)
    if not repeated:
        return []
    clash = f"; {counted(conflicts, 'text')} with more than one label" if conflicts else ""
    return [f"{counted(repeated, 'row')} of train repeat an earlier one{clash}; copies stay together in one split"]


def _given_duplicates(parts: Parts) -> list[str]:
    pairs = [
        ("validation", parts.validation, "train", parts.train),
        ("test", parts.test, "train", parts.train),
        ("test", parts.test, "validation", parts.validation),
    ]
    said = []
    for name, split, other_name, other in pairs:
        twins = count_twins(split, other) if split is not None and other is not None else 0
        if twins and split is not None:
            also = "also occurs" if twins == 1 else "also occur"
            rows = f"{twins:,} of {counted(len(split), name + ' row')}"
            said.append(f"{rows} {also} in {other_name}; given splits are left as they are")
    return said
