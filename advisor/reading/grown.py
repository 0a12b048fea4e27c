"""Tables that grow in place as a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from advisor.reading.columns import Array, Table

_ROOM = 1 << 12


class Grown:
    """A table that grows in place: thousands of small arrays would leave gaps in memory that nothing fits into."""

    def __init__(self) -> None:
        self._columns: Table = {}
        self._size = 0
        self._filled: set[str] = set()

    def append(self, table: Table) -> None:
        """Add rows. Every table has the same columns, but for one that some lack: there it is -1."""
        rows = len(table["ts"])
        for key, column in table.items():
            self.room(key, column.dtype, rows)[:] = column
        self.close(rows)

    def room(self, key: str, kind: np.dtype[Any], rows: int) -> Array:
        """Make room for so many rows more of a column, to be filled before :meth:`close` adds them."""
        size = self._size + rows
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = np.empty(max(size, _ROOM), kind)
            column[: self._size] = -1
        if len(column) < size:
            column.resize(max(size, len(column) * 5 // 4), refcheck=False)
        self._filled.add(key)
        return column[self._size : size]

    def close(self, rows: int) -> None:
        """Add the rows that every column has been filled with; -1 where one was not."""
        for key in self._columns.keys() - self._filled:
            self.room(key, self._columns[key].dtype, rows)[:] = -1
        self._filled.clear()
        self._size += rows

    def columns(self) -> list[tuple[str, Array]]:
        """Return the columns by name, as far as they are filled."""
        return [(key, column[: self._size]) for key, column in self._columns.items()]

    def drop(self, key: str) -> None:
        """Let go of a column."""
        self._columns.pop(key, None)

    def finish(self) -> Table:
        """The whole table."""
        for column in self._columns.values():
            column.resize(self._size, refcheck=False)
        return self._columns
