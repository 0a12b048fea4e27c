"""Tables that grow in place as a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from advisor.reading.columns import Table

_ROOM = 1 << 12


class Grown:
    """A table that grows in place: thousands of small arrays would leave gaps in memory that nothing fits into."""

    def __init__(self) -> None:
        self._columns: Table = {}
        self._size = 0

    def append(self, table: Table) -> None:
        """Add rows. Every table has the same columns, but for one that some lack: there it is -1."""
        size = self._size + len(table["ts"])
        for key, column in table.items():
            room = self._columns.get(key)
            if room is None:
                room = self._columns[key] = np.empty(max(size, _ROOM), column.dtype)
                room[: self._size] = -1
            if len(room) < size:
                room.resize(max(size, len(room) * 5 // 4), refcheck=False)
            room[self._size : size] = column
        for key in self._columns.keys() - table.keys():
            room = self._columns[key]
            if len(room) < size:
                room.resize(max(size, len(room) * 5 // 4), refcheck=False)
            room[self._size : size] = -1
        self._size = size

    def drop(self, key: str) -> None:
        """Let go of a column."""
        self._columns.pop(key, None)

    def finish(self) -> Table:
        """The whole table."""
        for column in self._columns.values():
            column.resize(self._size, refcheck=False)
        return self._columns
