"""Tables of the host's events in a large recording, without a second copy of what the forest holds of them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.intervals import Ints
from advisor.timeline.calls import GROUPS

if TYPE_CHECKING:
    from advisor.reading.columns import Array, Table
    from advisor.timeline.calls import Host

LEAST = 1 << 18
"""Events from which on their table is worth it."""
_MADE = {"python": ("name", "thread", "ts", "dur"), "op": ("ts", "dur"), "runtime": ("ts", "dur")}
"""Columns that are made of the forest, by group: names and threads of operators and calls are asked for more often."""


def replace(tables: dict[str, Table], host: Host, zero_ns: int) -> None:
    """Put lean tables in the place of large ones."""
    for group in _MADE:
        if group in tables and len(tables[group]["ts"]) >= LEAST:
            tables[group] = Lean(host, group, tables[group], zero_ns)


class Lean(dict[str, Any]):
    """A table of which some columns are made of the forest each time that somebody asks for one."""

    def __init__(self, host: Host, group: str, table: Table, zero_ns: int) -> None:
        made = _MADE[group]
        super().__init__({key: column for key, column in table.items() if key not in made})
        self._host, self._group, self._zero_ns = host, group, zero_ns
        end = int((table["ts"] + table["dur"]).max(initial=np.iinfo(np.int64).min))
        self.span = int(table["ts"].min()), end
        """Start of the first event and the latest end, on the file's own clock."""
        self._types = {key: table[key].dtype for key in made}
        nodes, rows = self._places()
        dur: Ints = table["dur"][rows]
        longer = np.flatnonzero(dur != host.end[nodes] - host.start[nodes])
        # Events whose ends were cut to those of what they lie in.
        self._longer, self._dur = (longer if isinstance(rows, slice) else rows[longer]), dur[longer]

    def _places(self) -> tuple[Ints, Ints | slice]:
        """Nodes of the events, and the row of each."""
        if self._group in self._host.node_of:
            return self._host.node_of[self._group], slice(None)
        nodes = np.flatnonzero(self._host.group == GROUPS.index(self._group)).astype(np.int32)
        return nodes, self._host.row[nodes]

    def __missing__(self, key: str) -> Array:
        if key not in self._types:
            raise KeyError(key)
        nodes, rows = self._places()
        host, out = self._host, np.empty(len(nodes), self._types[key])
        if key == "ts":
            out[rows] = host.start[nodes]
            out += self._zero_ns
        elif key == "dur":
            out[rows] = host.end[nodes] - host.start[nodes]
            out[self._longer] = self._dur
        else:
            out[rows] = (host.name if key == "name" else host.thread)[nodes]
        return out

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._types

    def __iter__(self) -> Iterator[str]:
        yield from self._types
        yield from super().__iter__()

    def __len__(self) -> int:
        return super().__len__() + len(self._types)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """The names of all columns."""
        return KeysView(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """All columns."""
        return ValuesView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """All columns by name."""
        return ItemsView(self)

    def get(self, key: str, default: Any = None) -> Any:
        """A column; *default* where there is none."""
        try:
            return self[key]
        except KeyError:
            return default
