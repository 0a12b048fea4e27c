"""Columns of a frame side by side: numbers, yes and no, and texts, in which values may be missing.

pandas, which users get these as, takes 0.2 s to import: longer than a small trace takes to analyze.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from advisor.intervals import Bools, Ints, distinct

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]


class Series:
    """One column. *values* are numbers or truth values, of which *missing* flags those that are unknown, as NaN is; or, of texts,
    codes into *words*, -1 for what is missing."""

    __slots__ = ("missing", "values", "words")

    def __init__(self, values: Array, missing: Bools | None = None, words: tuple[str, ...] | None = None) -> None:
        self.values, self.missing, self.words = values, missing, words

    @classmethod
    def texts(cls, values: Iterable[str | None]) -> Series:
        """Texts as they stand in the rows; None for what is missing."""
        rows = list(values)
        words = tuple(sorted({text for text in rows if text is not None}))
        codes = {text: code for code, text in enumerate(words)}
        return cls(np.array([-1 if text is None else codes[text] for text in rows], np.int64), words=words)

    @classmethod
    def of(cls, values: object, length: int) -> Series:
        """Make a column of what a builder gives: one of these, an array, a list, or one number for all rows.

        Raises ``TypeError`` for what is neither numbers nor texts.
        """
        if isinstance(values, Series):
            return values
        if isinstance(values, bool | int | float | np.generic):
            return cls(np.full(length, values))
        array = np.asarray(values)
        if array.dtype.kind == "O" and not all(text is None or isinstance(text, str) for text in array):
            raise TypeError("a column is numbers, truth values or texts; what is missing of numbers is flagged")
        return cls.texts(array.tolist()) if array.dtype.kind in "OU" else cls(array)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        raise TypeError("a column is compared by equals()")  # as arrays are, row by row, it would seem to be

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, rows: Bools | Ints | slice) -> Series:
        missing = None if self.missing is None else self.missing[rows]
        return Series(self.values[rows], missing, self.words)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.to_numpy() if dtype is None else self.to_numpy().astype(dtype)

    @property
    def is_text(self) -> bool:
        """True of texts."""
        return self.words is not None

    def isna(self) -> Bools:
        """Flag what is missing."""
        if self.words is not None:
            flags: Bools = self.values < 0
        elif self.missing is not None:
            flags = self.missing
        else:
            flags = np.isnan(self.values) if self.values.dtype.kind == "f" else np.zeros(len(self.values), np.bool_)
        return flags

    def notna(self) -> Bools:
        """Flag what is known."""
        return ~self.isna()

    def tolist(self) -> list[Any]:
        """Return plain values of Python; None for what is missing."""
        if self.words is not None:
            texts = [*self.words, None]
            return [texts[code] for code in self.values.tolist()]
        values: list[Any] = self.values.tolist()
        missing = self.isna()
        return (
            [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]
            if missing.any()
            else values
        )

    def at(self, row: int) -> Any:
        """Return the value of one row; None where it is missing."""
        return self[np.array([row])].tolist()[0]

    def to_numpy(self, dtype: npt.DTypeLike | None = None, na_value: Any = ...) -> Array:
        """Return numbers or truth values as an array, texts as one of objects; *na_value* in place of what is missing.

        Raises ``ValueError`` where something is missing that *na_value* does not say.
        """
        if self.words is not None:
            return np.array([*self.words, None], np.object_)[self.values]
        if self.missing is None or not self.missing.any():
            return self.values if dtype is None else self.values.astype(dtype, copy=False)
        if na_value is ...:
            raise ValueError("what is missing has no number")
        out = self.values.astype(self.values.dtype if dtype is None else dtype)
        out[self.missing] = na_value
        return out

    def equals(self, value: object) -> Bools:
        """Flag the rows of a value; none that is missing."""
        return self.within((value,))

    def within(self, values: Iterable[Any]) -> Bools:
        """Flag the rows of some values; none that is missing."""
        if self.words is not None:
            wanted = set(values)
            return np.array([*(word in wanted for word in self.words), False], np.bool_)[self.values]
        return np.isin(self.values, list(values)) & self.notna()

    def used(self) -> Series:
        """Return texts with those words alone that a row has, in their order."""
        if self.words is None:
            return self
        codes = distinct(self.values[self.values >= 0])
        place = np.full(len(self.words) + 1, -1, np.int64)
        place[codes] = np.arange(len(codes))
        return Series(place[self.values], words=tuple(self.words[code] for code in codes.tolist()))

    def replaced(self, rows: Bools, text: str) -> Series:
        """Return texts with another one in some rows."""
        assert self.words is not None
        words = self.words if text in self.words else (*self.words, text)
        return Series(np.where(rows, words.index(text), self.values), words=words)

    def pandas(self) -> Any:
        """Return a copy as pandas has it: a categorical, an array in which values may be missing, or numpy's."""
        import pandas as pd

        if self.words is not None:
            dtype = pd.CategoricalDtype(pd.Index(list(self.words), dtype=object))
            return pd.Categorical.from_codes(self.values.copy(), dtype=dtype, validate=False)
        if self.missing is None:
            return self.values.copy()
        kinds = {"b": pd.arrays.BooleanArray, "f": pd.arrays.FloatingArray}
        kind = kinds.get(self.values.dtype.kind, pd.arrays.IntegerArray)
        return kind(self.values.copy(), self.missing.copy())


