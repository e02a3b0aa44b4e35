"""Benchmark tasks from the hub's format or the official files: one description of columns and labels serves both.

A description names, for every role, the columns that may hold it ('sentence1' on the hub is '#1 String' in MRPC's own
file). What differs more than in names (nested rows, files without a header) is tidied first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from frostline.errors import DataError, OptionError
from frostline.tasks.arrow import read_dataset
from frostline.tasks.assemble import Parts
from frostline.tasks.delimited import read_csv, read_plain_tsv
from frostline.tasks.files import SUFFIXES, format_of, read_file, read_text
from frostline.tasks.hub import is_saved_dataset, load_hub, load_saved
from frostline.tasks.labels import LabelColumn, parse_choice_labels, parse_known_labels
from frostline.tasks.preset import PRESETS, Preset
from frostline.tasks.raw_table import Table, counted, listed, show
from frostline.tasks.task import Kind, Labels, Split

if TYPE_CHECKING:
    from datasets import DatasetDict


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The texts of a benchmark's rows, built from its columns."""

    texts: Sequence[str]
    pairs: Sequence[str] | None = None
    choices: Sequence[tuple[str, ...]] | None = None
    groups: Sequence[str] | None = None


Builder = Callable[[Table], Fields]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """How to read a benchmark task, wherever it lies.

    Args:
        name: the preset's name.
        summary: one line for lists.
        hub: dataset id and configuration on the hub.
        folders: names that its folder may have, in any case and punctuation.
        columns: role -> the columns that may hold it, the hub's name first; 'label' is one of the roles.
        build: texts, pairs, choices and groups from a table whose columns are named by role.
        label_names: official names in official order; empty for regression.
        metrics: names in `METRICS`, the deciding one first.
        kind: what sort of answer it wants.
        aliases: further names of the preset.
        tags: as in `Task`.
        train_files: stems of the training file, on disk and on the hub.
        dev_files: stems of the official dev file (which becomes the test split).
        headerless: column names for formats whose official file has no header.
        tidy: straightens the official form of a table, if it differs by more than names.
        drops_label: a label that marks rows to leave out.
        drops_short_rows: whether the official file is known to have damaged rows.
        dev_alone: whether the dev file alone makes a task, with splits carved from it.
    """

    name: str
    summary: str
    hub: tuple[str, str | None]
    folders: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    build: Builder
    label_names: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    kind: Kind = "classification"
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    train_files: tuple[str, ...] = ("train",)
    dev_files: tuple[str, ...] = ("dev", "validation", "val")
    headerless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tidy: Callable[[Table], Table] | None = None
    drops_label: str | None = None
    drops_short_rows: bool = False
    dev_alone: bool = False


def register(benchmark: Benchmark) -> Preset:
    """The preset of a benchmark, now in `PRESETS`."""

    def read(data_dir: str | Path | DatasetDict | None, revision: str | None) -> Parts:
        return _read(benchmark, data_dir, revision)

    preset = Preset(
        name=benchmark.name,
        summary=benchmark.summary,
        kind=benchmark.kind,
        label_names=benchmark.label_names,
        metrics=benchmark.metrics,
        aliases=benchmark.aliases,
        tags=benchmark.tags,
        read=read,
    )
    return PRESETS.add(benchmark.name, preset)


def _read(task: Benchmark, data_dir: str | Path | DatasetDict | None, revision: str | None) -> Parts:
    if data_dir is None:
        name, config = task.hub
        found = load_hub(name, config=config, revision=revision, hint="pass `data_dir=FOLDER` with the official files")
        train, dev = _hub_tables(task, found)
        source = f"{name}:{config or 'default'}" + (f"@{revision}" if revision else "")
    elif isinstance(data_dir, str | Path):
        if revision is not None:
            raise OptionError("`revision` goes with the hub, not with `data_dir`")
        folder = _task_folder(task, Path(data_dir))
        train, dev = _folder_tables(task, folder)
        source = str(folder)
    else:
        train, dev = _hub_tables(task, data_dir)
        source = "DatasetDict"
    notes: list[str] = []
    if train is None:
        notes.append(f"there is no training file for {task.name}; the official dev rows are split anew")
        train, dev = dev, None
    if train is None:
        raise DataError(f"{source}: neither train nor dev rows for {task.name}")
    return Parts(
        name=task.name,
        kind=task.kind,
        label_names=task.label_names,
        train=_split(task, train, "train", notes),
        test=None if dev is None else _split(task, dev, "dev", notes),
        source=train.name if dev is None else source,
        metrics=task.metrics,
        notes=tuple(notes),
        tags=task.tags,
    )


def _hub_tables(task: Benchmark, found: DatasetDict) -> tuple[Table | None, Table | None]:
    tables = []
    for stems in (task.train_files, task.dev_files):
        stem = next((stem for stem in stems if stem in found), None)
        if stem is None:
            raise DataError(f"{task.name}: the dataset has no split {' or '.join(stems)}; it has {listed(list(found))}")
        tables.append(read_dataset(f"{task.name}[{stem}]", found[stem]))
    return tables[0], tables[1]


def _task_folder(task: Benchmark, given: Path) -> Path:
    """The folder with the task's files: a sub-folder with one of its names, or the given folder itself."""
    if not given.is_dir():
        what = "is a file, not a folder" if given.exists() else "no such folder"
        raise DataError(f"{given}: {what}; `data_dir` takes the folder with the files of {task.name}")
    wanted = {_key(name) for name in task.folders}
    inside = sorted(entry for entry in given.iterdir() if entry.is_dir() and _key(entry.name) in wanted)
    if inside:
        return inside[0]
    if is_saved_dataset(given) or any(_find(given, stems) for stems in (task.train_files, task.dev_files)):
        return given
    raise DataError(
        f"{given}: nothing for {task.name}; looked for a folder {' or '.join(task.folders)}, or "
        f"{_wanted_files(task.train_files)} in it"
    )


