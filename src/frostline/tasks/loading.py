"""`load_task`: a file, frame, dataset, preset or hub id -> `Task`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from frostline.errors import DataError, OptionError, did_you_mean
from frostline.tasks.assemble import assemble
from frostline.tasks.columns import Columns, check_column, choose_columns
from frostline.tasks.labels import LabelColumn, parse_choice_labels, parse_known_labels, parse_labels
from frostline.tasks.metrics import choose_metrics
from frostline.tasks.preset import DataDir, Preset, find_preset, near_preset, unknown_preset
from frostline.tasks.raw_table import RawTable, is_missing, listed, show
from frostline.tasks.readers.arrow import read_in_memory
from frostline.tasks.readers.files import format_of, has_known_suffix, missing_file, read_file
from frostline.tasks.readers.hub import is_saved_dataset, load_hub, load_saved
from frostline.tasks.task import KINDS, Kind, Labels, Protocol, Split, Task
from frostline.tasks.texts import parse_rows

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset, DatasetDict

    Source: TypeAlias = str | Path | pd.DataFrame | Dataset | DatasetDict

_HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w.+-]+))?")
_SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev", "validation_matched"),
    "test": ("test",),
}
_BENCHMARK_PREFIXES = ("glue/", "super_glue/", "superglue/")


def load_task(
    data: Source,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    choices: str | Sequence[str] | None = None,
    data_dir: DataDir = None,
    validation: Source | None = None,
    test: Source | None = None,
    metric: str | None = None,
    kind: Kind | None = None,
    protocol: Protocol = "held-out",
    revision: str | None = None,
    seed: int = 0,
    splits: bool = True,
) -> Task:
    """Return the task in a file, a DataFrame, a dataset, a preset or a hub dataset.

    Args:
        data: CSV, TSV, JSON lines, JSON or Parquet file (plain or .gz), a folder written by `save_to_disk`, a pandas
            DataFrame, a `Dataset` or `DatasetDict`, a preset's name, or owner/name[:config] on the hub.
        text: the column with the text; guessed from common names if not given, like the next three.
        text_pair: the column with the second text.
        label: the column with the label.
        choices: for multiple choice, the column with lists of choices, or the columns with one choice each.
        data_dir: for presets, the folder with the official files, or a DatasetDict in the hub's format.
        validation: a separate source of the validation rows.
        test: a separate source of the test rows.
        metric: the metric that decides, a name in `METRICS`.
        kind: classification or regression, for labels that could be either.
        protocol: 'held-out', or 'paper' to select and report on the same split.
        revision: branch, tag or commit on the hub.
        seed: random seed of the splits that are carved.
        splits: whether to carve missing splits; False keeps the rows as they are.

    Example:
        >>> sorted(frostline.load_task("reviews.csv", text="text", label="label").splits)
        ['test', 'train', 'validation']
    """
    if kind is not None and kind not in KINDS:
        raise OptionError(f"unknown kind {kind!r}{did_you_mean(str(kind), KINDS)}; known: {', '.join(KINDS)}")
    preset = preset_of(data)
    if preset is None:
        if data_dir is not None:
            hint = near_preset(data) if isinstance(data, str) else ""
            raise OptionError(f"`data_dir` needs a preset; {_name_of(data)} is not one{hint}")
        tables, name = _read_tables(data, revision)
        columns = choose_columns(tables["train"], text=text, text_pair=text_pair, label=label, choices=choices)
        notes = _drop_unlabelled(tables, columns)
        tables |= _read_given_splits({"validation": validation, "test": test}, data, existing=tables)
        task = _parse_tables(name, tables, columns, kind=kind, notes=notes, may_be_one=not splits)
    else:
        own = {"text": text, "text_pair": text_pair, "label": label, "choices": choices, "kind": kind}
        task = _read_preset(preset, {**own, "validation": validation, "test": test}, data_dir, revision)
    sizes = preset.sizes if preset else None
    return assemble(task, protocol=protocol, seed=seed, metric=metric, carves=splits, sizes=sizes)


def preset_of(data: object) -> Preset | None:
    """Return the preset with this name, unless there is a file or saved dataset of the same name."""
    if not isinstance(data, str) or (_exists(data) and (Path(data).is_file() or is_saved_dataset(data))):
        return None
    return find_preset(data)


def _read_preset(preset: Preset, options: Mapping[str, object], data_dir: DataDir, revision: str | None) -> Task:
    useless = [f"`{name}`" for name, value in options.items() if value is not None]
    if useless:
        raise OptionError(
            f"{', '.join(useless)}: not with the preset {preset.name}, which has its own columns and splits"
        )
    if not preset.takes_data_dir:
        for name, value in (("data_dir", data_dir), ("revision", revision)):
            if value is not None:
                raise OptionError(f"`{name}`: not with the preset {preset.name}, whose data Frostline downloads itself")
    return replace(preset.read(data_dir, revision), preset=preset.name)


def _read_tables(data: Source, revision: str | None) -> tuple[dict[str, RawTable], str]:
    """Return the tables by split, and the task's name."""
    if isinstance(data, str) and data == "-":
        raise OptionError("-: standard input is not read; give a file")
    if isinstance(data, str) and not _exists(data):
        match = _HUB_ID.fullmatch(data)
        if has_known_suffix(data) or data.startswith((".", "/", "~")) or (match is None and "/" in data):
            raise missing_file(Path(data))
        if match is None or data.lower().startswith(_BENCHMARK_PREFIXES):
            raise unknown_preset(data)
        hint = "check the name and the network" + near_preset(data)
        return _read_dict(data, load_hub(match[1], config=match[2], revision=revision, hint=hint)), data
    if revision is not None:
        raise OptionError(f"`revision` needs a hub dataset; {_name_of(data)} is not one")
    if isinstance(data, str | Path):
        if is_saved_dataset(data):
            saved = load_saved(data)
            return _read_dict(str(data), saved if isinstance(saved, dict) else {"train": saved}), Path(data).name
        stem = Path(data).name.removesuffix(".gz")
        return {"train": read_file(data)}, stem.removesuffix(format_of(data)) or stem
    if isinstance(data, dict):
        return _read_dict("DatasetDict", data), "DatasetDict"
    return {"train": _read_table(data, "data")}, type(data).__name__


