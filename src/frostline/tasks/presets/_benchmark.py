"""Benchmark tasks in the hub's format or in the official files, read with one description of columns and labels.

A description lists the possible columns of every role ('sentence1' on the hub is '#1 String' in MRPC's own file).
Tables that differ by more than names (nested rows, files without a header) are tidied first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from frostline.errors import DataError, OptionError
from frostline.tasks.columns import Columns
from frostline.tasks.labels import LabelColumn, parse_choice_labels, parse_known_labels
from frostline.tasks.preset import PRESETS, DataDir, Preset, name_key
from frostline.tasks.raw_table import RawTable, counted, listed, show
from frostline.tasks.readers.arrow import read_dataset
from frostline.tasks.readers.delimited import read_csv, read_plain_tsv
from frostline.tasks.readers.files import SUFFIXES, format_of, read_file, read_text
from frostline.tasks.readers.hub import is_saved_dataset, load_hub, load_saved
from frostline.tasks.task import Labels, Split, Task
from frostline.tasks.texts import Texts, parse_rows, parse_texts

_TRAIN, _DEV = "train", "dev"  # names of the tables of every benchmark
_Tables = dict[str, RawTable | None]


@dataclass(frozen=True, kw_only=True)
class Benchmark(Preset):
    """A preset whose rows come from the hub or from the official files.

    Args:
        hub: dataset id and configuration on the hub.
        folders: possible names of its folder, in any case and punctuation.
        columns: possible columns of every role, the hub's name first; 'label' is one of the roles.
        text: role of the text.
        pair: role of the second text, if there is one.
        choices: roles of the choices of multiple choice.
        group: role of a text; rows in which it is the same are never separated.
        train_files: stems of the training file, on disk and on the hub.
        dev_files: stems of the official dev file (which becomes the test split).
        more_files: stems of further dev files, by the name of the test split that each becomes.
        headerless: column names for formats whose official file has no header.
        tidy: function from the official form of a table to the hub's, if they differ by more than names.
        combine: function that adds texts made of several columns to a table whose columns are named by role.
        drops_label: a label that marks rows to leave out.
        drops_short_rows: whether the official file is known to have damaged rows.
        dev_alone: whether the dev file alone makes a task, with splits carved from it.
    """

    hub: tuple[str, str | None]
    folders: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    text: str = "text"
    pair: str | None = None
    choices: tuple[str, ...] = ()
    group: str | None = None
    train_files: tuple[str, ...] = ("train",)
    dev_files: tuple[str, ...] = ("dev", "validation", "val")
    more_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headerless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tidy: Callable[[RawTable], RawTable] | None = None
    combine: Callable[[RawTable], RawTable] | None = None
    drops_label: str | None = None
    drops_short_rows: bool = False
    dev_alone: bool = False

    def read(self, data_dir: DataDir, revision: str | None) -> Task:
        """Return the official rows, from a folder (or dataset) if one is given, else from the hub."""
        if data_dir is None:
            name, config = self.hub
            hint = "pass `data_dir=FOLDER` with the official files"
            tables = _read_dict(self, load_hub(name, config=config, revision=revision, hint=hint))
            source = f"{name}:{config or 'default'}" + (f"@{revision}" if revision else "")
        elif isinstance(data_dir, str | Path):
            if revision is not None:
                raise OptionError("`revision` is for the hub, not for `data_dir`")
            folder = _find_folder(self, Path(data_dir))
            tables = _read_folder(self, folder)
            source = str(folder)
        else:
            tables = _read_dict(self, data_dir)
            source = "DatasetDict"
        train, dev = tables.pop(_TRAIN), tables.pop(_DEV)
        notes: list[str] = []
        if train is None:
            notes.append(f"there is no training file for {self.name}; splits are carved from the official dev rows")
            train, dev = dev, None
        if train is None:
            raise DataError(f"{source}: neither train nor dev rows for {self.name}")
        return Task(
            name=self.name,
            kind=self.kind,
            label_names=self.label_names,
            train=_parse_split(self, train, "train", notes),
            validation=None,
            test=None if dev is None else _parse_split(self, dev, "dev", notes),
            more_tests={name: _parse_split(self, table, name, notes) for name, table in tables.items() if table},
            source=train.name if dev is None else source,
            metrics=self.metrics,
            notes=tuple(notes),
            tags=self.tags,
        )

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """The stems of the training file, of the dev file and of every further one."""
        return {_TRAIN: self.train_files, _DEV: self.dev_files, **self.more_files}


def register(*benchmarks: Benchmark) -> None:
    """Add benchmarks to `PRESETS`."""
    for benchmark in benchmarks:
        PRESETS.add(benchmark.name, benchmark)


def _read_dict(task: Benchmark, splits: Mapping[str, Any]) -> _Tables:
    tables: _Tables = {}
    for name, stems in task.files.items():
        stem = next((stem for stem in stems if stem in splits), None)
        if stem is None:
            raise DataError(
                f"{task.name}: the dataset has no split {' or '.join(stems)}; it has {listed(list(splits))}"
            )
        tables[name] = read_dataset(f"{task.name}[{stem}]", splits[stem])
    return tables


def _find_folder(task: Benchmark, folder: Path) -> Path:
    """Return the folder with the task's files: a sub-folder with one of its names, or the given folder itself."""
    if not folder.is_dir():
        problem = "is a file, not a folder" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {problem}; `data_dir` takes the folder with the files of {task.name}")
    keys = {name_key(name) for name in task.folders}
    inside = sorted(entry for entry in folder.iterdir() if entry.is_dir() and name_key(entry.name) in keys)
    if inside:
        return inside[0]
    if is_saved_dataset(folder) or any(_find_files(folder, stems) for stems in task.files.values()):
        return folder
    raise DataError(
        f"{folder}: nothing for {task.name}; expected a folder {' or '.join(task.folders)}, or "
        f"{_possible_files(task.train_files)} in it"
    )


