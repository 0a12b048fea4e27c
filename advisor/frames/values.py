"""Plain values of Python as columns of a frame, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from advisor.columns import Series
from advisor.frames.schema import Column

_KINDS: dict[str, type[np.int64 | np.float64 | np.bool_]] = {
    "BIGINT": np.int64,
    "DOUBLE": np.float64,
    "BOOLEAN": np.bool_,
}


def typed(values: Sequence[Any], column: Column) -> Series:
    """Plain values as the column has them; None and NaN are missing, not NaN or 0."""
    blank = [is_missing(value) for value in values]
    if column.type == "VARCHAR":
        return Series.texts([None if missing else value for missing, value in zip(blank, values, strict=True)])
    numbers = [0 if missing else value for missing, value in zip(blank, values, strict=True)]
    return Series(np.array(numbers, _KINDS[column.type]), np.array(blank, np.bool_))


def plain(value: Any, column: Column) -> Any:
    """Return one value as the column gives it back: what is missing is None."""
    if is_missing(value):
        return None
    return value if column.type == "VARCHAR" else _PYTHON[column.type](value)


_PYTHON: dict[str, type[int | float | bool]] = {"BIGINT": int, "DOUBLE": float, "BOOLEAN": bool}


def is_missing(value: Any) -> bool:
    """Tell whether a value is missing: None, NaN, or what pandas has for it, which is neither equal nor unequal to itself."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)
