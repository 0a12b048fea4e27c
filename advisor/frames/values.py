"""Plain values of Python as columns of a frame, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from advisor.frames.schema import Column, Schema

if TYPE_CHECKING:
    from pandas.api.extensions import ExtensionArray


_NO_WORDS = pd.CategoricalDtype(pd.Index([], dtype=object))
"""Text, where pandas by itself makes numbers of categories that hold none, which SQL could not compare with text."""


@lru_cache(maxsize=256)
def _categories(words: tuple[str, ...]) -> pd.CategoricalDtype[Any]:
    """Categories of a column that holds these words. pandas takes longer to make them than all else of a row."""
    if not words:
        return _NO_WORDS
    dtype: pd.CategoricalDtype[Any] = pd.Categorical(words).dtype
    return dtype


def as_declared(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return the table of a frame, or of some of its columns, with columns of text as text, also those that hold none."""
    for column in schema.columns:
        if column.name not in table:
            continue
        dtype = table[column.name].dtype
        if column.type == "VARCHAR" and isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype.kind == "f":
            table[column.name] = pd.Categorical.from_codes(np.full(len(table), -1), dtype=_NO_WORDS, validate=False)
    return table


def assembled(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Some columns of a table as they are, without a copy."""
    return pd.DataFrame({name: table[name] for name in columns}, copy=False)


def joined(known: pd.DataFrame, added: pd.DataFrame) -> pd.DataFrame:
    """Columns of two tables of a frame as one."""
    columns = {name: table[name] for table in (known, added) for name in table.columns}
    return pd.DataFrame(columns, copy=False)


def typed(values: Sequence[Any], column: Column) -> ExtensionArray:
    """Plain values as pandas' nullable array for the column; None, NA and NaN are missing, not NaN or 0."""
    blank = [value is None or value is pd.NA or value != value for value in values]
    if column.type == "VARCHAR":
        words = tuple(sorted({value for missing, value in zip(blank, values, strict=True) if not missing}))
        codes = {word: code for code, word in enumerate(words)}
        numbers = [-1 if missing else codes[value] for missing, value in zip(blank, values, strict=True)]
        return pd.Categorical.from_codes(np.array(numbers, np.int64), dtype=_categories(words), validate=False)
    absent = np.array(blank, np.bool_)
    numbers = [0 if missing else value for missing, value in zip(blank, values, strict=True)]
    if column.type == "BIGINT":
        return pd.arrays.IntegerArray(np.array(numbers, np.int64), absent)
    if column.type == "DOUBLE":
        return pd.arrays.FloatingArray(np.array(numbers, np.float64), absent)
    return pd.arrays.BooleanArray(np.array(numbers, np.bool_), absent)


def plain(value: Any, column: Column) -> Any:
    """Return one value as the column gives it back: what is missing is None."""
    if value is None or value is pd.NA or value != value:
        return None
    return value if column.type == "VARCHAR" else _PYTHON[column.type](value)


_PYTHON: dict[str, type[int | float | bool]] = {"BIGINT": int, "DOUBLE": float, "BOOLEAN": bool}


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as plain values of Python by column; what is missing is None."""
    names = [str(name) for name in table.columns]
    if len(table) == 1:
        row = table.iloc[0]
        # A row of several types holds each value as its column does, without a Series for every column.
        if row.dtype == object:
            return [dict(zip(names, map(_plain, row.tolist()), strict=True))]
    columns = [plain_list(table[name].tolist()) for name in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_list(values: Sequence[Any]) -> list[Any]:
    """Return the values of a column as Python has them; None for what is missing."""
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """Return a value as Python has it; None where it is missing."""
    if value is pd.NA or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value