def _read_folder(task: Benchmark, folder: Path) -> _Tables:
    if is_saved_dataset(folder):
        saved = load_saved(folder)
        if not isinstance(saved, dict):
            raise DataError(
                f"{folder}: contains one saved split; {task.name} needs a saved DatasetDict with train and dev"
            )
        return _read_dict(task, saved)
    tables: _Tables = {}
    for name, stems in task.files.items():
        paths = _find_files(folder, stems)
        if not paths and not (name == _TRAIN and task.dev_alone):
            raise DataError(f"{folder}: no {stems[0]} file for {task.name}; expected {_possible_files(stems)}")
        tables[name] = _read_files(task, paths)
    return tables


def _find_files(folder: Path, stems: Sequence[str]) -> list[Path]:
    """Return the file with one of these stems and a known suffix, or its shards (train-00000-of-00002.parquet ...)."""
    for stem in stems:
        names = [f"{stem}{suffix}{end}" for suffix in dict.fromkeys((".tsv", *SUFFIXES)) for end in ("", ".gz")]
        files = [folder / name for name in names if (folder / name).is_file()][:1]
        shards = sorted(folder.glob(f"{stem}-[0-9]*-of-[0-9]*.parquet"))
        if files or shards:
            return files or shards
    return []


def _possible_files(stems: Sequence[str]) -> str:
    return ", ".join(f"{stem}{suffix}" for stem in stems for suffix in (".tsv", ".jsonl", ".csv", ".parquet"))


def _read_files(task: Benchmark, paths: list[Path]) -> RawTable | None:
    tables = [_read_official(task, path) for path in paths]
    if len(tables) < 2:
        return tables[0] if tables else None
    columns = {column: [cell for table in tables for cell in table.columns[column]] for column in tables[0].columns}
    rows = range(1, 1 + sum(len(table) for table in tables))
    return replace(tables[0], columns=columns, rows=rows)


def _read_official(task: Benchmark, path: Path) -> RawTable:
    suffix = format_of(path)
    columns = task.headerless.get(suffix)
    if suffix == ".tsv":
        return read_plain_tsv(str(path), read_text(path), columns=columns, drops_short_rows=task.drops_short_rows)
    if suffix == ".csv" and columns:
        return read_csv(str(path), read_text(path), columns=columns)
    return read_file(path)


def _parse_split(task: Benchmark, table: RawTable, name: str, notes: list[str]) -> Split:
    if table.dropped:
        notes.append(f"{name}: {counted(len(table.dropped), 'damaged row')} left out ({listed(list(table.dropped))})")
    table = _name_by_role(task, task.tidy(table) if task.tidy else table)
    if task.drops_label is not None:
        kept = [i for i, cell in enumerate(table.columns["label"]) if cell != task.drops_label]
        if len(kept) < len(table):
            dropped = counted(len(table) - len(kept), "row")
            notes.append(f"{name}: {dropped} without an agreed label ({task.drops_label!r}) left out")
            kept_cells = {column: [cells[i] for i in kept] for column, cells in table.columns.items()}
            table = replace(table, columns=kept_cells, rows=[table.rows[i] for i in kept])
        if not kept:
            raise DataError(f"{table.name}: no row has an agreed label")
    table = task.combine(table) if task.combine else table
    columns = Columns(text=task.text, pair=task.pair, label="label", choices=task.choices)
    texts, pairs, choices = parse_rows(table, columns)
    return Split(
        texts=texts,
        pairs=pairs,
        choices=choices,
        labels=_parse_labels(task, table, choices),
        groups=parse_texts(table, task.group) if task.group else None,
        rows=tuple(table.rows),
    )


def _name_by_role(task: Benchmark, table: RawTable) -> RawTable:
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


def _parse_labels(task: Benchmark, table: RawTable, choices: Sequence[Texts] | None) -> Labels:
    if choices is not None:
        return parse_choice_labels(table, "label", choices)
    if task.label_names:
        # The hub's own class names are not always readable ('1' and '2' for Yelp), so only its numbers are used.
        names = [_official_name(task, cell) for cell in table.columns["label"]]
        table = replace(table, columns={"label": names}, class_names={})
    return parse_known_labels(table, "label", LabelColumn(kind=task.kind, names=task.label_names, labels=()))


def _official_name(task: Benchmark, cell: object) -> object:
    """Return the official name of a class number or boolean; -1, the hub's 'no label', becomes None; names stay."""
    if isinstance(cell, str) and cell not in task.label_names and cell.strip().isdecimal():
        cell = int(cell)
    if isinstance(cell, int) and 0 <= cell < len(task.label_names):
        return task.label_names[cell]
    return None if isinstance(cell, int) and cell == -1 else cell
