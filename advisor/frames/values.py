"""Plain values of Python as columns of a frame, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from advisor.frames.schema import Column

if TYPE_CHECKING:
    from pandas.api.extensions import ExtensionArray


def typed(values: Sequence[Any], column: Column) -> ExtensionArray:
    """Plain values as pandas' nullable array for the column; None, NA and NaN are missing, not NaN or 0."""
    absent = np.array([value is None or value is pd.NA or value != value for value in values], np.bool_)
    if column.type == "VARCHAR":
        return pd.Categorical([None if missing else value for missing, value in zip(absent, values, strict=True)])
    numbers = [0 if missing else value for missing, value in zip(absent, values, strict=True)]
    if column.type == "BIGINT":
        return pd.arrays.IntegerArray(np.array(numbers, np.int64), absent)
    if column.type == "DOUBLE":
        return pd.arrays.FloatingArray(np.array(numbers, np.float64), absent)
    return pd.arrays.BooleanArray(np.array(numbers, np.bool_), absent)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as plain values of Python by column; what is missing is None."""
    columns = {
        str(name): [None if value is pd.NA or value != value else value for value in table[name].tolist()]
        for name in table.columns
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