def _read_given_splits(
    sources: Mapping[str, Source | None], data: Source, *, existing: Collection[str]
) -> dict[str, RawTable]:
    """Return the tables of splits that have a source of their own; raise if the data has such a split already."""
    given = {split: source for split, source in sources.items() if source is not None}
    for split in given:
        if split in existing:
            raise OptionError(f"`{split}`: {_name_of(data)} already has a {split} split; give one of them")
    return {split: _read_table(source, split) for split, source in given.items()}


def _read_table(source: Any, role: str) -> RawTable:
    """Return the table of one file, frame or dataset, for one role."""
    if isinstance(source, str | Path):
        return read_file(source)
    kind = type(source).__name__
    return _read_in_memory(kind if role == "data" else f"{kind} ({role})", source)


def _read_in_memory(name: str, source: Any) -> RawTable:
    table = read_in_memory(name, source)
    if table is None:
        raise OptionError(
            f"{name}: cannot read a task from a {type(source).__name__}; give a file, a DataFrame or a Dataset"
        )
    return table


def _read_dict(name: str, splits: Mapping[str, Any]) -> dict[str, RawTable]:
    if len(splits) == 1:
        return {"train": _read_in_memory(name, next(iter(splits.values())))}
    chosen = {role: next((n for n in names if n in splits), None) for role, names in _SPLIT_NAMES.items()}
    if chosen["train"] is None:
        has = f"it has {listed(list(splits))}" if splits else "it is empty"
        raise DataError(f"{name}: no split named train; {has}")
    return {role: _read_in_memory(f"{name}[{split}]", splits[split]) for role, split in chosen.items() if split}


def _drop_unlabelled(tables: dict[str, RawTable], columns: Columns) -> list[str]:
    """Remove the splits of a published dataset whose labels are secret, and return notes about them."""
    notes = []
    for role in [name for name in ("validation", "test") if name in tables]:
        table = tables[role]
        cells = table.columns.get(columns.label, ())
        secret = -1 if columns.label in table.class_names else None
        if all(is_missing(cell) or cell == secret for cell in cells):
            del tables[role]
            notes.append(f"the {role} split has no labels and is left out")
    return notes


def _parse_tables(
    name: str,
    tables: Mapping[str, RawTable],
    columns: Columns,
    *,
    kind: Kind | None,
    notes: Sequence[str],
    may_be_one: bool,
) -> Task:
    train = tables["train"]
    if kind == "multiple choice" and not columns.choices:
        raise OptionError(f"{train.name}: multiple choice needs the columns with the choices (`choices`)")
    if kind is not None and kind != "multiple choice" and columns.choices:
        raise OptionError(f"{train.name}: `choices` is for multiple choice, not for {kind}")
    for table in tables.values():
        for column in (columns.text, columns.label, *columns.choices, *([columns.pair] if columns.pair else [])):
            check_column(table, column, "the training rows")
    train_labels: LabelColumn | None = None
    splits: dict[str, Split] = {}
    for role, table in tables.items():
        texts, pairs, choices = parse_rows(table, columns)
        if choices is not None:
            labels: Labels = parse_choice_labels(table, columns.label, choices)
        elif train_labels is None:
            train_labels = parse_labels(table, columns.label, kind=kind, may_be_one=may_be_one)
            labels = train_labels.labels
        else:
            labels = parse_known_labels(table, columns.label, train_labels)
        splits[role] = Split(texts=texts, pairs=pairs, choices=choices, labels=labels, rows=tuple(table.rows))
    task_kind: Kind = train_labels.kind if train_labels else "multiple choice"
    names = train_labels.names if train_labels else _choice_names(splits)
    return Task(
        name=name,
        kind=task_kind,
        label_names=names,
        train=splits["train"],
        validation=splits.get("validation"),
        test=splits.get("test"),
        metrics=choose_metrics(task_kind, splits["train"], n_classes=len(names)),
        source=train.name,
        notes=(*columns.notes, *(train_labels.notes if train_labels else ()), *notes),
        guessed_columns=columns.guessed,
    )


def _choice_names(splits: Mapping[str, Split]) -> tuple[str, ...]:
    most = max(len(candidates) for split in splits.values() for candidates in split.choices or ())
    return tuple(str(number) for number in range(most))


def _exists(data: str) -> bool:
    try:
        return Path(data).exists()
    except OSError:  # a name too long for any file
        return False


def _name_of(data: object) -> str:
    return show(str(data)) if isinstance(data, str | Path) else type(data).__name__