class Columns:
    """The columns of a frame, or some of them, by name. Its length is that of each: the rows.

    Raises ``ValueError`` for columns of different lengths.
    """

    __slots__ = ("_columns", "_length")

    def __init__(self, columns: Mapping[str, object]) -> None:
        lengths = {len(values) for values in columns.values() if isinstance(values, Sized)}
        if len(lengths) > 1:
            sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items() if isinstance(values, Sized))
            raise ValueError(f"columns of different lengths: {sizes}")
        self._length = lengths.pop() if lengths else 0
        self._columns = {name: Series.of(values, self._length) for name, values in columns.items()}

    @classmethod
    def of_pandas(cls, table: pd.DataFrame) -> Columns:
        """Take a DataFrame apart."""
        return cls({str(name): _of_series(table[name]) for name in table.columns})

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Series:
        return self._columns[name]

    def items(self) -> Iterable[tuple[str, Series]]:
        """Names with their columns."""
        return self._columns.items()

    @property
    def names(self) -> list[str]:
        """Names of the columns, in their order."""
        return list(self._columns)

    def pick(self, names: Sequence[str]) -> Columns:
        """Some columns, as they are."""
        return Columns({name: self._columns[name] for name in names})

    def rows(self, rows: Bools | Ints | slice, names: Sequence[str] | None = None) -> Columns:
        """Some rows, of all columns or of those named."""
        return Columns({name: self._columns[name][rows] for name in (self.names if names is None else names)})

    def with_columns(self, columns: Mapping[str, object]) -> Columns:
        """These columns and others, which take the place of those of their names."""
        added = {name: Series.of(values, self._length) for name, values in columns.items()}
        return Columns(self._columns | added)

    def records(self) -> list[dict[str, Any]]:
        """Rows as plain values by column; None for what is missing."""
        lists = [column.tolist() for column in self._columns.values()]
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def pandas(self) -> pd.DataFrame:
        """Return them as a DataFrame."""
        import pandas as pd

        return pd.DataFrame({name: column.pandas() for name, column in self._columns.items()}, copy=False)


def _of_series(series: pd.Series[Any]) -> Series:
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int64)  # of 8 bits where they fit: one more would not
        return Series(codes, words=tuple(str(word) for word in series.cat.categories))
    if pd.api.types.is_extension_array_dtype(kind) and not pd.api.types.is_string_dtype(kind):
        numpy_kind: Any = {"boolean": np.bool_, "Float64": np.float64}.get(str(kind), np.int64)
        return Series(series.to_numpy(numpy_kind, na_value=0), series.isna().to_numpy(np.bool_))
    if pd.api.types.is_string_dtype(kind) or str(kind) == "object":
        return Series.texts(None if pd.isna(value) else str(value) for value in series)
    return Series(series.to_numpy())
