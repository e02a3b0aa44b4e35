"""Typed sources -> `RawTable`: Parquet files, pandas DataFrames, `datasets.Dataset`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frostline.errors import DataError, first_line
from frostline.tasks.raw_table import RawTable, listed, show

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset


def read_parquet(name: str, content: bytes) -> RawTable:
    """Return the rows of a Parquet file; class names written by `datasets` are kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        arrow = pq.read_table(pa.BufferReader(content))
        arrow.validate(full=True)  # strings that are not UTF-8, offsets that point nowhere
        return _read_arrow(name, arrow, _read_class_names(arrow.schema.metadata or {}))
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise DataError(f"{name}: broken Parquet file ({first_line(problem)}); download or write it again") from None


def read_in_memory(name: str, source: Any) -> RawTable | None:
    """Return the rows of a pandas DataFrame or a `datasets.Dataset`; None for anything else."""
    kind = type(source).__name__
    if kind == "DataFrame":
        return read_frame(name, source)
    return read_dataset(name, source) if kind == "Dataset" else None


def read_dataset(name: str, dataset: Dataset) -> RawTable:
    """Return the rows of a `datasets.Dataset`, in its order, with the names of its class labels."""
    names = {column: tuple(f.names) for column, f in dataset.features.items() if type(f).__name__ == "ClassLabel"}
    return _read_arrow(name, dataset.with_format("arrow")[:], names)


def read_frame(name: str, frame: pd.DataFrame) -> RawTable:
    """Return the rows of a pandas DataFrame, numbered from 1 whatever its index is."""
    columns = [str(column) for column in frame.columns]
    _check_shape(name, columns, len(frame))
    cells = {column: [_to_plain(v) for v in _values(frame.iloc[:, i])] for i, column in enumerate(columns)}
    return RawTable(name=name, columns=cells, rows=range(1, len(frame) + 1), cells="typed")


def _read_arrow(name: str, arrow: Any, class_names: dict[str, tuple[str, ...]]) -> RawTable:
    _check_shape(name, arrow.column_names, arrow.num_rows)
    return RawTable(
        name=name,
        columns=_Columns(arrow),
        rows=range(1, arrow.num_rows + 1),
        cells="typed",
        class_names=class_names,
    )


class _Columns(Mapping[str, Sequence[object]]):
    """Columns that become Python values when they are first read: most are never used."""

    def __init__(self, arrow: Any) -> None:
        self._arrow = arrow
        self._cells: dict[str, list[object]] = {}

    def __getitem__(self, column: str) -> list[object]:
        if column not in self._cells:
            self._cells[column] = _cells(self._arrow.column(column))
        return self._cells[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrow.column_names)

    def __len__(self) -> int:
        return len(self._arrow.column_names)


def _cells(column: Any) -> list[object]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values: list[object] = column.to_pylist()
    if pa.types.is_float32(column.type) or pa.types.is_float16(column.type):
        return _as_written(values)
    return values


def _values(series: pd.Series[Any]) -> list[object]:
    values: list[object] = series.tolist()
    return _as_written(values) if str(series.dtype).lower() in ("float32", "float16") else values


def _as_written(values: list[object]) -> list[object]:
    """Return single-precision numbers as the decimals they were written from: 3.8, not 3.799999952316284."""
    import numpy as np

    return [float(str(np.float32(v))) if isinstance(v, float) else v for v in values]


def _to_plain(cell: object) -> object:
    """Return the cell without the types of numpy and pandas; their missing values become None."""
    if isinstance(cell, str | bool | int | float | list | dict | tuple) or cell is None:
        return float(cell) if isinstance(cell, float) else cell
    import pandas as pd

    if cell is pd.NA or cell is pd.NaT:
        return None
    return cell.tolist() if hasattr(cell, "tolist") else cell  # numpy scalars and arrays


def _read_class_names(metadata: dict[bytes, bytes]) -> dict[str, tuple[str, ...]]:
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return {
            column: tuple(str(name) for name in feature["names"])
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _check_shape(name: str, columns: list[str], rows: int) -> None:
    repeated = [column for column in dict.fromkeys(columns) if columns.count(column) > 1]
    if repeated:
        raise DataError(f"{name}: more than one column is named {listed([show(c) for c in repeated])}")
    if not rows:
        raise DataError(f"{name}: has no rows")