def _folder_tables(task: Benchmark, folder: Path) -> tuple[Table | None, Table | None]:
    if is_saved_dataset(folder):
        found = load_saved(folder)
        if not isinstance(found, dict):
            raise DataError(
                f"{folder}: holds one saved split; {task.name} needs a saved DatasetDict with train and dev"
            )
        return _hub_tables(task, found)
    train, dev = _find(folder, task.train_files), _find(folder, task.dev_files)
    for paths, stems in ((train, task.train_files), (dev, task.dev_files)):
        if not paths and not (paths is train and task.dev_alone):
            raise DataError(f"{folder}: no {stems[0]} file for {task.name}; looked for {_wanted_files(stems)}")
    return _joined(task, train), _joined(task, dev)


def _find(folder: Path, stems: Sequence[str]) -> list[Path]:
    """The file with one of these stems and a known suffix, or its shards (train-00000-of-00002.parquet ...)."""
    for stem in stems:
        for suffix in (".tsv", *(s for s in SUFFIXES if s != ".tsv")):
            whole = [path for end in ("", ".gz") if (path := folder / f"{stem}{suffix}{end}").is_file()]
            if whole:
                return whole[:1]
        shards = sorted(folder.glob(f"{stem}-[0-9]*-of-[0-9]*.parquet"))
        if shards:
            return shards
    return []


def _wanted_files(stems: Sequence[str]) -> str:
    return ", ".join(f"{stem}{suffix}" for stem in stems for suffix in (".tsv", ".jsonl", ".csv", ".parquet"))


def _joined(task: Benchmark, paths: list[Path]) -> Table | None:
    tables = [_official_table(task, path) for path in paths]
    if not tables:
        return None
    if len(tables) == 1:
        return tables[0]
    columns = {column: [cell for table in tables for cell in table.columns[column]] for column in tables[0].columns}
    rows = range(1, 1 + sum(len(table) for table in tables))
    return replace(tables[0], columns=columns, rows=rows)


def _official_table(task: Benchmark, path: Path) -> Table:
    suffix = format_of(path)
    columns = task.headerless.get(suffix)
    if suffix == ".tsv":
        return read_plain_tsv(str(path), read_text(path), columns=columns, drops_short_rows=task.drops_short_rows)
    if suffix == ".csv" and columns:
        return read_csv(str(path), read_text(path), columns=columns)
    return read_file(path)


def _split(task: Benchmark, table: Table, name: str, notes: list[str]) -> Split:
    if table.dropped:
        notes.append(f"{name}: {counted(len(table.dropped), 'damaged row')} left out ({listed(list(table.dropped))})")
    table = _by_role(task, task.tidy(table) if task.tidy else table)
    if task.drops_label is not None:
        kept = [i for i, cell in enumerate(table.columns["label"]) if cell != task.drops_label]
        if len(kept) < len(table):
            dropped = counted(len(table) - len(kept), "row")
            notes.append(f"{name}: {dropped} without an agreed label ({task.drops_label!r}) left out")
            table = _rows_of(table, kept)
    fields = task.build(table)
    return Split(
        texts=tuple(fields.texts),
        pairs=None if fields.pairs is None else tuple(fields.pairs),
        choices=None if fields.choices is None else tuple(fields.choices),
        labels=_labels(task, table, fields),
        groups=None if fields.groups is None else tuple(fields.groups),
        rows=tuple(table.rows),
    )


def _by_role(task: Benchmark, table: Table) -> Table:
    chosen = {}
    for role, candidates in task.columns.items():
        column = next((c for c in candidates if c in table.columns), None)
        if column is None:
            raise DataError(
                f"{table.name}: no column {' or '.join(show(c) for c in candidates)}; this is not the format of "
                f"{task.name} (it has {listed([show(c, width=40) for c in table.columns])})"
            )
        chosen[role] = column
    columns = {role: table.columns[column] for role, column in chosen.items()}
    names = {role: table.class_names[column] for role, column in chosen.items() if column in table.class_names}
    return replace(table, columns=columns, class_names=names)


def _rows_of(table: Table, kept: Sequence[int]) -> Table:
    columns = {column: [cells[i] for i in kept] for column, cells in table.columns.items()}
    return replace(table, columns=columns, rows=[table.rows[i] for i in kept])


def _labels(task: Benchmark, table: Table, fields: Fields) -> Labels:
    if fields.choices is not None:
        return parse_choice_labels(table, "label", fields.choices)
    if not task.label_names:
        return parse_known_labels(table, "label", LabelColumn(kind="regression", names=(), labels=()))
    known = LabelColumn(kind="classification", names=task.label_names, labels=())
    # The hub's own class names are not always readable ('1' and '2' for Yelp): its numbers count, in the same order.
    numbered = replace(
        table, columns={"label": [_named(task, cell) for cell in table.columns["label"]]}, class_names={}
    )
    return parse_known_labels(numbered, "label", known)


def _named(task: Benchmark, cell: object) -> object:
    """The official name of a class number or boolean; -1, the hub's 'no label', becomes nothing; names stay."""
    if isinstance(cell, str) and cell not in task.label_names and cell.strip().isdecimal():
        cell = int(cell)
    if isinstance(cell, int) and 0 <= cell < len(task.label_names):
        return task.label_names[cell]
    return None if isinstance(cell, int) and cell == -1 else cell


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
