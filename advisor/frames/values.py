"""Plain values of Python as columns of a frame, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from advisor.frames.schema import Column

if TYPE_CHECKING:
    from pandas.api.extensions import ExtensionArray


@lru_cache(maxsize=256)
def _categories(words: tuple[str, ...], empty: bool) -> pd.CategoricalDtype:
    """Categories of a column that holds these words. pandas takes longer to make them than all else of a row."""
    dtype: pd.CategoricalDtype = pd.Categorical(words or (() if empty else (None,))).dtype
    return dtype


def typed(values: Sequence[Any], column: Column) -> ExtensionArray:
    """Plain values as pandas' nullable array for the column; None, NA and NaN are missing, not NaN or 0."""
    blank = [value is None or value is pd.NA or value != value for value in values]
    if column.type == "VARCHAR":
        words = tuple(sorted({value for missing, value in zip(blank, values, strict=True) if not missing}))
        codes = {word: code for code, word in enumerate(words)}
        numbers = [-1 if missing else codes[value] for missing, value in zip(blank, values, strict=True)]
        return pd.Categorical.from_codes(
            np.array(numbers, np.int64), dtype=_categories(words, not values), validate=False
        )
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
