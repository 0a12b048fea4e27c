"""The table of start-up: spans of the host's time, each with the node that shows it and its kind."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints, Spans, union
from advisor.timeline import waits as w

KINDS = (
    "loading",
    "selection",
    "specialization",
    "compilation",
    "capture",
    "allocation",
    "first call",
    "initialization",
    "first iteration",
    "context",
)
(
    LOADING, SELECTION, SPECIALIZATION, COMPILATION, CAPTURE, ALLOCATION, FIRST_CALL, INITIALIZATION, FIRST_ITERATION, CONTEXT,
) = range(len(KINDS))  # fmt: skip

# A call that takes so long sets something up, whatever it is called.
LONG_NS = 2_000_000
# A first call counts from here on, where it takes so many times as long as its like.
LEAST_NS, TIMES = 500_000, 10
# So few calls have no like.
FEW = 3


class Startup(w.Waits):
    """Spans of start-up by the node that shows each (-1 for overhead events), with its kind (an index into ``KINDS``)."""

    kind: Ints

    def part(self, kind: int) -> Spans:
        """Time of one kind."""
        rows = self.kind == kind
        return union(self.start[rows], self.end[rows])


class Rows:
    """Spans in the making."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Ints, Ints]] = []

    def add(self, kind: int, node: Ints, start: Ints, end: Ints) -> None:
        """Add spans of one kind."""
        self._parts.append((node, start, end, np.full(len(node), kind, np.int64)))

    def spans(self, *kinds: int) -> Spans:
        """Time of what was added so far of some kinds."""
        table = self.table()
        rows = np.isin(table.kind, kinds)
        return union(table.start[rows], table.end[rows])

    def table(self) -> Startup:
        """Return all that was added, in order of start."""
        nothing = np.zeros(0, np.int64)
        columns = [np.concatenate([nothing, *parts]) for parts in zip(*self._parts, strict=True)] or [nothing] * 4
        order = np.argsort(columns[1], kind="stable")
        node, start, end, kind = (column[order] for column in columns)
        return Startup(node, start, end, kind)
