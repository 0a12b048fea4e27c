"""Arrays to Parquet and back, by DuckDB: each array a column, those of one length a file. Exact to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_KINDS = "iufb"
# Read at a time: DuckDB holds a result once in its own form before it becomes arrays.
_BATCH_BYTES = 64 << 20


class Column(NamedTuple):
    """Where an array lies."""

    name: str
    file: str
    dtype: str
    rows: int


def storable(array: object) -> bool:
    """Whether an array can be kept: one dimension, numbers or truth values."""
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in _KINDS and array.dtype.isnative


def write(folder: Path, arrays: Mapping[str, Array]) -> list[Column]:
    """Write arrays below *folder*. Raises ``duckdb.Error`` where that fails: a full disk, say."""
    lengths: dict[int, list[str]] = {}
    for name, array in arrays.items():
        lengths.setdefault(len(array), []).append(name)
    written: list[Column] = []
    connection = _connect()
    try:
        for number, (rows, names) in enumerate(lengths.items()):
            file = f"{number}.parquet"
            connection.register("arrays", {name: arrays[name] for name in names})
            connection.execute(f"COPY arrays TO '{_quoted(folder / file)}' (FORMAT parquet, COMPRESSION zstd)")
            connection.unregister("arrays")
            written += [Column(name, file, arrays[name].dtype.str, rows) for name in names]
    finally:
        connection.close()
    return written


def read(folder: Path, columns: Sequence[Column]) -> dict[str, Array]:
    """Read them again. Raises ``duckdb.Error``, or ``ValueError`` where something else is there than was written."""
    found: dict[str, Array] = {}
    connection = _connect()
    try:
        for batch in _batches(columns):
            chosen = ", ".join('"' + column.name.replace('"', '""') + '"' for column in batch)
            path = _quoted(folder / batch[0].file)
            made: dict[str, Array] = connection.execute(f"SELECT {chosen} FROM read_parquet('{path}')").fetchnumpy()
            for column in batch:
                found[column.name] = _checked(made[column.name], column)
    finally:
        connection.close()
    return found


def _batches(columns: Sequence[Column]) -> list[list[Column]]:
    """Columns of one file, as many at a time as are small enough together."""
    batches: list[list[Column]] = []
    room = 0
    for column in columns:
        size = column.rows * np.dtype(column.dtype).itemsize
        if not batches or batches[-1][0].file != column.file or size > room:
            batches.append([])
            room = _BATCH_BYTES
        batches[-1].append(column)
        room -= size
    return batches


def _checked(array: Array, column: Column) -> Array:
    if isinstance(array, np.ma.MaskedArray):  # NaN, which DuckDB takes for NULL
        if array.dtype.kind != "f":
            raise ValueError(f"{column.name}: values are missing")
        array = array.filled(np.nan)
    if len(array) != column.rows or array.dtype != np.dtype(column.dtype):
        raise ValueError(f"{column.name}: {len(array)} values of {array.dtype}")
    return array


def _connect() -> Any:
    import duckdb

    # The Parquet reader is built in; nothing is fetched.
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(":memory:", config=settings)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
